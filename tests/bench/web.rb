# A web application on Puma, and a load generator.

require "socket"
require_relative "processes"

class WebServer < Started
  APPLICATION = "#{ROOT}/tests/apps/orders.ru"

  # nil, or what is not there.
  def self.missing
    %w[puma wrk].each do |program|
      if ENV["PATH"].split(":").none? { |directory| File.executable?("#{directory}/#{program}") }
        return "#{program} is not installed"
      end
    end
    nil
  end

  def initialize(tool)
    @tool = tool
    @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    puma = ENV["PATH"].split(":").map { |directory| "#{directory}/puma" }.find { |path| File.executable?(path) }
    wrapper = tool ? tool.target_wrapper : []
    options = tool ? tool.target_options : []
    spawned(Process.spawn(*wrapper, *RUBY, *options, puma, "--threads", "4:4", "--environment",
                          "production", "--bind", "tcp://127.0.0.1:#{@port}", APPLICATION,
                          in: File::NULL, out: File::NULL, err: File::NULL, pgroup: true))
    await
  end

  # Requests a second, the 99th percentile in ms, and the server's CPU time for a request in µs: the load generator and the
  # tracer's client share the processors with it, and so move the first two.
  def load(seconds, path, connections: 8)
    cpu_before = cpu_us
    report = IO.popen(["wrk", "--latency", "-t", "1", "-c", connections.to_s, "-d", seconds.to_s,
                       "http://127.0.0.1:#{@port}#{path}"], err: File::NULL, &:read)
    raise NotMeasured, "requests failed: #{report[/Non-2xx.*|Socket errors.*/]}" if report.match?(/Non-2xx|Socket errors/)

    rate = report[/Requests\/sec:\s*([\d.]+)/, 1] or raise NotMeasured, "wrk says: #{report}"
    number, unit = report.match(/99%\s+([\d.]+)(us|ms|s)/).captures
    [rate.to_f, number.to_f * { "us" => 0.001, "ms" => 1, "s" => 1000 }.fetch(unit),
     (cpu_us - cpu_before).fdiv(Integer(report[/(\d+) requests in/, 1]))]
  end

  def kill
    super
    FileUtils.rm_f(@tool.leftovers(pid)) if @tool
  end

  private

  # Of all threads, by the clock that clock_getcpuclockid(3) gives: the complement of the PID, and 2 for what the scheduler
  # counts.
  def cpu_us
    Process.clock_gettime(~pid << 3 | 2, :microsecond)
  end

  def await
    deadline = now + 20
    begin
      TCPSocket.new("127.0.0.1", @port).close
    rescue SystemCallError
      raise NotMeasured, "Puma does not listen" if now > deadline

      sleep 0.05
      retry
    end
  end
end
