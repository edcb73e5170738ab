# Taking heap dumps: `rbprobe heap dump` from start to end, beside ObjectSpace.dump_all in the process itself, both to a file, in turn.
class Measurements
  measurement :heap_dump do
    objects = amount(:heap_objects)
    pauses = []
    own, ours = with(Target.new(RbprobeTool)) do |target|
      target.run("heap-build", objects / 3)
      Array.new(amount(:repetitions)) do
        ns, = target.run("heap-dump", 1)
        file = "#{Dir.tmpdir}/bench-heap-#{target.pid}.json"
        rates = [File.size(file) / 1e6 / (ns / 1e9), dump_rate(target, file, pauses)]
        FileUtils.rm_f(file)
        rates
      end.transpose.map { |column| Samples.new(column) }
    end
    [Row.new(key: "heap-dump", what: "`heap dump`: #{objects} objects to a file; beside it `ObjectSpace.dump_all`", unit: :mb_per_s, requirement: 0.9,
             relative: true, untraced: own, rbprobe: ours, notes: "from the client's start to its end, standard output being a file: what -o names is made safe on the disk as well, which `dump_all` does not do"),
     Row.new(key: "heap-dump-pause", what: "how long the process stands still for that", unit: :ms, rbprobe: Samples.new(pauses))]
  end

  private

  # In MB/s.
  def dump_rate(target, file, pauses)
    from = now
    report, status = Open3.capture2e(*%w[sh -c], '"$@" 2>&1 >"$0"', file, RbprobeTool::PROGRAM, "heap", "dump", "-p", target.pid.to_s, "-o", "-")
    seconds = now - from
    raise NotMeasured, "heap dump failed: #{report}" unless status.success?

    pauses << Float(report[/stood still for (\d+\.\d+) ms/, 1])
    File.size(file) / 1e6 / seconds
  end
end
