# --measure: what is measured of each call beside its time.

require_relative "helper"
require_relative "measured"

class MeasureTest < LiveTest
  PROGRAM = MEASURED + <<~RUBY
    class Measured
      def collect
        GC.start(full_mark: true, immediate_sweep: true)
        nil
      end

      def collect_in_steps
        20.times { GC.start(full_mark: true, immediate_mark: false, immediate_sweep: false); Array.new(20_000) { Object.new } }
        nil
      end

      def collect_inside
        collect
      end

      def compact
        GC.respond_to?(:compact) ? GC.compact : GC.start
        GC.respond_to?(:verify_compaction_references) && 3.times { GC.start }
        nil
      end

      def wait_for_collector
        Thread.new { sleep 0.01; 10.times { GC.start } }.join
      end
    end
    $measured = Measured.new
  RUBY

  # The calls that the code makes, by method. The VM keeps caches in objects: their first calls allocate more.
  def calls_of(code, *arguments)
    target = start("console")
    target.run(PROGRAM)
    tracer = trace(target, "--format", "json", *arguments)
    target.run(code)
    result = tracer.stop
    assert_exit 0, result
    result.events("call").group_by { |call| call["name"] }
  end

  def call_of(name, *arguments)
    calls_of("$measured.#{name}", *arguments, "Measured#").fetch(name[/\w+/]).first
  end

  test "objects that a call allocates" do
    code = "[1, 0, 1, 100, 5000].each { |count| $measured.allocate_some(count) }"
    calls = calls_of(code, "--measure", "alloc", "Measured#").fetch("allocate_some")
    assert_equal [0, 1, 100, 5000], calls.drop(1).map { |call| call["objects"] }
    calls.each { |call| assert_equal %w[objects], call.keys & %w[cpu_ns objects gc_ns] }
  end

  WITH_INNER = <<~RUBY
    class Measured
      def inner(*things)
        things.size
      end

      def fail
        raise ArgumentError, "no"
      end

      def outer(times)
        thing = [1, "two", { a: "three" }]
        i = 0
        while i < times
          inner(thing)
          i += 1
        end
      end

      def rescuing(times)
        i = 0
        while i < times
          begin
            fail
          rescue ArgumentError
            i += 1
          end
        end
      end

      def self.made
        before = GC.stat(:total_allocated_objects)
        yield
        GC.stat(:total_allocated_objects) - before
      end
    end
    4.times { Measured.made { $measured.outer(50) }; Measured.made { $measured.rescuing(50) } }
  RUBY

  SHOWN = [%w[--args], %w[--args --return --inspect], %w[--if=true], %w[--args --locals]].freeze

  test "objects that rbprobe makes for values, conditions and messages, of another client as well, are not the calls'" do
    target = start("console")
    target.run(PROGRAM + WITH_INNER + "nil")
    made = %w[outer rescuing].to_h { |name| [name, Integer(target.run("Measured.made { $measured.#{name}(50) }"))] }
    SHOWN.each do |options|
      tracers = Array.new(2) { trace(target, "--format", "json", "--measure", "alloc", *options, "Measured#") }
      target.run("2.times { $measured.outer(50); $measured.rescuing(50) }; nil")
      tracers.each do |tracer|
        calls = tracer.stop.events("call").group_by { |call| call["name"] }
        assert_equal made, made.to_h { |name, _| [name, calls[name].last["objects"]] }, options.join(" ")
      end
    end
  end

  test "a call that computes has CPU time, one that waits has little" do
    computes = call_of("compute", "--measure=cpu")
    waits = call_of("rest", "--measure=cpu")
    assert_operator computes["cpu_ns"], :>, 100_000
    assert_operator waits["duration_ns"], :>, 50_000_000
    assert_operator waits["cpu_ns"], :<, waits["duration_ns"] / 2
    assert_equal %w[cpu_ns], computes.keys & %w[cpu_ns objects gc_ns]
  end

  test "time in the garbage collector is that of the collections inside" do
    calls = calls_of("$measured.collect_inside; $measured.allocate_some(1)", "--measure", "gc", "Measured#")
    inner, outer = %w[collect collect_inside].map { |name| calls[name].first }
    assert_operator inner["gc_ns"], :>, 0
    assert_operator inner["gc_ns"], :<=, inner["duration_ns"]
    assert_operator outer["gc_ns"], :>=, inner["gc_ns"]
    assert_operator outer["gc_ns"], :<=, outer["duration_ns"]
    assert_equal 0, calls["allocate_some"].first["gc_ns"]
  end

  test "incremental steps, lazy sweeping and compaction leave the collector's clock standing" do
    target = start("console")
    target.run(PROGRAM)
    tracer = trace(target, "--format", "json", "--measure", "gc", "Measured#")
    target.run("3.times { $measured.collect_in_steps; $measured.compact; GC.start; $measured.rest; $measured.compute }")
    calls = tracer.stop.events("call").group_by { |call| call["name"] }
    assert_operator calls["collect_in_steps"].first["gc_ns"], :>, 0
    calls.each_value do |list|
      list.each { |call| assert_operator call["gc_ns"], :<=, call["duration_ns"] }
    end
    assert_equal [0], calls["rest"].map { |call| call["gc_ns"] }.uniq
    assert_equal [0], calls["compute"].map { |call| call["gc_ns"] }.uniq
  end

  test "collections of another thread while a call waits are not its own" do
    call = call_of("wait_for_collector", "--measure", "gc")
    assert_equal 0, call["gc_ns"]
  end

  test "a call that raises or returns a value has its numbers, too" do
    calls = calls_of("2.times { $measured.allocate_some(3) }; begin; $measured.fail_after_allocating; rescue ArgumentError; end",
                     "--return", "--measure", "alloc,cpu,gc", "Measured#")
    _, returned = calls["allocate_some"]
    raised, = calls["fail_after_allocating"]
    assert_equal ["nil", 3], returned.values_at("result", "objects")
    assert_equal({ "class" => "ArgumentError", "message" => "no" }, raised["exception"])
    assert_operator raised["objects"], :>=, 11
    [returned, raised].each { |call| assert_equal %w[cpu_ns objects gc_ns], call.keys & %w[cpu_ns objects gc_ns] }
  end

  test "methods written in C, and engine hook" do
    { "patch" => "String#gsub", "hook" => "String#gsub" }.each do |engine, selector|
      call = calls_of("'abc'.gsub('b', 'c')", "--measure", "alloc,cpu,gc", "--engine", engine, selector)["gsub"].first
      assert_operator call["objects"], :>, 0
      assert_operator call["cpu_ns"], :>, 0
      assert_kind_of Integer, call["gc_ns"]
    end
    code = "2.times { $measured.allocate_some(7) }"
    calls = calls_of(code, "--measure", "alloc", "--engine", "hook", "Measured#")["allocate_some"]
    assert_equal 7, calls.last["objects"]
  end

  test "calls that meet conditions have them" do
    calls = calls_of("$measured.rest; $measured.compute; $measured.allocate_some(9)",
                     "--slow", "40", "--measure", "cpu,alloc,gc", "Measured#")
    assert_equal %w[rest], calls.keys
    assert_equal %w[cpu_ns objects gc_ns], calls["rest"].first.keys & %w[cpu_ns objects gc_ns]
  end

  test "in text they stand after the time" do
    target = start("console")
    target.run(PROGRAM)
    target.run("$measured.allocate_some(12)")
    tracer = trace(target, "--measure", "gc,alloc,cpu", "Measured#allocate_some")
    target.run("$measured.allocate_some(12)")
    assert_match(/\AMeasured#allocate_some <\d+\.\d{6} cpu \d+\.\d{6} alloc 12 gc 0\.000000>\n\z/, tracer.stop.stdout)
    tracer = trace(target, "-n", "--measure", "alloc", "Measured#allocate_some")
    target.run("$measured.allocate_some(12)")
    assert_equal "Measured#allocate_some <alloc 12>\n", tracer.stop.stdout
  end

  test "the collector is followed only while a trace wants it" do
    target = start("console")
    target.run(PROGRAM)
    2.times do
      first = trace(target, "--measure", "gc", "--format", "json", "Measured#")
      second = trace(target, "--measure", "gc", "--format", "json", "Measured#")
      target.run("$measured.collect")
      first.stop
      target.run("$measured.collect")
      assert_equal 2, second.stop.events("call").count { |call| call["gc_ns"].positive? }
    end
    target.run("$measured.collect")
  end

  test "what is no measure is refused" do
    ["", "wall", "cpu,", "cpu,,gc"].each do |text|
      assert_refused 2, /--measure takes cpu, alloc, gc and span/, "trace", "-p", "1", "--measure", text, "Order#"
    end
  end

  # All methods are armed in many jobs, each inside whatever its thread is doing.
  test "what arming takes is no CPU time of the calls that are under way meanwhile" do
    target = start("console")
    path = "#{shared_directory}/armed"
    sleeping = Thread.new { target.run("sleep 0.003 until File.exist?(#{path.dump})") }
    tracer = launch("trace", "-v", "-f", "--no-hook", "--slow-cpu", "4", "--measure", "cpu", "--max-overhead", "0",
                    "-p", target.pid.to_s).wait_until_armed
    File.write(path, "")
    sleeping.join
    result = tracer.stop
    assert_equal [], result.stdout.lines.grep(/Kernel#sleep </)
  end
end
