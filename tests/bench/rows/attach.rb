# How long it takes to attach, and to attach and let go.
class Measurements
  STATES = { "sleep" => "in sleep", "compute" => "computing", "join" => "in join with 8 busy threads" }.freeze

  # From the client's exec to what it says when it is armed, and to its end.
  measurement :attach do
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
               notes: "from spawning the client to its word on stderr; " \
                      "rbtrace: to \"attached\", which is before it arms#{failed.values.join}"),
       Row.new(key: "attach-detach-#{state}", what: "the same to the client's end (attach and detach)", unit: :ms,
               rbprobe: ended["rbprobe"], rbtrace: ended["rbtrace"])]
    end + [first_call]
  end

  private

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
    Row.new(key: "first-call", what: "start to the first traced call", unit: :ms, rbprobe: "not measured: #{e.message}",
            rbtrace: "-")
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
end
