# rbprobe stat --measure: the sums of what a full trace measures of each call.

require_relative "helper"
require_relative "measured"
require_relative "stat_rows"

class StatMeasureTest < LiveTest
  include StatRows

  PROGRAM = MEASURED + <<~RUBY
    class Measured
      def collect
        allocate_some(5)
        GC.start(full_mark: true, immediate_sweep: true)
      end

      def passed_by
        allocate_some(3)
        throw :out
      end

      def deep
        deep
      end

      def down(levels)
        levels.zero? ? allocate_some(2) : down(levels - 1)
      end

      def inside_fiber
        allocate_some(4)
        Fiber.yield
        allocate_some(4)
      end

      def self.all
        measured = new
        [1, 0, 100, 5000].each { |count| measured.allocate_some(count) }
        3.times { measured.compute }
        2.times { measured.collect }
        3.times { measured.fail_after_allocating rescue nil }
        2.times { catch(:out) { measured.passed_by } }
        measured.down(20)
        3.times { fiber = Fiber.new { measured.inside_fiber }; 2.times { fiber.resume } }
        2.times { Thread.new { 10.times { measured.allocate_some(7) } }.join }
        5.times { |i| "text".center(i + 10) }
        measured.rest
        "done"
      end
    end
  RUBY
  SELECTORS = ["Measured#", "String#center"].freeze

  def prepared
    start("console").tap { |target| target.run("eval(#{PROGRAM.dump}, TOPLEVEL_BINDING)") }
  end

  def sum(calls, field)
    calls.sum { |call| call[field] || 0 }
  end

  # The VM's caches are objects, too, and so is what rbprobe makes for a new fiber: outside of the calls, and the first time.
  test "objects are the sums of a full trace" do
    target = prepared
    target.run("Measured.all")
    tracer = trace(target, "--format", "json", "--measure", "alloc", *SELECTORS)
    2.times { target.run("Measured.all") }
    traced = tracer.stop.events("call").group_by { |call| call["method"] }
    counter = stat(target, "--format", "json", "--measure", "alloc", *SELECTORS)
    2.times { target.run("Measured.all") }
    counted = rows(counter.stop)
    assert_equal traced.transform_values { |calls| [calls.size, sum(calls, "objects")] },
                 (counted.transform_values { |row| row.values_at("calls", "allocations") })
    assert_operator counted["Measured#allocate_some"]["allocations"], :>, 10_000
  end

  test "time in GC is the sum of a full trace that looks at the same time; CPU time is close to it" do
    target = prepared
    tracer = trace(target, "--format", "json", "--measure", "cpu,alloc,gc", *SELECTORS)
    counter = stat(target, "--format", "json", "--measure", "cpu,alloc,gc", *SELECTORS)
    target.run("Measured.all")
    traced = tracer.stop.events("call").group_by { |call| call["method"] }
    counted = rows(counter.stop)
    assert_equal traced.transform_values(&:size), (counted.transform_values { |row| row["calls"] })
    assert_equal traced.transform_values { |calls| sum(calls, "gc_ns") }, (counted.transform_values { |row| row["gc_ns"] })
    assert_operator counted["Measured#collect"]["gc_ns"], :>, 0
    computed, of_trace = counted["Measured#compute"]["cpu_ns"], sum(traced["Measured#compute"], "cpu_ns")
    assert_operator computed, :>, 1_000_000
    assert_in_delta of_trace, computed, of_trace / 2
    assert_operator counted["Measured#rest"]["cpu_ns"], :<, counted["Measured#rest"]["total_ns"] / 2
    refute(counted.values.any? { |row| row.key?("unmeasured") })
  end

  test "nothing but what was asked for, also apart by key, and what has come since" do
    target = prepared
    target.run("$measured = Measured.new; 2.times { $measured.allocate_some(1) }")
    counter = stat(target, *%w[--format json --measure alloc --by class --interval 0.2 Measured#allocate_some])
    target.run("3.times { $measured.allocate_some(5) }")
    counter.wait_for(/"interval":\d+,"method":"Measured#allocate_some","class":"Measured","calls":3,[^}]*"allocations":15,/)
    target.run("2.times { $measured.allocate_some(6) }")
    counter.wait_for(/"interval":\d+,"method":"Measured#allocate_some","class":"Measured","calls":2,[^}]*"allocations":12,/)
    row = counter.stop.events("method").last
    assert_equal [nil, 27, nil], row.values_at("cpu_ns", "allocations", "gc_ns")
  end

  test "only calls that meet the conditions, and frames that vanish" do
    target = prepared
    counter = stat(target, "--format", "json", "--measure", "alloc,cpu,gc", "--slow", "40",
                   "Measured#rest", "Measured#fail_after_allocating")
    target.run("Measured.all")
    assert_equal ["Measured#rest"], rows(counter.stop).keys
    counter = stat(target, "--format", "json", "--measure", "alloc", "--if", "error", "Measured#")
    target.run("2.times { Measured.new.fail_after_allocating rescue nil }")
    row = rows(counter.stop).fetch("Measured#fail_after_allocating")
    assert_equal 2, row["calls"]
    assert_operator row["allocations"], :>=, 22
    counter = stat(target, "--measure", "alloc", "Measured#deep", "Measured#allocate_some")
    target.run("begin; Measured.new.deep; rescue SystemStackError; end; Measured.new.allocate_some(0)")
    assert_match(/^cpu, gc and allocs are without some of \d+ calls: their end was not seen/, counter.stop.stdout)
  end

  test "columns for people, sorted by them, and metrics" do
    target = prepared
    target.run("$measured = Measured.new; $measured.allocate_some(1)")
    counter = stat(target, "--measure=cpu,alloc,gc", "--sort=allocs", "Measured#allocate_some", "Measured#compute")
    target.run("$measured.compute; 2.times { $measured.allocate_some(6) }")
    lines = counter.stop.stdout.lines
    assert_match(/\A +calls +errors +total +self +cpu +gc +allocs +mean .* max  method\n\z/, lines[1])
    assert_match(/\A +2 +0 +\S+ +\S+ +[\d.]+[num]s +[\d.]+[num]s +12 .*  Measured#allocate_some\n\z/, lines[2])
    counter = stat(target, "--format", "prometheus", "--measure=alloc", "Measured#allocate_some")
    target.run("2.times { $measured.allocate_some(6) }")
    text = counter.stop.stdout
    assert_match(/^rbprobe_method_allocations_total\{pid="#{target.pid}",method="Measured#allocate_some"\} 12$/, text)
    refute_match(/cpu|gc/, text)
  end

  test "what makes no sense is refused" do
    assert_refused 2, /--calls only counts calls, which --measure measures/, "stat", "-p", "1", "--calls", "--measure=cpu", "A#"
    assert_refused 2, /--sort cpu, gc and allocs need --measure/, "stat", "-p", "1", "--sort", "cpu", "A#"
    assert_refused 2, /--sort cpu, gc and allocs need --measure/, "stat", "-p", "1", "--sort", "allocs", "--measure", "gc", "A#"
    assert_refused 2, /--measure takes cpu, alloc, gc and span/, "stat", "-p", "1", "--measure", "wall", "A#"
  end
end
