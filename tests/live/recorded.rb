# Calls that are recorded, and replayed.

module Recorded
  def file_of(name = "calls.rec")
    "#{@directory ||= directory}/#{name}"
  end

  def record(target, code, *arguments)
    client = launch("record", "-v", "--yes", "-p", target.pid.to_s, "-o", file_of, *arguments).wait_until_armed
    target.run(code)
    assert_exit 0, client.stop
  end

  def replay(*arguments)
    rbprobe("replay", file_of, *arguments).tap { |result| assert_exit 0, result }
  end

  # What a trace with these arguments shows of the same code.
  def traced(target, code, *arguments)
    client = trace(target, *arguments)
    target.run(code)
    client.stop
  end
end
