# Profiles, beside StackProf's, of the same program in the same run: what they take of it, and whether they find the same methods
# hot. What is compared: the CPU time of the whole process for the same work, in a process that is profiled and in one that is
# not. As a processor's speed changes from one tenth of a second to the next, each does a few milliseconds of it at a time, in
# turn, on the same processor. Of rbprobe also counts what it does while its process waits for its turn. So what a profiler adds
# is given of all time, turns of others included: as rbprobe's own number, and its promise, are.
class Measurements
  PROFILE_RATES = { 100 => 0.01, 1000 => 0.03 }.freeze
  PROFILE_ROUNDS = 40
  PROFILE_TURNS = 1000
  PROFILE_HOT = %w[spin turn pass].freeze

  # What a tool has found: CPU time or samples by method, and how many samples.
  Found = Struct.new(:by_method, :samples)

  # A process of profiled.rb.
  class ProfiledTarget < Started
    def initialize(*options)
      @input, @stdin = IO.pipe
      @stdout, @output = IO.pipe
      spawned(Process.spawn(*RUBY, *options, "#{__dir__}/../profiled.rb", in: @input, out: @output, pgroup: true))
      [@input, @output].each(&:close)
      @lines = Lines.new(@stdout)
      raise NotMeasured, "the target did not start" unless @lines.next(20) == "ready\n"
    end

    def say(command)
      @stdin.puts command
      @lines.next(60).to_s.chomp
    end

    def work
      say("work #{PROFILE_ROUNDS}")
    end

    def cpu_ns
      Integer(say("cpu"))
    end

    def kill
      super
      [@stdin, @stdout].each { |io| io.close unless io.closed? }
    end
  end

  measurement :profile do
    PROFILE_RATES.flat_map do |rate, requirement|
      figures = Hash.new { |hash, name| hash[name] = Found.new(Hash.new(0), 0) }
      costs = Array.new(amount(:repetitions)) { profile_costs(rate, figures) }
      ours, theirs, nobody = %w[rbprobe stackprof nobody].map { |name| costs.map { |cost| cost[name] } }
      shares = figures.transform_values { |found| profile_shares(found.by_method) }
      [Row.new(key: "profile-#{rate}", what: "`profile` at #{rate} Hz: CPU time that the process takes more, of one processor",
               unit: :ratio, requirement: requirement, rbprobe: Samples.new(ours), noise: Samples.new(nobody),
               notes: profile_note(theirs, @profile_said)),
       Row.new(key: "profile-#{rate}-less", what: "`profile` at #{rate} Hz: what it adds, less what StackProf adds",
               unit: :ratio, requirement: 0.0, rbprobe: or_reason { profile_less(ours, theirs) },
               noise: Samples.new(nobody.map(&:abs)), notes: "below zero: it costs less than StackProf"),
       Row.new(key: "profile-#{rate}-same",
               what: "`profile` at #{rate} Hz: largest difference of a method's part of the time from what StackProf says",
               unit: :ratio, requirement: profile_sampling_error(figures.values.map(&:samples)),
               rbprobe: or_reason { Samples.new([profile_difference(shares)]) },
               notes: figures.map { |name, found| profile_found(name, found) }.join("; "))]
    end
  end

  private

  def profile_note(theirs, said)
    others = theirs.grep(String).first || format("%.4f", median(theirs))
    "StackProf: #{others}; by itself rbprobe used #{said}"
  end

  def profile_found(name, found)
    parts = profile_shares(found.by_method).map { |method, part| format("%s %.1f %%", method, 100 * part) }
    "#{name}, #{found.samples} samples: #{parts.join(", ")}"
  end

  def profile_less(ours, theirs)
    raise NotMeasured, theirs.grep(String).first if theirs.any?(String)

    Samples.new(ours.zip(theirs).map { |one, other| one - other })
  end

  # [name => ratio]; adds to figures what was found, by tool and method.
  def profile_costs(rate, figures)
    with(ProfiledTarget.new(*RbprobeTool.target_options), ProfiledTarget.new, ProfiledTarget.new) do |subject, other, control|
      on_one_processor([subject, other, control])
      measure = ->(target) { profile_costs_of(target, control) }
      before = [subject, other].map(&measure)
      ours = profiled(rate, subject, figures) { measure.call(subject) }
      theirs = or_reason { profiled_by_stackprof(rate, other, figures) { measure.call(other) } }
      after = [subject, other].map(&measure)
      { "rbprobe" => profile_more(ours, before[0], after[0]),
        "stackprof" => theirs.is_a?(String) ? theirs : profile_more(theirs, before[1], after[1]),
        "nobody" => profile_more(after[0], before[0], before[0]) }
    end
  end

  # So that each meets the speed that the other does. Threads that are begun later stay there, too.
  def on_one_processor(targets)
    targets.each do |target|
      system("taskset", "--all-tasks", "--pid", "--cpu-list", "0", target.pid.to_s, out: File::NULL)
      target.work
    end
  end

  # CPU time for the same work, of the subject's and of the control's process; and of how much time the subject's is a part.
  def profile_costs_of(subject, control)
    before = [subject, control].map(&:cpu_ns)
    from = now
    PROFILE_TURNS.times { [subject, control].each(&:work) }
    elapsed = now - from
    spent = [subject, control].map(&:cpu_ns).zip(before).map { |at_end, at_begin| at_end - at_begin }
    [spent.first.to_f / spent.last, spent.first / 1e9 / elapsed]
  end

  # CPU time more than before and after, of one processor.
  def profile_more(during, before, after)
    ratio, share = during
    share * (1 - (before.first + after.first) / 2 / ratio)
  end

  def profiled(rate, target, figures)
    reader, writer = IO.pipe
    client = Process.spawn(RbprobeTool::PROGRAM, "profile", "-p", target.pid.to_s, "--cpu", "--rate", rate.to_s, "--duration",
                           "600", "--format", "json", "-q", out: writer, err: File::NULL)
    writer.close
    profile_await(target)
    value = yield
    Process.kill(:INT, client)
    objects = reader.read.lines.map { |line| JSON.parse(line) }
    Process.wait(client)
    process = objects.find { |object| object["type"] == "process" } or raise NotMeasured, "no profile"
    @profile_said = format("%.2f %% CPU at %.0f Hz", 100 * process["own_cpu"] / process["elapsed"], process["rate_hz_mean"])
    objects.select { |object| object["type"] == "method" }
           .each { |object| figures["rbprobe"].by_method[object["label"]] += object["self_cpu"] }
    figures["rbprobe"].samples += process["cpu_samples"]
    value
  ensure
    reader.close
  end

  def profile_await(target)
    deadline = now + 10
    until Dir["/proc/#{target.pid}/task/*/comm"].any? { |path| File.read(path) == "rbprobe-profile\n" }
      raise NotMeasured, "rbprobe does not sample" if now > deadline

      target.say("work 1")
    end
  end

  def profiled_by_stackprof(rate, target, figures)
    there = system(*RUBY, "-e", 'require "stackprof"', err: File::NULL)
    raise NotMeasured, "StackProf is not installed for this Ruby" unless there

    target.say("begin #{rate}")
    value = yield
    target.say("end").split.each { |word| figures["StackProf"].by_method[word[/.*(?==)/]] += word[/\d+$/].to_i }
    figures["StackProf"].samples = PROFILE_HOT.sum { |name| figures["StackProf"].by_method["Work##{name}"] }
    value
  end

  # Of the three methods that are hot. The process waits as well, and StackProf samples that.
  def profile_shares(figures)
    parts = PROFILE_HOT.to_h { |name| [name, figures.fetch("Work##{name}", 0).to_f] }
    parts.transform_values { |figure| figure / parts.values.sum }
  end

  # Three standard errors of the difference of two parts, each of about one half. What clocks add is within half a point.
  def profile_sampling_error(samples)
    0.005 + 3 * Math.sqrt(samples.sum { |number| 0.25 / [number, 1].max })
  end

  def profile_difference(shares)
    raise NotMeasured, "StackProf is not there to compare with" unless shares.size == 2

    one, other = shares.values
    one.map { |name, part| (part - other[name]).abs }.max
  end
end
