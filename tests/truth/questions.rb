# What is shown beside the trees of calls, compared with what a program knows: where calls are lost, backtraces, what the
# heap has, calls of a forked child.

require "json"
require "minitest"
require "shellwords"
require "tmpdir"
require_relative "../live/processes"

class Question
  class Differs < StandardError; end

  # [name, engine, format] of all. Where the engine does not matter it is nil.
  def self.all(engines, formats)
    losses = engines.product(formats).map do |engine, format|
      ["calls that are lost are counted at their place", engine, format, :losses]
    end
    others = formats.flat_map do |format|
      [["frames of threads that know their own", nil, format, :backtraces],
       ["how many objects of a class there are", nil, format, :heap],
       ["calls of a process and of its child", nil, format, :children]]
    end
    losses + others
  end

  def initialize(engine, format, question)
    @engine = engine
    @format = format
    @question = question
  end

  # Raises Differs.
  def ask
    IO.popen([*Processes::RUBY, "-I", "#{Processes::BUILD}/tracee", "-rrbprobe", "#{__dir__}/asked.rb"], "r+") do |target|
      @target = target
      answer("ready")
      Dir.mktmpdir("truth-") { |directory| @directory = directory and send(@question) }
    ensure
      Process.kill(:KILL, @child) if @child
      target.close_write
    end
  end

  private

  def tell(command)
    @target.puts command
    answer(command[/\w+/])
  end

  def answer(name)
    JSON.parse(@target.gets).fetch(name)
  end

  def differ(what, truth, shown)
    raise Differs, "#{what}:\n      true:  #{truth.inspect}\n      shown: #{shown.inspect}" unless truth == shown
  end

  def rbprobe(*arguments)
    output = IO.popen([Processes::RBPROBE, *arguments, { err: "#{@directory}/said" }], &:read)
    raise Differs, "rbprobe #{arguments.first}: #{File.read("#{@directory}/said")}" unless $?.success?

    output.force_encoding(Encoding::UTF_8)
  end

  # Yields while the calls are traced; returns what is printed, and the summary's numbers by name.
  def trace(pids, *arguments)
    command = ["trace", "-v", "--yes", "--timeout", "60", "-p", pids.join(","), "-o", "#{@directory}/out", "--args", "--return",
               "--format", @format, *arguments]
    tracer = spawn(Processes::RBPROBE, *command, in: File::NULL, out: File::NULL, err: "#{@directory}/err")
    said = -> { File.read("#{@directory}/err") }
    Processes.wait_until(-> { "the methods are armed: #{said.call}" }, 60) { said.call.scan(Processes::ARMED).size == pids.size }
    yield tracer
    Process.kill(:INT, tracer)
    Process.wait(tracer)
    [File.readlines("#{@directory}/out", chomp: true), %w[calls lost].to_h { |what| [what, said.call[/(\d+) #{what}/, 1].to_i] }]
  end

  # Numbers of steps that are shown, and of calls lost between them, in their order.
  def events(lines)
    lines.map do |line|
      shown = @format == "json" ? JSON.parse(line) : nil
      if shown
        shown["type"] == "call" ? shown["values"].values.first.to_i : ({ "lost" => shown["calls"] } if shown["type"] == "lost")
      else
        line[/\A\S+#step\(\w+=(\d+)\) => \w+ </, 1]&.to_i || line[/\A\.\.\. (\d+) calls? lost/, 1]&.then do |count|
          { "lost" => count.to_i }
        end
      end
    end.compact
  end

  def losses
    command, selector = @engine == "patch" ? ["list", "List#step"] : ["step", "Work#step"]
    happened = nil
    lines, summary = trace([@target.pid], "--engine", @engine, selector) do |tracer|
      tell("#{command} 10")
      Process.kill(:STOP, tracer)
      Processes.wait_until("it is stopped") { Processes.status_of(tracer, "State").start_with?("T") }
      tell("#{command} 200000")
      Process.kill(:CONT, tracer)
      happened = tell("#{command} 1000")
    end
    seen = events(lines)
    shown = seen.grep(Integer)
    lost = seen.grep(Hash).sum { |gap| gap["lost"] }
    differ "calls and losses that are shown, and those of the summary", summary.values, [shown.size, lost]
    differ "all that happened", happened, shown.size + lost
    raise Differs, "nothing was lost" if lost.zero?

    step = 0
    seen.each do |one|
      step += one.is_a?(Hash) ? one["lost"] : 1
      differ "the number of a step after #{step - 1}", step, one if one.is_a?(Integer)
    end
  end

  # Without the C method on top, in which it waits; a label's class is ours to find out.
  def backtraces
    known = tell("wait")
    threads = threads_shown
    known.each do |name, frames|
      shown = threads.fetch(name).drop_while { |_, _, label| label.end_with?("pop") }
      differ "places of #{name}", frames.map { |path, line, *| [path, line] }, shown.map { |path, line, _| [path, line] }
      frames.zip(shown) do |(_, _, label, base), (_, _, seen)|
        differ "the kind of a frame of #{name}, #{label}", label[/\A(?:block|rescue|ensure).* in /],
               seen[/\A(?:block|rescue|ensure).* in /]
        differ "the name of a frame of #{name}, #{label}", base, seen.end_with?(base) ? base : seen
      end
    end
  end

  # { name => [[path, line, label], ...] }
  def threads_shown
    output = rbprobe("backtrace", "--timeout", "60", "-p", @target.pid.to_s, "--format", @format)
    if @format == "json"
      threads = output.each_line.map { |line| JSON.parse(line) }.select { |object| object["type"] == "thread" }
      return threads.to_h { |thread| [thread["name"], thread["frames"].map { |frame| frame.values_at("path", "line", "label") }] }
    end
    output.split(/^thread /).drop(1).to_h do |text|
      [text[/\A(?:\d+ )?"(.*?)"/, 1], text.scan(/^   (.+?):(\d+) in (.+)$/).map { |path, line, label| [path, line.to_i, label] }]
    end
  end

  def heap
    truth = tell("keep 1234")
    memory = rbprobe("memory", "--timeout", "60", "-p", @target.pid.to_s, "--top", "100", "--format", @format)
    rbprobe("heap", "dump", "--timeout", "60", "-p", @target.pid.to_s, "-o", "#{@directory}/dump")
    report = rbprobe("heap", "report", "--top", "100", "--format", @format, "#{@directory}/dump")
    differ "objects that memory counts", truth, truth.to_h { |name, _| [name, in_memory(memory, name)] }
    differ "objects in a dump", truth, truth.to_h { |name, _| [name, in_report(report, name)] }
    differ "equal strings in a dump", 1234 / 3, copies_in(report)
  end

  def in_memory(text, name)
    return text[/([\d,]+) #{name}(?:  |$)/, 1].delete(",").to_i if @format == "text"

    JSON.parse(text).dig("ruby", "objects", "classes").find { |row| row["name"] == name }["count"]
  end

  def in_report(text, name)
    return text[/^ *(\d+) +\d+  #{name}$/, 1].to_i if @format == "text"

    JSON.parse(text)["by_class"]["rows"].find { |row| row["class"] == name }["objects"]
  end

  # Of "kept": one was made for all, as a literal is.
  def copies_in(text)
    copies = if @format == "text"
               text[/^ *(\d+) +\d+ +4  "kept"$/, 1].to_i
             else
               JSON.parse(text)["strings"]["rows"].find { |row| row["value"] == "kept" }["copies"]
             end
    copies - 1
  end

  def children
    @child = tell("fork")
    lines, = trace([@target.pid, @child], "Work#step") do
      tell("step 3")
      @target.puts "tell 2"
      2.times { @target.gets } # the parent's answer and the child's, in any order
    end
    differ "the steps of each", { @target.pid => [1, 2, 3], @child => [1, 2] }, steps_by_process(lines)
  end

  def steps_by_process(lines)
    steps = lines.map do |line|
      shown = @format == "json" ? JSON.parse(line) : nil
      next [shown["pid"], shown["values"].values.first.to_i] if shown && shown["type"] == "call"

      line.match(/\A(\d+): \S+#step\(\w+=(\d+)\)/)&.captures&.map(&:to_i) unless shown
    end
    steps.compact.group_by(&:first).transform_values { |own| own.map(&:last) }
  end
end
