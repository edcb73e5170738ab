# Traces that end while our own code is at work in the process: methods are being defined, or seen for the first time, in
# every thread. What a trace leaves behind is freed when the last of them has left.

require_relative "helper"

class LifetimesTest < LiveTest
  TRACES = Integer(ENV.fetch("RBPROBE_TRACES", "15"))

  # One trace after the other, while the target runs that code again and again in so many threads.
  def trace_again_and_again(code, *arguments, threads: 1)
    target = start("console")
    target.run("$threads = Array.new(#{threads}) { Thread.new { loop { #{code} } } }; nil")
    TRACES.times do |i|
      # What the trace before kept alive would be found by this one, and kept alive with what has come since.
      target.run("GC.start; nil")
      result = rbprobe("trace", "-q", "-p", target.pid.to_s, "--yes", "--timeout", "30", "--duration", "0.05", *arguments)
      assert target.alive?, "the target is gone after #{i + 1} traces: #{target.stderr[0, 300]}"
      assert_exit 0, result
    end
    assert_equal "true", target.run("$threads.all?(&:alive?)")
    end_threads(target)
  end

  # One that is killed while a job runs on it says so to whoever joins it.
  def end_threads(target)
    assert_equal "false", target.run("$threads.each(&:kill).each { |t| t.join rescue nil }.any?(&:alive?)")
  end

  REDEFINED = %(Class.new(String) { def upcase; "x"; end }.new("").upcase)
  SINGLETON = %(o = Object.new; o.instance_eval { def once; 1; end }; o.once)

  test "a trace ends while a method is defined that its selector may mean" do
    trace_again_and_again(REDEFINED, "String#upcase")
  end

  test "a trace by engine hook ends while methods of new objects are defined" do
    trace_again_and_again(SINGLETON, "--engine", "hook", "once")
  end

  test "a firehose ends while it sees methods for the first time" do
    trace_again_and_again(SINGLETON, "--firehose", "--args")
  end

  test "the same in several threads" do
    trace_again_and_again("#{REDEFINED}; #{SINGLETON}; sleep 0.001", "--args", "once", "String#upcase(self)", threads: 4)
  end

  test "several clients at once, that come and go while methods are defined in every thread" do
    target = start("console")
    target.run("$threads = Array.new(3) { Thread.new { loop { #{REDEFINED}; #{SINGLETON}; sleep 0.0005 } } }; nil")
    TRACES.times do
      tracers = [["once"], ["--firehose"], ["--engine", "hook", "once"], ["String#upcase", "Array#"]].map do |arguments|
        launch("trace", "-q", "-p", target.pid.to_s, "--yes", "--timeout", "30", "--duration", "0.05", *arguments)
      end
      tracers.each { |tracer| assert_exit 0, tracer.wait }
    end
    end_threads(target)
  end

  test "a trace ends while an expression forks: the child goes on with what it was doing" do
    target = start("console")
    target.run("def forked(n); n + 1; end; nil")
    tracer = trace(target, "Object#forked((n.zero? and $child = fork { $stdout.reopen(IO::NULL); exit!(forked(6)) }; n))")
    assert_equal "1", target.run("forked(0)")
    assert_equal "7", target.run("Process.wait2($child).last.exitstatus")
    assert_equal "3", target.run("forked(2)")
    assert_equal 2, tracer.stop.summary("calls")
  end

  # So many methods that other threads run while they are disarmed. What is left armed calls what is freed: with a sanitizer
  # that is seen.
  test "a process forks while a firehose of it begins or ends: its children call what was traced" do
    target = start("console")
    target.run("$statuses = Hash.new(0); class Many; 4000.times { |i| class_eval(%(def m\#{i}; end)) }; end; nil")
    target.run("def child() 2000.times { |i| [i, i.to_s].inspect.hash.to_s.size }; end; nil")
    target.run("$forks = Thread.new { loop { pid = fork { GC.start; child; exit!(7) }; " \
               "$statuses[Process.wait2(pid).last.to_s[/(exit|SIG).*/]] += 1 } }; nil")
    target.run("$threads = [$forks, Thread.new { loop { sleep 0.002; 'busy'.dup << 'er' } }]; nil")
    (2 * TRACES).times do
      assert_exit 0, rbprobe("trace", "-q", "-f", "--no-hook", "-p", target.pid.to_s, "--timeout", "30", "--duration", "0.02")
    end
    end_threads(target)
    assert_equal '["exit 7"]', target.run("$statuses.keys")
  end
end
