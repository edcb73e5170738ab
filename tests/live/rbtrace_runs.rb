# Running rbprobe under the name rbtrace, and comparing what it shows with what another program shows.

require "open3"

module RbtraceRuns
  include Processes

  SERVER = "#{ROOT}/tests/apps/stretch.rb"

  def setup
    super
    @rbtrace = "#{directory}/rbtrace"
    FileUtils.chmod(0o755, File.dirname(@rbtrace))
    FileUtils.ln_s(RBPROBE, @rbtrace)
  end

  # Our rbtrace, until it has ended.
  def ours(*arguments)
    stdout, stderr, status = Open3.capture3({ "RBPROBE_EXTENSIONS" => nil }, @rbtrace, *arguments.map(&:to_s),
                                            stdin_data: "", close_others: true)
    Result.new(stdout, stderr, status.exitstatus || -status.termsig, 0)
  end

  # A program that traces, in the background, until its output satisfies the block; then Ctrl-C.
  def until_seen(command, *arguments)
    out = output_file("rbtrace-stdout")
    err = output_file("rbtrace-stderr")
    pid = Process.spawn(*command, *arguments.map(&:to_s), in: File::NULL, out: out.path, err: err.path, pgroup: true)
    begin
      @others << pid
      wait_until(-> { "#{arguments} has shown enough:\n#{File.read(out.path)}\n#{File.read(err.path)}" }, 30) do
        yield File.read(out.path), File.read(err.path)
      end
    ensure
      @others.delete(pid)
      status = stopped(pid)
    end
    Result.new(File.read(out.path), File.read(err.path), status.exitstatus || -status.termsig, 0)
  end

  # As with Ctrl-C; who does not listen is killed.
  def stopped(pid)
    status = nil
    Process.kill(:INT, pid)
    wait_until("process #{pid} ends after SIGINT", 30) { (_, status = Process.wait2(pid, Process::WNOHANG)) && status }
    status
  ensure
    unless status
      Process.kill(:KILL, pid)
      Process.wait(pid)
    end
  end

  # Times and PIDs are the run's own.
  def mask(text)
    text.gsub(/<\d+\.\d{6}>/, "<time>").gsub(/^\d\d:\d\d:\d\d\.\d{6}/, "hh:mm:ss.uuuuuu").gsub(/process \d+/, "process PID")
        .gsub(/0x\h+/, "0x")
  end

  # One round of the program, the last that is whole: in the first ones methods are still being armed.
  def round_of(text, first)
    lines = mask(text).lines
    starts = lines.each_index.select { |i| first.match?(lines[i]) }
    starts.size < 12 ? nil : lines[starts[-2]...starts[-1]].join
  end

  def rounds_seen(command, first, *arguments)
    result = until_seen(command, *arguments) { |out, _| round_of(out, first) }
    [round_of(result.stdout, first), result]
  end
end
