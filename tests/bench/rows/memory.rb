# What it takes of the target's memory.
class Measurements
  measurement :memory do
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

  private

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
end
