# Reading heap dumps: `rbprobe heap report` beside Ruby's own JSON parser, both on the same dump of a real process; and what it
# takes to say who holds what in ten million objects.

require "fiddle"
require "json"

class Measurements
  # Arrays, hashes, objects, strings of which some are equal, with allocation sites: about 250 bytes of dump for each.
  HEAP = <<~'RUBY'
    require "objspace"
    ObjectSpace.trace_object_allocations_start unless ENV["WITHOUT_SITES"]
    Order = Struct.new(:number, :items, :note)
    class Item
      def initialize(sku, count)
        @sku, @count, @tags = "sku-#{sku}", count, { sku: sku }
      end
    end
    orders = Array.new(Integer(ARGV[0]) / 14) do |i|
      items = Array.new(4) { |j| Item.new(i % 5000, j) }
      Order.new("order #{i}", items, "note for #{i % 100}, longer than what is embedded")
    end
    GC.start
    ObjectSpace.dump_all(output: $stdout)
    orders.size
  RUBY

  measurement :heap_report do
    dump = "#{SCRATCH}/heap.json"
    system(*RUBY, "-e", HEAP, amount(:heap_objects).to_s, out: dump) || raise(NotMeasured, "the dump could not be made")
    megabytes = File.size(dump) / 1e6
    rates = Array.new(amount(:repetitions)) { megabytes / report_s(dump) }
    held = Array.new(amount(:repetitions)) { megabytes / report_s(dump, "--dominators") }
    [Row.new(key: "heap-report", what: "`heap report`: a dump of #{megabytes.round} MB, a second of one core's time",
             unit: :mb_per_s, requirement: 300, rbprobe: Samples.new(rates),
             notes: "Ruby's `JSON.parse` of each line, without counting anything: #{ruby_json_rate(dump).round} MB/s"),
     Row.new(key: "heap-report-dominators", what: "`heap report --dominators`: the same dump, likewise", unit: :mb_per_s,
             requirement: 33, rbprobe: Samples.new(held))]
  ensure
    FileUtils.rm_f(dump)
  end

  # Straight from the process that it is of: the dump is some 2 GB. A quick run has a tenth of the objects, and of what it may
  # take.
  measurement :heap_report_large do
    objects = amount(:large_heap_objects)
    share = objects / 10_000_000r
    seconds, mebibytes = usage_of_holders(objects)
    what = "`heap report --retainers --dominators`: #{objects / 1_000_000} million objects"
    [Row.new(key: "heap-report-large", what: "#{what}, time of one core", unit: :s, requirement: (60 * share).to_f,
             rbprobe: Samples.new([seconds])),
     Row.new(key: "heap-report-large-memory", what: "#{what}, memory at most", unit: :mib, requirement: (2048 * share).to_f,
             rbprobe: Samples.new([mebibytes]))]
  end

  private

  # As many objects as are asked for: orders of 14 objects, and their hashes.
  def usage_of_holders(objects)
    reader, writer = IO.pipe
    ruby = spawn({ "WITHOUT_SITES" => "1" }, *RUBY, "-e", HEAP, (objects * 14 / 16).to_s, out: writer)
    writer.close
    usage = usage_of(RbprobeTool::PROGRAM, "heap", "report", "--retainers", "Item", "--dominators", "-", in: reader,
                                                                                                        out: File::NULL)
    reader.close
    Process.wait(ruby)
    $?.success? ? usage : raise(NotMeasured, "the dump could not be made")
  end

  # Seconds of a core, and the most memory that it had at a time, in MiB: as the kernel says of children that have ended, and so
  # asked by a process that has no other one.
  def usage_of(*command)
    asked = IO.popen("-") do |answer|
      next answer.read if answer

      worked = system(*command)
      puts worked ? children_usage.join(" ") : ""
      $stdout.flush
      exit!
    end
    raise NotMeasured, "#{command.take(3).join(" ")} failed" if asked.strip.empty?

    asked.split.map(&:to_f)
  end

  RUSAGE_CHILDREN = -1

  # struct rusage begins with two timevals and ru_maxrss, in KiB.
  def children_usage
    usage = Fiddle::Pointer.malloc(1024, Fiddle::RUBY_FREE)
    getrusage = Fiddle::Function.new(Fiddle::Handle::DEFAULT["getrusage"], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP],
                                     Fiddle::TYPE_INT)
    getrusage.call(RUSAGE_CHILDREN, usage)
    user_s, user_us, system_s, system_us, most_kib = usage[0, 5 * Fiddle::SIZEOF_LONG].unpack("l!5")
    [user_s + system_s + (user_us + system_us) / 1e6, most_kib / 1024.0]
  end

  def report_s(dump, *options)
    before = Process.times
    raise NotMeasured, "heap report failed" unless system(RbprobeTool::PROGRAM, "heap", "report", *options, dump, out: File::NULL)

    after = Process.times
    after.cutime + after.cstime - before.cutime - before.cstime
  end

  # Of as much of the dump as takes some seconds.
  def ruby_json_rate(dump)
    bytes = 0
    from = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
    File.foreach(dump) do |line|
      JSON.parse(line)
      break if (bytes += line.bytesize) > 100_000_000
    end
    bytes / 1e6 / (Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - from)
  end
end
