# Profiles, beside StackProf's, of the same program in the same run: what they take of it, and whether they find the same methods
# hot. What is compared: the CPU time of the whole process for the same work, in a process that is profiled and in one that is
# not. As a processor's speed changes from one tenth of a second to the next, each does a few milliseconds of it at a time, in
# turn, on the same processor. Of rbprobe also counts what it does while its process waits for its turn. So what a profiler adds
# is given of all time, turns of others included: as rbprobe's own number, and its promise, are.
#
# StackProf does all in the application's thread. rbprobe has a thread of its own, and that one alone wakes up for a tick: where
# the machine has a processor to spare, the application does not notice that. So there are two measurements: of the whole process,
# on one processor, and of the application's thread, with another processor for what else the process does.
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

    # of: "cpu", of the process, or "thread", the application's.
    def cpu_ns(of)
      Integer(say(of))
    end

    # All that is not the application's gets a processor of its own.
    def spread
      others = Dir["/proc/#{pid}/task/*"].map { |path| File.basename(path) } - [pid.to_s]
      others.each { |thread| system("taskset", "--pid", "--cpu-list", "1", thread, out: File::NULL) }
    end

    def kill
      super
      [@stdin, @stdout].each { |io| io.close unless io.closed? }
    end
  end

  measurement :profile do
    PROFILE_RATES.flat_map do |rate, requirement|
      figures = Hash.new { |hash, name| hash[name] = Found.new(Hash.new(0), 0) }
      ours, theirs, nobody = profile_repeated(rate, figures, "cpu")
      [Row.new(key: "profile-#{rate}", what: "`profile` at #{rate} Hz: CPU time that the process takes more, of one processor",
               unit: :ratio, requirement: requirement, rbprobe: Samples.new(ours), noise: Samples.new(nobody),
               notes: profile_note(theirs, @profile_said)),
       profile_less_row(rate, "all", "CPU time that it adds, less what StackProf adds", nil, [ours, theirs, nobody]),
       profile_thread_row(rate, figures),
       profile_same_row(rate, figures)]
    end
  end

  private

  def profile_less_row(rate, key, what, requirement, costs)
    ours, theirs, nobody = costs
    Row.new(key: "profile-#{rate}-#{key}", what: "`profile` at #{rate} Hz: #{what}", unit: :ratio, requirement: requirement,
            rbprobe: or_reason { profile_less(ours, theirs) }, noise: Samples.new(nobody.map(&:abs)),
            notes: "below zero: less than StackProf")
  end

  def profile_thread_row(rate, figures)
    raise NotMeasured, "there is no second processor" if Etc.nprocessors < 2

    costs = profile_repeated(rate, figures, "thread")
    row = profile_less_row(rate, "thread", "what it takes from the application's thread, less what StackProf takes", 0.0, costs)
    row.notes += format("; rbprobe %.4f, StackProf %s", median(costs[0]), profile_theirs(costs[1]))
    row
  end

  def profile_same_row(rate, figures)
    shares = figures.transform_values { |found| profile_shares(found.by_method) }
    Row.new(key: "profile-#{rate}-same",
            what: "`profile` at #{rate} Hz: largest difference of a method's part of the time from what StackProf says",
            unit: :ratio, requirement: profile_sampling_error(figures.values.map(&:samples)),
            rbprobe: or_reason { Samples.new([profile_difference(shares)]) },
            notes: figures.map { |name, found| profile_found(name, found) }.join("; "))
  end

  # What rbprobe adds, what StackProf does, and what is measured where nobody does anything; each as often as is repeated.
  def profile_repeated(rate, figures, of)
    costs = Array.new(amount(:repetitions)) { profile_costs(rate, figures, of) }
    %w[rbprobe stackprof nobody].map { |name| costs.map { |cost| cost[name] } }
  end

  def profile_theirs(theirs)
    theirs.grep(String).first || format("%.4f", median(theirs))
  end

  def profile_note(theirs, said)
    "StackProf: #{profile_theirs(theirs)}; by itself rbprobe used #{said}"
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
  def profile_costs(rate, figures, of)
    with(ProfiledTarget.new(*RbprobeTool.target_options), ProfiledTarget.new, ProfiledTarget.new) do |subject, other, control|
      on_one_processor([subject, other, control])
      measure = ->(target) { profile_costs_of(target, control, of) }
      before = [subject, other].map(&measure)
      ours = profiled(rate, subject, figures) do
        subject.spread if of == "thread"
        measure.call(subject)
      end
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
  def profile_costs_of(subject, control, of)
    before = [subject, control].map { |target| target.cpu_ns(of) }
    from = now
    PROFILE_TURNS.times { [subject, control].each(&:work) }
    elapsed = now - from
    spent = [subject, control].map { |target| target.cpu_ns(of) }.zip(before).map { |at_end, at_begin| at_end - at_begin }
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
