# What the extension keeps, and what the garbage collector does meanwhile.

require_relative "helper"

class MemoryTest < LiveTest
  # KiB that a process has of its own.
  def private_kib_of(target)
    File.read("/proc/#{target.pid}/smaps_rollup").scan(/^Private_(?:Dirty|Clean):\s*(\d+)/).flatten.sum(&:to_i)
  end

  def only_without_sanitizers
    skip "a sanitizer's memory is not ours" unless Processes::TARGET_ENV.empty?
  end

  test "a process that has only loaded the extension has at most 1 MiB more" do
    only_without_sanitizers
    without, with = [false, true].map do |load|
      Array.new(3) do
        start("console", load: load).tap { |target| target.run("GC.start; nil") }.then { |target| private_kib_of(target) }
      end.min
    end
    assert_operator with - without, :<=, 1024
  end

  test "attached, at most 16 MiB more, and all of it comes back" do
    only_without_sanitizers
    target = start("busy")
    assert_attachable(target)
    # Once for what Ruby keeps for good: room for the Bindings that arguments are read from, and its threads' stacks.
    attached_kib_of(target)
    before = private_kib_of(target)
    assert_operator attached_kib_of(target) - before, :<=, 16 * 1024
    wait_until(-> { "#{private_kib_of(target)} KiB are #{before} again" }) { private_kib_of(target) - before < 1024 }
  end

  # Traces at full rate a client that does not read, so that all is filled that can be, and lets go again.
  def attached_kib_of(target)
    tracer = trace(target, "--args", "Work#step", stdout: File::NULL)
    tracer.signal(:STOP)
    steps = target.run("steps").to_i
    target.run("go")
    wait_until("much has happened") { target.run("steps").to_i > steps + 500_000 }
    attached = private_kib_of(target)
    tracer.signal(:CONT)
    target.run("halt")
    tracer.stop
    target.run("GC.start; nil")
    attached
  end

  test "threads and fibers that come and go are forgotten" do
    target = start("shop")
    tracer = trace(target, "Shop#price", stdout: File::NULL)
    target.run("def wave; 500.times { Thread.new { $shop.price(:a) }.join; Fiber.new { $shop.price(:b) }.resume }; GC.start; " \
               "end; wave; wave")
    before = Processes.resident_kib_of(target.pid)
    target.run("4.times { wave }")
    more = Processes.resident_kib_of(target.pid) - before
    result = tracer.stop
    assert_equal 6000, result.summary("calls") + result.summary("lost")
    assert_operator more, :<, 8192, "KiB" if Processes::TARGET_ENV.empty?
  end

  test "GC.stress" do
    target = start("shop")
    tracer = trace(target, "--format", "json", "--args", "--return", "Shop#(self, @owner)")
    target.run("GC.stress = true; $shop.sell(:tea, 2, :bag, gift: true); $shop.try(:cup); GC.stress = false")
    calls = tracer.stop.events("call")
    assert_equal %w[Shop#price Shop#sell Shop#refuse Shop#try], calls.map { |call| call["method"] }
    assert_equal ["300", "600", nil, ":sorry"], calls.map { |call| call["result"] }
    assert_equal [["#<Shop>", '"Ada"']], calls.map { |call| call["values"].values_at("self", "@owner") }.uniq
  end

  test "arming and disarming under GC.stress" do
    target = start("shop")
    target.run("GC.stress = true")
    tracer = trace(target, "--timeout", "60", "Shop#price(self, item)", "Shop#nothing", "Shop#cost*")
    target.run("$shop.price(:a)")
    # So slow that the call may be shown before it ends, and its end in a line of its own.
    assert_match(/\AShop#price\(self=#<Shop>, item=:a\)( <time>|\nShop#price <time>)\n\z/, tracer.stop.tree)
    target.run("GC.stress = false")
  end

  test "GC.compact moves everything and the selection still holds" do
    target = start("shop")
    unless target.run("GC.respond_to?(:compact) && (GC.compact; true) rescue false") == "true"
      skip "this Ruby cannot compact here"
    end
    target.run("$garbage = Array.new(100_000) { Object.new }; $shops = Array.new(1000) { Shop.new }; nil")
    tracer = trace(target, "--args", "Shop#price(self, @owner)")
    target.run("$garbage = nil; GC.start; 3.times { GC.compact }; GC.verify_compaction_references rescue nil; " \
               "$shops.last.price(:a); nil")
    target.run("GC.auto_compact = true if GC.respond_to?(:auto_compact=); 3.times { GC.start }; $shops.first.price(:b); nil")
    lines = tracer.stop.tree.lines
    assert_equal %w[:a :b], lines.map { |line| line[/item=(:\w)/, 1] }
    assert(lines.all? { |line| line.include?('@owner="Ada"') })
  end

  test "Ractors: those of others are not followed, and nothing breaks" do
    skip "no Ractors before 3.0" unless target_ruby?(">= 3.0")
    target = start("shop", ruby_options: ["-W:no-experimental"])
    only_where_ractors_can_be_traced
    target.run("$ractors = Array.new(2) { Ractor.new { loop { Shop.new.price(:elsewhere) } } }; nil")
    3.times do
      tracer = trace(target, "Shop#price(item)")
      target.run("$shop.price(:here)")
      tree = tracer.stop.tree
      assert_includes tree, "Shop#price(item=:here) <time>\n"
      refute_includes tree, "elsewhere"
    end
    assert target.alive?
  end

  # TracePoints alone crash such a process.
  test "Ractors: beside YJIT nothing is traced that would crash the process" do
    unless target_ruby?(">= 3.2") && system(*Processes::RUBY, "--yjit", "-e", "exit RubyVM::YJIT.enabled?", err: File::NULL)
      skip "this Ruby has no YJIT that crashes"
    end
    target = start("shop", ruby_options: ["-W:no-experimental", "--yjit"])
    target.run("$ractors = Array.new(2) { Ractor.new { loop { Shop.new.price(:elsewhere) } } }; nil")
    3.times do
      result = rbprobe("trace", "-p", target.pid.to_s, "--yes", "--duration", "0.2", "Shop#price", "Shop#stock", "shop.rb:17")
      refused = result.stderr.scan(/cannot be traced.*this Ruby crashes where tracing begins while YJIT/)
      assert_equal 3, refused.size, result.stderr
      assert_exit 0, rbprobe("bt", "-p", target.pid.to_s, "--locals")
      rbprobe("selftest", "-p", target.pid.to_s)
    end
    assert_equal '"alive"', target.run('"alive"')
  end
end
