# The bell: a process is reached whatever its main thread is doing, and what it is doing is not disturbed.

require_relative "helper"

class StatesTest < LiveTest
  def ring_often(pid)
    100.times { Process.kill(:URG, pid) }
  end

  STATES = ["sleep", "join", "queue", "select", "mutex", "condition variable", "wait for a child", "blocking read",
            "read of standard input", "accept", "busy", "join with a busy thread", "join with eight busy threads",
            "busy among busy threads"].freeze

  STATES.each do |state|
    test "a process is reached while its main thread is in: #{state}" do
      target = start("states", state)
      3.times { assert_includes assert_attachable(target, "Kernel#puts").stdout, "Kernel#puts" }
      assert target.alive?
    end
  end

  # How long the code takes in the target, in seconds, while a client comes and goes.
  def seconds_while_attached(code)
    target = start("console")
    target.run_in_background("t = Process.clock_gettime(Process::CLOCK_MONOTONIC); #{code}; " \
                             "Process.clock_gettime(Process::CLOCK_MONOTONIC) - t")
    4.times { assert_attachable(target) }
    target.answer.to_f
  end

  test "a sleep is not cut short" do
    assert_operator seconds_while_attached("sleep 1"), :>=, 1
  end

  test "a wait for a condition variable is not cut short" do
    assert_operator seconds_while_attached("(m = Mutex.new).synchronize { ConditionVariable.new.wait(m, 1) }"), :>=, 1
  end

  test "a Mutex#sleep is not cut short" do
    assert_operator seconds_while_attached("(m = Mutex.new).synchronize { m.sleep(1) }"), :>=, 1
  end

  test "a Queue#pop in a thread, a select and a join with a limit are not cut short" do
    code = "threads = [Thread.new { (m = Mutex.new).synchronize { ConditionVariable.new.wait(m, 1) } }, " \
           "Thread.new { sleep 1 }]; IO.select(nil, nil, nil, 1); threads.each(&:join)"
    assert_operator seconds_while_attached(code), :>=, 1
  end

  test "a system call of the application is not interrupted" do
    target = start("console")
    target.run("require 'io/console'; $r, $w = IO.pipe; $t = Thread.new { $r.read(5) }; Thread.pass until $t.stop?")
    4.times { assert_attachable(target) }
    assert_equal '"hello"', target.run('$w << "hello"; $t.value')
  end

  test "deadlock is still detected" do
    target = start("console")
    assert_attachable(target)
    target.run_in_background("Thread.new { Queue.new.pop }.join")
    assert_match(/\Araised fatal: No live threads left. Deadlock\?/, target.read_line)
  end

  test "SIGURG that nobody of ours sent harms nothing" do
    target = start("console")
    ring_often(target.pid)
    assert_equal "3", target.run("1 + 2")
    assert_attachable(target)
  end

  test "a storm of signals while the process exits does not crash it" do
    target = start("console")
    target.run_in_background("exit 7")
    wait_until("the target has ended") do
      20.times { target.signal(:URG) if target.alive? }
      !target.alive?
    rescue Errno::ESRCH
      true
    end
    assert_equal 7, target.wait.exitstatus
  end

  # An extension of the application's that takes its time then: the VM calls it after it has freed the main thread. It frees that
  # where nobody asked for its fiber, as in a child that another thread has forked.
  GOING_DOWN = <<~'RUBY'
    hook = Fiddle::Function.new(Fiddle.dlopen(nil)["ruby_vm_at_exit"], [Fiddle::TYPE_VOIDP], Fiddle::TYPE_VOID)
    hook.call(Fiddle.dlopen(nil)["getchar"])
    child = Thread.new { fork { 100_000.times {}; exit 7 } }.value
    puts child
    Process.wait(child)
    Process.exit!($?.exitstatus || 99)
  RUBY

  test "a ring when the VM has freed the main thread harms nothing" do
    target = start("console")
    has_fiddle = target.run('begin; require "fiddle"; true; rescue LoadError; false; end')
    skip "needs fiddle" unless has_fiddle == "true"
    target.run_in_background(GOING_DOWN)
    child = Integer(target.read_line)
    wait_until("the child has ended, or reads what getchar wants") do
      !target.alive? || File.read("/proc/#{child}/syscall").start_with?("0 0x0 ")
    rescue SystemCallError
      true
    end
    ring_often(child) if target.alive?
    target.run_in_background("for getchar") if target.alive?
    assert_equal 7, target.wait.exitstatus
  end

  # The main thread counts as dead then, has no backtrace, and runs rbprobe's jobs all the same.
  test "a process that a thread holds up while it exits" do
    target = start("console")
    pid = target.pid.to_s
    target.run("Thread.new { begin; sleep; ensure; sleep 0.005 until $may_exit; end }.then { Thread.pass until _1.stop? }")
    target.run_in_background("exit 7")
    wait_until("the main thread is dead") { rbprobe("eval", "-p", pid, "Thread.main.alive?").stdout == "false\n" }
    [%w[bt --fibers], %w[selftest], %w[memory], %w[methods Kernel#sleep], %w[bt]].each do |subcommand, *arguments|
      assert_exit 0, rbprobe(subcommand, "-p", pid, *arguments)
    end
    rbprobe("eval", "-p", pid, "$may_exit = true")
    assert_equal 7, target.wait.exitstatus
  end

  # Ruby writes a line about each exception then, also of one that is rescued.
  test "$DEBUG shows nothing of rbprobe's" do
    only_where_loading_is_possible
    target = start("console", load: false)
    target.run("$DEBUG = true")
    [%w[bt], %w[selftest], %w[memory], %w[eval 6*7], %w[methods Kernel#sleep Nobody#nothing],
     %w[trace --args --duration 0.1 Object#console Kernel#warn(arg1)]].each do |subcommand, *arguments|
      rbprobe(subcommand, "-p", target.pid.to_s, *arguments)
      assert_empty target.stderr, subcommand
    end
  end

  test "$DEBUG shows nothing of values that cannot be shown" do
    target = start("console")
    target.run("$DEBUG = true; 1")
    tracer = trace(target, "--return", "Kernel#then", "--yes")
    target.run("Time.at(2**70).then { |time| time }; Time.allocate.then { |time| time }; 1")
    assert_match(/=> #<Time>.*=> #<Time>/m, tracer.stop.stdout)
    assert_empty target.stderr
  end
end
