# Profiles, beside StackProf's, of the same program in the same run: what they take of it, and whether they find the same methods
# hot. What is compared: the CPU time of the whole process for the same work, in a process that is profiled and in one that is
# not, in turn.
class Measurements
  PROFILE_RATES = { 100 => 1.01, 1000 => 1.03 }.freeze
  PROFILE_ROUNDS = 500
  PROFILE_TURNS = 20

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

    def work_ns
      Integer(say("work #{PROFILE_ROUNDS}"))
    end

    def kill
      super
      [@stdin, @stdout].each { |io| io.close unless io.closed? }
    end
  end

  measurement :profile do
    PROFILE_RATES.flat_map do |rate, requirement|
      shares = {}
      costs = Array.new(amount(:repetitions)) { profile_costs(rate, shares) }
      ours, theirs = %w[rbprobe stackprof].map { |name| costs.map { |cost| cost[name] } }
      [Row.new(key: "profile-#{rate}", what: "`profile` at #{rate} Hz: CPU time of the process, against one without",
               unit: :ratio, requirement: requirement, rbprobe: Samples.new(ours),
               noise: Samples.new(costs.map { |cost| cost["nobody"] }),
               notes: profile_note(theirs, @profile_said)),
       Row.new(key: "profile-#{rate}-same",
               what: "`profile` at #{rate} Hz: largest difference of a method's part of all CPU time from what StackProf says",
               unit: :ratio, requirement: 0.05, rbprobe: or_reason { Samples.new([profile_difference(shares)]) },
               notes: shares.map { |name, parts| "#{name}: #{profile_parts(parts)}" }.join("; "))]
    end
  end

  private

  def profile_note(theirs, said)
    others = theirs.any?(String) ? theirs.find { |one| one.is_a?(String) } : format("%.4f", median(theirs))
    "StackProf: #{others}; by itself rbprobe used #{said}"
  end

  def profile_parts(parts)
    parts.map { |method, part| format("%s %.1f %%", method, 100 * part) }.join(", ")
  end

  # [name => ratio]; adds to shares what was found.
  def profile_costs(rate, shares)
    with(ProfiledTarget.new(*RbprobeTool.target_options), ProfiledTarget.new, ProfiledTarget.new) do |subject, other, control|
      [subject, other, control].each(&:work_ns)
      quiet = profile_ratio(subject, control)
      theirs_before = profile_ratio(other, control)
      ours = profiled(rate, subject, shares) { profile_ratio(subject, control) }
      theirs = or_reason { profiled_by_stackprof(rate, other, shares) { profile_ratio(other, control) } }
      { "rbprobe" => ours / quiet, "stackprof" => theirs.is_a?(String) ? theirs : theirs / theirs_before,
        "nobody" => profile_ratio(subject, control) / quiet }
    end
  end

  def profile_ratio(subject, control)
    median(Array.new(PROFILE_TURNS) { subject.work_ns.to_f / control.work_ns })
  end

  def profiled(rate, target, shares)
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
    @profile_said = format("%.2f %% CPU at %.0f Hz", 100 * process["own_cpu"] / process["elapsed"], process["rate_hz_at_end"])
    shares["rbprobe"] = profile_shares(objects.select { |object| object["type"] == "method" }
                                              .to_h { |object| [object["label"], object["self_cpu"]] })
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

  def profiled_by_stackprof(rate, target, shares)
    there = system(*RUBY, "-e", 'require "stackprof"', err: File::NULL)
    raise NotMeasured, "StackProf is not installed for this Ruby" unless there

    target.say("begin #{rate}")
    value = yield
    shares["StackProf"] = profile_shares(target.say("end").split.to_h { |word| [word[/.*(?==)/], word[/\d+$/].to_i] })
    value
  end

  # Of the three methods that are hot.
  def profile_shares(figures)
    parts = %w[spin turn pass].to_h { |name| [name, figures.fetch("Work##{name}", 0).to_f] }
    all = figures.values.sum
    parts.transform_values { |figure| figure / all }
  end

  def profile_difference(shares)
    raise NotMeasured, "StackProf is not there to compare with" unless shares.size == 2

    one, other = shares.values
    one.map { |name, part| (part - other[name]).abs }.max
  end
end
