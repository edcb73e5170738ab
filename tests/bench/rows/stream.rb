# How many events a second come through, from one thread that calls as fast as it can for much longer than a ring lasts.
class Measurements
  measurement :sustained do
    with_rbtrace = each_tool { |tool| tool == RbtraceTool ? sustained_rbtrace : sustained_rbprobe("block", output) }
    shown = or_reason { sustained_rbprobe("block", File::NULL) }
    json = or_reason { sustained_rbprobe("block", File::NULL, "--format=json") }
    dropping = or_reason { sustained_rbprobe("drop", output, lost_shares: @lost_shares = []) }
    [Row.new(key: "sustained", what: "sustained rate from one thread, none lost (`--overflow=block`), text to a file",
             unit: :events_per_s, requirement: 5_000_000, rbprobe: with_rbtrace["rbprobe"], rbtrace: with_rbtrace["rbtrace"],
             notes: "from the first call to the client's end; a call is two events"),
     Row.new(key: "sustained-null", what: "the same, the text thrown away", unit: :events_per_s, requirement: 10_000_000,
             rbprobe: shown),
     Row.new(key: "sustained-json", what: "the same as JSON, thrown away", unit: :events_per_s, rbprobe: json),
     Row.new(key: "sustained-drop", what: "text to a file without waiting (`--overflow=drop`): delivered",
             unit: :events_per_s, rbprobe: dropping,
             notes: dropping.is_a?(Samples) ? format("lost: %.2f %%", 100 * median(@lost_shares)) : nil)]
  end

  # A single call in a quiet process: how long after its start its line can be read.
  measurement :delivery do
    times = with(Target.new(RbprobeTool)) do |target|
      reader, writer = IO.pipe
      client = Client.new(RbprobeTool.command(target, SELECTOR), armed: /: tracing/, output: writer)
      writer.close
      Array.new(amount(:attaches)) do
        _, began_ns = target.run("traced", 1)
        raise NotMeasured, "the call is not shown" unless reader.wait_readable(5)

        (now * 1e9 - began_ns).tap { reader.readpartial(65_536) } / 1e6
      end
    ensure
      client&.kill
      reader&.close
    end
    [Row.new(key: "delivery", what: "from a call in a quiet process to its line in a pipe", unit: :ms, requirement: 5,
             rbprobe: Samples.new(times))]
  end

  private

  def sustained_rbprobe(overflow, to, *options, lost_shares: [])
    count = amount(:sustained_calls)
    Samples.new(Array.new(amount(:repetitions)) do
      with(Target.new(RbprobeTool)) do |target|
        client = RbprobeTool.attach(target, "--overflow=#{overflow}", *options, SELECTOR, output: to)
        _, began_ns = target.run("traced", count)
        calls, lost = RbprobeTool.stop(client, count, lines: to == output ? 1 : nil)
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
end
