# An application that has switched GC.stress on, where every allocation is a full garbage collection: rbprobe's own work is
# spared that, and the application keeps its value.

require_relative "helper"

class GcStressTest < LiveTest
  # The application's own part is slow enough as it is.
  def start_with_stress(value, **options)
    start("console", **options).tap { |target| target.run("def work(n); n + 1; end; GC.stress = #{value}; nil") }
  end

  [["true", "work"], ["true", "--firehose"], ["1", "Comparable#clamp"], ["false", "work"]].each do |value, selector|
    test "GC.stress = #{value}: a trace of #{selector} is armed in time, and leaves the value as it is" do
      target = start_with_stress(value)
      tracer = trace(target, selector)
      assert_equal value, target.run("GC.stress")
      assert_equal "8", target.run("work(7)")
      assert_exit 0, tracer.stop
      assert_equal value, target.run("GC.stress")
    end
  end

  test "so do other commands, and loading" do
    only_where_loading_is_possible
    target = start_with_stress("true", load: false)
    [%w[methods -p], %w[backtrace -p]].each do |command, option|
      arguments = command == "methods" ? ["Kernel#puts"] : []
      assert_exit 0, rbprobe(command, option, target.pid.to_s, "--timeout", "30", *arguments)
      assert_equal "true", target.run("GC.stress")
    end
  end

  test "what the application sets while a trace is being armed stays" do
    target = start("console")
    target.run("2000.times { |i| Object.const_set(%(Wide\#{i}), Class.new { def b; end }) }; nil")
    target.run("$setter = Thread.new { loop { GC.stress = false; Thread.pass } }; GC.stress = true; nil")
    3.times do
      tracer = trace(target, "Wide*#b", "Module#", "--timeout", "30")
      assert_equal "false", target.run("Thread.pass; GC.stress")
      assert_exit 0, tracer.stop
    end
    assert_equal "false", target.run("GC.stress")
    assert_equal "true", target.run("$setter.kill.join; GC.stress = true; GC.stress")
    tracer = trace(target, "Wide*#b", "--timeout", "30")
    assert_equal "true", target.run("GC.stress")
    assert_exit 0, tracer.stop
    assert_equal "true", target.run("value = GC.stress; GC.stress = false; value")
  end

  test "another thread that switches it on and off all the time has the last word, and the collector works afterwards" do
    target = start("console")
    target.run("$wrong = []; $busy = Array.new(3) { Thread.new { Array.new(50, &:to_s) until $over } }; nil")
    target.run("$toggler = Thread.new { until $over; GC.stress = true; 3.times(&:to_s); GC.stress = false; " \
               "5.times { Thread.pass; $wrong << GC.stress if GC.stress }; end }; nil")
    25.times do |i|
      assert_exit 0, rbprobe("eval", "-p", target.pid.to_s, "--timeout", "30", *(i.odd? ? ["--main"] : []), "#{i} + 1")
    end
    2.times { assert_exit 0, trace(target, "--firehose", "--timeout", "30").stop }
    assert_equal "[[], false, false]", target.run("$over = true; [$toggler, *$busy].each(&:join); [$wrong, GC.stress, GC.enable]")
  end
end
