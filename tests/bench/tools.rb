# The two tools behind one interface: how a target loads its part, how one attaches, and what has been delivered.

require_relative "processes"

module RbprobeTool
  PROGRAM = "#{BUILD}/rbprobe"

  module_function

  def name
    "rbprobe"
  end

  def target_wrapper
    []
  end

  def target_options
    ["-I", "#{BUILD}/tracee", "-rrbprobe"]
  end

  def library
    "rbprobe.so"
  end

  # Files that are there although the target and its client have ended.
  def leftovers(_pid)
    []
  end

  def command(target, *arguments)
    consent = arguments.include?("--no-hook") ? [] : ["--yes"]
    [PROGRAM, "trace", "-v", *consent, "-p", target.pid.to_s, *arguments]
  end

  # Armed when it returns. arguments are selectors and options.
  def attach(target, *arguments, output: nil)
    to_file = output ? ["-o", output] : []
    Client.new(command(target, *to_file, *arguments), armed: /: tracing \d+ method/, output: output)
  end

  # The same by another subcommand than trace.
  def attach_by(target, subcommand, *arguments)
    Client.new([PROGRAM, subcommand, "-v", "--yes", "-p", target.pid.to_s, *arguments], armed: /: tracing \d+ method/,
               output: nil)
  end

  # Ends it and returns [calls delivered, calls lost], the first checked against the file.
  def stop(client, _expected, lines: 1)
    client.stop
    summary = client.rest[/^rbprobe: (\d+) calls?, (\d+) lost/] or raise NotMeasured, "no summary: #{client.rest}"
    calls, lost = summary.scan(/\d+/).map(&:to_i)
    if lines && client.output && (there = client.delivered) < calls
      raise NotMeasured, "#{calls} calls announced, #{there} lines written"
    end
    [calls, lost]
  end

  # by: :engines, each method by its own, or :hook for all.
  def firehose(by)
    ["-f", "--max-overhead=0", *("--no-hook" if by == :engines), "--overflow=block"]
  end

  # { selector => engine } of those that there are.
  def engines(target, selectors)
    listed, = Open3.capture2(PROGRAM, "methods", "-q", "-p", target.pid.to_s, *selectors)
    listed.lines.to_h { |line| [line[/\A\S+/], line[/\S+(?= \()|\S+$/]] }.slice(*selectors)
  end

  def arguments_of(selector, *_names)
    ["--args", selector]
  end
end

# As root, rbtrace raises kernel.msgmnb for the whole machine and removes queues that it takes for stale, whatever it is
# asked for, even for its version. So it only ever runs in an IPC namespace of its own, where it has its way and the machine
# stays as it is.
module RbtraceTool
  module_function

  def name
    "rbtrace"
  end

  # nil, or why it cannot be measured. Found out without running it.
  def missing
    return @missing if defined?(@missing)

    @missing =
      if ENV["PATH"].split(":").none? { |directory| File.executable?("#{directory}/rbtrace") }
        "rbtrace is not installed"
      elsif !version
        "rbtrace is not installed for this Ruby"
      elsif Process.uid.zero? && !isolated?
        "not run: as root it changes kernel.msgmnb, and no IPC namespace can be made for it"
      end
  end

  def version
    @version ||= IO.popen([*RUBY, "-e", 'require "rbtrace/version"; print RBTracer::VERSION'], err: File::NULL,
                          &:read)[/\A[\d.]+/]
  end

  def isolated?
    return @isolated if defined?(@isolated)

    @isolated = Process.uid.zero? && system("unshare", "--ipc", "nsenter", "--ipc=/proc/self/ns/ipc", "true", err: File::NULL)
  end

  def target_wrapper
    isolated? ? ["unshare", "--ipc"] : []
  end

  def target_options
    ["-rrbtrace"]
  end

  def library
    "rbtrace.so"
  end

  def leftovers(pid)
    ["/tmp/rbtrace-#{pid}.sock"]
  end

  def attach(target, *arguments, output: nil)
    enter = isolated? ? ["nsenter", "--ipc=/proc/#{target.pid}/ns/ipc"] : []
    selection = arguments.first.start_with?("-") ? arguments : ["-m", *arguments]
    File.write(output, "") if output
    Client.new([*enter, "rbtrace", "-p", target.pid.to_s, *(output ? ["-o", output] : []), *selection],
               armed: /attached to process/, output: output)
  end

  def evaluation(target, code)
    enter = isolated? ? ["nsenter", "--ipc=/proc/#{target.pid}/ns/ipc"] : []
    [*enter, "rbtrace", "-p", target.pid.to_s, "-e", code]
  end

  # Its selectors are sent after it is attached, and it does not say when they are in force: calls show it.
  def await_armed(target, client, workload)
    deadline = now + 10
    until File.size(client.output) > 0
      raise NotMeasured, "rbtrace shows no call" if now > deadline

      target.run(workload, 8) # one for each thread, where there are some
      sleep 0.02
    end
    settle(client)
  end

  # When the last line that is still to come was written (on the wall clock); rbtrace counts nothing.
  def settle(client, expected = nil, seconds: 120)
    deadline = now + seconds
    size = -1
    until (expected && client.delivered >= expected) || size == File.size(client.output)
      raise NotMeasured, "rbtrace goes on writing" if now > deadline

      size = File.size(client.output)
      sleep 0.3
    end
    File.mtime(client.output)
  end

  def stop(client, expected, lines: 1)
    settle(client) if client.output
    client.stop
    return [0, 0] unless client.output && lines

    there = client.delivered
    [there, [expected - there, 0].max]
  end

  def firehose(_by)
    ["--firehose"]
  end

  def arguments_of(selector, *names)
    ["#{selector}(#{names.join(", ")})"]
  end
end
