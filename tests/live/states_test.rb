# The bell: a process is reached whatever its main thread is doing, and what it is doing is not disturbed.

require_relative "helper"

class StatesTest < LiveTest
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
    100.times { target.signal(:URG) }
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
end
