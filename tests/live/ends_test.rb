# How a trace ends, where the client, its reader or its terminal does not behave.

require_relative "helper"

class EndsTest < LiveTest
  # A pipe whose reader does not read for longer than attaching may take.
  test "a reader that waits longer than --timeout costs lines, and not the trace" do
    target = start("console")
    target.run("class Busy; def call(n); n + 1; end; end; $calls = Thread.new { b = Busy.new; " \
               "loop { 100.times { |n| b.call(n) }; sleep 0.0005 } }; nil")
    reader, writer = IO.pipe
    limit = [1, Processes::PATIENCE].max # for arming, which takes longer where a sanitizer is in the target
    tracer = launch("trace", "-f", "--no-hook", "--timeout", limit.to_s, "-p", target.pid.to_s, stdout: writer)
    writer.close
    wait_until(-> { "the pipe is full; it said:\n#{tracer.stderr}" }) { blocked_in_write?(tracer.pid) }
    blocked = Processes.now
    wait_until("the reader has waited for longer than the time limit", 30) { Processes.now - blocked > 1.5 * limit }
    thread = Thread.new { IO.copy_stream(reader, File::NULL) }
    wait_until("it is armed or has ended") { !blocked_in_write?(tracer.pid) }
    result = tracer.stop
    thread.join
    assert_exit 0, result
    assert_match(/calls, .* lost, .*; ended: interrupted$/, result.stderr)
  end

  test "a signal that comes twice at once, as timeout(1) sends it, ends the trace with its summary" do
    target = start("console")
    tracer = trace(target, "Kernel#rand")
    target.run("rand; rand; nil")
    tracer.wait_for(/Kernel#rand/)
    2.times { tracer.signal(:TERM) }
    result = tracer.wait
    assert_exit 0, result
    assert_match(/^rbprobe: 2 calls, 0 lost, .*; ended: terminated$/, result.stderr)
  end

  test "--count that is reached before the last method is armed ends the trace in order" do
    target = start("console")
    target.run("$calls = Thread.new { loop { [3, 1, 2].sort.map(&:to_s).join } }; nil")
    result = rbprobe("trace", "-f", "--no-hook", "--args", "--count", "20", "-p", target.pid.to_s, "-q", "-o", "#{directory}/out")
    assert_exit 0, result
    assert_equal "", result.stderr
  end

  test "a process that leaves by exit! is not said to have been killed" do
    target = start("console")
    tracer = trace(target, "Kernel#rand")
    target.run_in_background("rand; Process.exit!(7)")
    result = tracer.wait
    assert_exit 0, result
    assert_match(/left without its exit handlers \(exit!, /, result.stderr)
    assert_match(/; ended: the process exited, unconfirmed: calls may be missing that nobody counted$/, result.stderr)
  end

  private

  def blocked_in_write?(pid)
    File.read("/proc/#{pid}/syscall").start_with?("1 ")
  rescue Errno::ENOENT, Errno::ESRCH
    false
  end
end
