# Targets, and clients of rbprobe and rbtrace. Everything started here is ended by Started.end_all, whatever happens.

require "fileutils"
require "io/wait"
require "open3"
require "shellwords"
require "tmpdir"

ROOT = File.expand_path("../..", __dir__)
BUILD = File.expand_path(ENV.fetch("BUILD", "build"), ROOT)
RUBY = Shellwords.split(ENV.fetch("RUBY", "ruby"))
SCRATCH = Dir.mktmpdir("bench-")

class NotMeasured < StandardError; end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# What a process writes, line by line, with a deadline.
class Lines
  def initialize(io)
    @io = io
    @rest = +""
  end

  def next(seconds)
    deadline = now + seconds
    until (line = @rest.slice!(/\A.*\n/))
      left = deadline - now
      raise NotMeasured, "nothing came within #{seconds} s" unless left > 0 && @io.wait_readable(left)

      @rest << @io.readpartial(65_536)
    end
    line
  rescue EOFError
    raise NotMeasured, "the process ended: #{@rest}"
  end

  def until(pattern, seconds)
    deadline = now + seconds
    seen = +""
    loop do
      seen << (line = self.next(deadline - now))
      return line if pattern.match?(line)
    end
  rescue NotMeasured => e
    raise NotMeasured, "#{e.message} (#{seen.strip.lines.last(3).join(" / ")})"
  end
end

# A process of ours.
class Started
  @all = []
  class << self
    attr_reader :all

    def end_all
      all.dup.each(&:kill)
    end
  end

  attr_reader :pid

  def kill
    return unless Started.all.delete(self)

    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  # Its exit, or NotMeasured.
  def wait(seconds)
    deadline = now + seconds
    until Process.wait(pid, Process::WNOHANG)
      raise NotMeasured, "process #{pid} does not end" if now > deadline

      sleep 0.0005
    end
    Started.all.delete(self)
    now
  end

  private

  def spawned(pid)
    @pid = pid
    Started.all << self
  end
end

# tests/bench/target.rb, with the tool's extension loaded (tool: nil: with none).
class Target < Started
  def initialize(tool, *arguments)
    @tool = tool
    reader, @stdin = IO.pipe
    @stdout, writer = IO.pipe
    @errors = "#{SCRATCH}/target-#{object_id}.stderr"
    spawned(Process.spawn(*(tool ? tool.target_wrapper : []), *RUBY, *(tool ? tool.target_options : []),
                          "#{__dir__}/target.rb", *arguments, in: reader, out: writer, err: @errors, pgroup: true))
    [reader, writer].each(&:close)
    @lines = Lines.new(@stdout)
    raise NotMeasured, "the target did not start" unless @lines.next(20) == "ready\n"
  end

  # Runs a workload; how long it took and when it began, in ns.
  def run(workload, count)
    @stdin.puts "#{workload} #{count}"
    @lines.next(120).split.map(&:to_i)
  end

  # ns per iteration
  def each_ns(workload, count)
    run(workload, count).first.to_f / count
  end

  # What it takes of the machine's memory, in bytes: its own, and what it has mapped of files named so.
  def memory(file = nil)
    run("collect", 2)
    rss = /^\h+-\h+ .*#{file}\n(?:Size.*\n)(?:.*\n)*?Rss:\s*(\d+)/
    mapped = file ? File.read("/proc/#{pid}/smaps").scan(rss).flatten.sum(&:to_i) : 0
    own_memory + mapped * 1024
  end

  # Not Pss_File: how many processes share libruby changes meanwhile. Both mappings of a ring count half each.
  def own_memory
    File.read("/proc/#{pid}/smaps_rollup").scan(/^Pss_(?:Anon|Shmem):\s*(\d+)/).flatten.sum(&:to_i) * 1024
  end

  def kill
    super
    [@stdin, @stdout].each { |io| io.close unless io.closed? }
    FileUtils.rm_f([@errors, *@tool&.leftovers(pid)])
  end
end

# A client that traces, from its exec on.
class Client < Started
  # From its start until it was armed, and to its end.
  attr_reader :armed_s, :ended_s, :output, :rest

  def initialize(command, armed:, output:, seconds: 20)
    @output = output
    @stderr, writer = IO.pipe
    @began = now
    spawned(Process.spawn(*command, in: File::NULL, out: output || File::NULL, err: writer, pgroup: true))
    writer.close
    @lines = Lines.new(@stderr)
    @lines.until(armed, seconds)
    @armed_s = now - @began
  end

  # Has it let go. What it says at that is #rest.
  def stop
    Process.kill(:INT, pid)
    @rest = @stderr.read
    @ended_s = wait(60) - @began
    @stderr.close
  end

  # On CLOCK_MONOTONIC.
  def ended_ns
    (@began + @ended_s) * 1e9
  end

  def delivered
    count = 0
    File.open(@output, "rb") do |file|
      while (bytes = file.read(1 << 20))
        count += bytes.count("\n")
      end
    end
    count
  end
end
