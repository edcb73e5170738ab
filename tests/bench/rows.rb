# The measurements. Each returns rows; what is compared is measured alternately, within this run, on fresh processes.

require_relative "measure"

# requirement: what "at least" says, in the unit of the value; nil where there is none.
Row = Struct.new(:key, :what, :unit, :requirement, :rbprobe, :rbtrace, :notes, keyword_init: true) do
  def met?
    return nil unless requirement && rbprobe.is_a?(Samples)

    unit == :events_per_s ? rbprobe.median >= requirement : rbprobe.median <= requirement
  end
end

class Measurements < Measure
  def all
    %i[loaded attach calls threads arguments sustained memory firehose article]
  end

  def loaded
    values = each_tool do |tool|
      Samples.new(Array.new(amount(:pairs_of_processes)) do |i|
        order = i.even? ? [tool, nil] : [nil, tool]
        with(*order.map { |one| Target.new(one) }) do |*targets|
          with_extension, without = i.even? ? targets : targets.reverse
          targets.each { |target| target.run("mixed", CALLS) }
          ratio(with_extension, without, "mixed")
        end
      end)
    end
    [Row.new(key: "loaded", what: "extension loaded, nothing attached, against without it", unit: :ratio, requirement: 1.01,
             rbprobe: values["rbprobe"], rbtrace: values["rbtrace"],
             notes: "#{amount(:pairs_of_processes)} pairs of processes, a Ruby and a C call an iteration")]
  end

  STATES = { "sleep" => "in sleep", "compute" => "computing", "join" => "in join with 8 busy threads" }.freeze

  # From the client's exec to what it says when it is armed, and to its end.
  def attach
    STATES.flat_map do |state, description|
      failed = {}
      values = each_tool do |tool|
        wanted = amount(tool == RbtraceTool ? :attaches_rbtrace : :attaches)
        times = Array.new(wanted) { |i| attach_once(tool, state, i) }.compact
        failed[tool] = "; #{tool.name} could not attach #{wanted - times.size} times of #{wanted}" if times.size < wanted
        raise NotMeasured, "could not attach" if times.empty?

        times.transpose.map { |column| Samples.new(column) }
      end
      armed, ended = [0, 1].map { |i| samples_or_text(values) { |columns| columns[i] } }
      [Row.new(key: "attach-#{state}", what: "start to armed, main thread #{description}", unit: :ms, requirement: 10,
               rbprobe: armed["rbprobe"], rbtrace: armed["rbtrace"],
               notes: "from spawning the client to its word on stderr; rbtrace: to \"attached\", which is before it arms#{failed.values.join}"),
       Row.new(key: "attach-detach-#{state}", what: "the same to the client's end (attach and detach)", unit: :ms,
               rbprobe: ended["rbprobe"], rbtrace: ended["rbtrace"])]
    end + [first_call]
  end

  # The same as the target sees it: when did the first call begin that was traced, in a process that makes it all the time.
  def first_call
    times = with(Target.new(RbprobeTool, "compute")) do |target|
      Array.new(amount(:attaches)) do
        wall = Process.clock_gettime(Process::CLOCK_REALTIME, :nanosecond)
        unless system(*RbprobeTool.command(target, "--format=json", "--count=1", "-o", output, SELECTOR), err: File::NULL)
          raise NotMeasured, "the tracer failed"
        end
        (Integer(File.read(output)[/"start_ns":(\d+)/, 1]) - wall) / 1e6
      end
    end
    Row.new(key: "first-call", what: "start to the first traced call by that call's own time, main thread computing", unit: :ms,
            rbprobe: Samples.new(times), rbtrace: "-")
  rescue NotMeasured => e
    Row.new(key: "first-call", what: "start to the first traced call", unit: :ms, rbprobe: "not measured: #{e.message}", rbtrace: "-")
  end

  # In ms. rbtrace, which leaves its target another than it was, gets a fresh one each time.
  def attach_once(tool, state, index)
    if index.zero? || tool == RbtraceTool
      @attach_target&.kill
      @attach_target = Target.new(tool, state)
      sleep 0.2 # all eight threads are at work
    end
    client = tool.attach(@attach_target, "Bench#unused")
    pause = tool == RbtraceTool ? 0.1 : 0 # Ctrl-C while it arms would leave the target attached
    sleep pause
    client.stop
    [client.armed_s, client.ended_s - pause].map { |seconds| seconds * 1000 }
  rescue NotMeasured
    nil # counted
  ensure
    client&.kill
  end

  # One fresh process beside a control that is never attached to: cost of a traced call, and what others feel.
  def calls
    values = each_tool do |tool|
      burst = tool == RbtraceTool ? BURST_RBTRACE : BURST
      Array.new(amount(:repetitions)) do
        with(Target.new(tool), Target.new(tool)) do |subject, control|
          [subject, control].each { |target| target.run("untraced", CALLS) }
          before = ratio(subject, control, "untraced")
          plain_ns = median(Array.new(amount(:bursts)) { subject.each_ns("traced", BURST) })
          during = traced_ns = nil
          delivery = traced(tool, subject, SELECTOR) do
            during = ratio(subject, control, "untraced")
            traced_ns = median(Array.new(amount(:bursts)) do
              sleep 0.01 # the ring is empty again
              subject.each_ns("traced", burst)
            end)
            amount(:bursts) * burst
          end
          check_delivery(amount(:bursts) * burst, *delivery)
          after = ratio(subject, control, "untraced")
          [traced_ns - plain_ns, during / before, after / before]
        end
      end.transpose.map { |column| Samples.new(column) }
    end
    cost, during, after = [0, 1, 2].map { |i| samples_or_text(values) { |columns| columns[i] } }
    [Row.new(key: "traced-call", what: "cost added to a call of a traced Ruby method, all events delivered as text to a file",
             unit: :ns, requirement: 250, rbprobe: cost["rbprobe"], rbtrace: cost["rbtrace"],
             notes: "bursts of #{BURST} calls (rbtrace #{BURST_RBTRACE}), none lost: lines counted"),
     Row.new(key: "untraced-call", what: "calls of an untraced Ruby method meanwhile, against before", unit: :ratio,
             requirement: 1.02, rbprobe: during["rbprobe"], rbtrace: during["rbtrace"],
             notes: "each against a process never attached to, alternating"),
     Row.new(key: "after-detach", what: "the same after detach, against before", unit: :ratio, requirement: 1.02,
             rbprobe: after["rbprobe"], rbtrace: after["rbtrace"])]
  end

  # Cost added by `arguments` to a workload whose calls each give one line: ns an iteration.
  def added_cost(key, what, workload, count_of, notes: nil)
    values = each_tool do |tool|
      count = count_of[tool.name]
      Samples.new(Array.new(amount(:repetitions)) do
        with(Target.new(tool)) do |target|
          target.run(workload, count)
          plain_ns = target.each_ns(workload, count)
          traced_ns = nil
          delivery = traced(tool, target, *yield(tool), workload: workload) do
            bursts = Array.new(amount(:bursts)) do
              sleep 0.01
              target.each_ns(workload, count)
            end
            traced_ns = median(bursts)
            count * bursts.size
          end
          check_delivery(count * amount(:bursts), *delivery)
          traced_ns - plain_ns
        end
      end)
    end
    [Row.new(key: key, what: what, unit: :ns, rbprobe: values["rbprobe"], rbtrace: values["rbtrace"], notes: notes)]
  end

  def arguments
    added_cost("arguments", "cost added to a traced call with its two arguments shown (`--args`)", "pair",
               { "rbprobe" => 20_000, "rbtrace" => 500 }) do |tool|
      tool.arguments_of("Bench#pair", "first", "second")
    end
  end

  def threads
    added_cost("threads", "cost added to a traced call, 8 threads calling it", "threads",
               { "rbprobe" => BURST, "rbtrace" => BURST_RBTRACE }, notes: "per call; rbtrace takes one thread's calls for another's") do
      [SELECTOR]
    end
  end

  # One thread calling as fast as it can, for much longer than a ring lasts.
  def sustained
    with_rbtrace = each_tool { |tool| tool == RbtraceTool ? sustained_rbtrace : sustained_rbprobe("block") }
    dropping = begin
      sustained_rbprobe("drop", shares = [])
    rescue NotMeasured => e
      "not measured: #{e.message}"
    end
    [Row.new(key: "sustained", what: "sustained rate from one thread, none lost (`--overflow=block`), text to a file",
             unit: :events_per_s, requirement: 1_500_000, rbprobe: with_rbtrace["rbprobe"], rbtrace: with_rbtrace["rbtrace"],
             notes: "from the first call to the client's end"),
     Row.new(key: "sustained-drop", what: "the same without waiting (`--overflow=drop`): delivered",
             unit: :events_per_s, rbprobe: dropping, rbtrace: "-",
             notes: dropping.is_a?(Samples) ? format("lost: %.2f %%", 100 * median(shares)) : nil)]
  end

  def sustained_rbprobe(overflow, lost_shares = [])
    count = amount(:sustained_calls)
    Samples.new(Array.new(amount(:repetitions)) do
      with(Target.new(RbprobeTool)) do |target|
        client = RbprobeTool.attach(target, "--overflow=#{overflow}", SELECTOR, output: output)
        _, began_ns = target.run("traced", count)
        calls, lost = RbprobeTool.stop(client, count)
        raise NotMeasured, "#{calls} + #{lost} calls of #{count}" unless calls + lost == count
        raise NotMeasured, "#{lost} calls lost" if lost > 0 && overflow == "block"

        lost_shares << lost.to_f / count
        2 * calls / ((client.ended_ns - began_ns) / 1e9)
      ensure
        client&.kill
      end
    end)
  end

  def sustained_rbtrace
    count = amount(:sustained_calls_rbtrace)
    Samples.new(Array.new(amount(:repetitions)) do
      with(Target.new(RbtraceTool)) do |target|
        client = RbtraceTool.attach(target, SELECTOR, output: output)
        RbtraceTool.await_armed(target, client, "traced")
        before = client.delivered
        wall = Process.clock_gettime(Process::CLOCK_REALTIME) - now
        _, began_ns = target.run("traced", count)
        written = RbtraceTool.settle(client, before + count).to_f - wall
        raise NotMeasured, "#{client.delivered - before} of #{count} calls delivered" if client.delivered - before != count

        client.stop
        2 * count / (written - began_ns / 1e9)
      ensure
        client&.kill
      end
    end)
  end

  def memory
    values = each_tool do |tool|
      Array.new(amount(:memory_processes)) do
        with(Target.new(tool), Target.new(nil)) do |target, without|
          [target, without].each { |each| each.run("mixed", CALLS) }
          idle = target.memory(tool.library)
          attached = nil
          burst = tool == RbtraceTool ? BURST_RBTRACE : 1_000_000
          traced(tool, target, SELECTOR, lines: nil) do
            target.run("traced", burst) # every page of the ring has been used
            attached = target.memory(tool.library)
            nil
          end
          [idle - without.memory, attached - idle, target.memory(tool.library) - idle].map { |bytes| bytes / 1048576.0 }
        end
      end.transpose.map { |column| Samples.new(column) }
    end
    idle, attached, after = [0, 1, 2].map { |i| samples_or_text(values) { |columns| columns[i] } }
    [Row.new(key: "memory-idle", what: "memory in the target: extension loaded, against without it", unit: :mib, requirement: 1,
             rbprobe: idle["rbprobe"], rbtrace: idle["rbtrace"],
             notes: "anonymous and shared memory, and what is mapped of the extension itself"),
     Row.new(key: "memory-attached", what: "memory in the target: attached, against before", unit: :mib, requirement: 16,
             rbprobe: attached["rbprobe"], rbtrace: attached["rbtrace"], notes: "after 1,000,000 traced calls"),
     Row.new(key: "memory-after", what: "memory in the target: after detach, against before", unit: :mib, requirement: 0.1,
             rbprobe: after["rbprobe"], rbtrace: after["rbtrace"],
             notes: "\"all returned\": up to 0.1 MiB is taken for the noise of Ruby's own heap"),
     memory_while_slow]
  end

  # The reader of the client's output takes less than there is, but never stops: whatever waits must not wait in the target.
  def memory_while_slow
    most = with(Target.new(RbprobeTool, "compute")) do |target|
      reader, writer = IO.pipe
      before = target.own_memory
      client = Client.new(RbprobeTool.command(target, SELECTOR), armed: /: tracing/, output: writer)
      writer.close
      deadline = now + amount(:slow_reader_s)
      while now < deadline
        reader.readpartial(16_384)
        sleep 0.001
      end
      target.own_memory - before
    ensure
      client&.kill
      reader&.close
    end
    Row.new(key: "memory-slow-reader", what: "memory in the target: attached, calls faster than the client's reader", unit: :mib,
            requirement: 16, rbprobe: Samples.new([most / 1048576.0]), rbtrace: "-",
            notes: "after #{amount(:slow_reader_s)} s; must not depend on how long it lasts")
  rescue NotMeasured => e
    Row.new(key: "memory-slow-reader", what: "memory in the target, slow reader", unit: :mib, requirement: 16,
            rbprobe: "not measured: #{e.message}", rbtrace: "-")
  end

  # Every method there is: not one line a call, so calls are not counted here.
  def firehose
    values = each_tool do |tool|
      count = tool == RbtraceTool ? 500 : 10_000
      Array.new(amount(:repetitions)) do
        with(Target.new(tool)) do |target|
          target.run("mixed", CALLS)
          plain_ns = median(Array.new(amount(:bursts)) { target.each_ns("mixed", 100_000) })
          traced_ns = nil
          _, lost = traced(tool, target, *tool.firehose, workload: "mixed", lines: nil) do
            traced_ns = median(Array.new(amount(:bursts)) do
              sleep 0.02
              target.each_ns("mixed", count)
            end)
            nil
          end
          raise NotMeasured, "#{lost} calls lost" if lost > 0

          [plain_ns, traced_ns, median(Array.new(amount(:bursts)) { target.each_ns("mixed", 100_000) })]
        end
      end.transpose.map { |column| Samples.new(column) }
    end
    ["before", "meanwhile", "after detach"].each_with_index.map do |phase, i|
      column = samples_or_text(values) { |columns| columns[i] }
      Row.new(key: "firehose-#{phase.tr(" ", "-")}", what: "firehose, an iteration with a Ruby and a C call: #{phase}", unit: :ns,
              rbprobe: column["rbprobe"], rbtrace: column["rbtrace"])
    end
  end

  # The article's: a hash of a million keys, Hash#key? traced.
  def article
    values = each_tool do |tool|
      count = tool == RbtraceTool ? 10_000 : 400_000
      extra = tool == RbtraceTool ? [] : ["--overflow=block"]
      Array.new(amount(:article_repetitions)) do
        with(Target.new(tool)) do |target|
          target.run("article-build", amount(:article_keys))
          target.run("article", 200_000)
          plain_ns = median(Array.new(3) { target.each_ns("article", 200_000) })
          traced_ns = nil
          delivery = traced(tool, target, "Hash#key?", *extra, workload: "article") do
            traced_ns = median(Array.new(3) { target.each_ns("article", count) })
            3 * count
          end
          check_delivery(3 * count, *delivery)
          [plain_ns, traced_ns, median(Array.new(3) { target.each_ns("article", 200_000) })]
        end
      end.transpose.map { |column| Samples.new(column) }
    end
    ["before", "Hash#key? traced", "after detach"].each_with_index.map do |phase, i|
      column = samples_or_text(values) { |columns| columns[i] }
      Row.new(key: "article-#{%w[before traced after][i]}", what: "article: `h.key?(keys.sample)`, a million keys: #{phase}", unit: :ns,
              rbprobe: column["rbprobe"], rbtrace: column["rbtrace"], notes: i == 1 ? "hook engine" : nil)
    end
  end
end
