# Taking heap dumps: `rbprobe heap dump` from start to end, beside ObjectSpace.dump_all in the process itself, both to a new
# file, in turn: now one, now the other first, because to the kernel it is not the same which of its memory was used last.
class Measurements
  measurement :heap_dump do
    objects = amount(:heap_objects)
    pauses = []
    own, ours = with(Target.new(RbprobeTool)) do |target|
      target.run("heap-build", objects / 3)
      Array.new(amount(:repetitions)) do |turn|
        rates = { own: -> { own_dump_rate(target) }, ours: -> { dump_rate(target, pauses) } }
        measured = (turn.even? ? %i[own ours] : %i[ours own]).to_h { |which| [which, rates[which].call] }
        measured.values_at(:own, :ours)
      end.transpose.map { |column| Samples.new(column) }
    end
    [Row.new(key: "heap-dump", what: "`heap dump`: #{objects} objects to a file; beside it `ObjectSpace.dump_all`",
             unit: :mb_per_s, requirement: 0.9, relative: true, untraced: own, rbprobe: ours,
             notes: "from the client's start to its end, standard output being a file: " \
                    "what -o names is made safe on the disk as well, which `dump_all` does not do"),
     Row.new(key: "heap-dump-pause", what: "how long the process stands still for that", unit: :ms, rbprobe: Samples.new(pauses))]
  end

  private

  # In MB/s, both.
  def own_dump_rate(target)
    ns, = target.run("heap-dump", 1)
    file = dump_file(target)
    File.size(file) / 1e6 / (ns / 1e9)
  ensure
    FileUtils.rm_f(file)
  end

  def dump_rate(target, pauses)
    file = dump_file(target)
    from = now
    report, status = Open3.capture2e(*%w[sh -c], '"$@" 2>&1 >"$0"', file, RbprobeTool::PROGRAM, "heap", "dump",
                                     "-p", target.pid.to_s, "-o", "-")
    seconds = now - from
    raise NotMeasured, "heap dump failed: #{report}" unless status.success?

    pauses << Float(report[/stood still for (\d+\.\d+) ms/, 1])
    File.size(file) / 1e6 / seconds
  ensure
    FileUtils.rm_f(file)
  end

  # As in target.rb.
  def dump_file(target)
    "#{Dir.tmpdir}/bench-heap-#{target.pid}.json"
  end
end
