# How many events a second come through, from one thread that calls as fast as it can for much longer than a ring lasts.
class Measurements
  measurement :sustained do
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

  private

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
end
