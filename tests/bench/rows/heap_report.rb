# Reading heap dumps: `rbprobe heap report` beside Ruby's own JSON parser, both on the same dump of a real process.

require "json"

class Measurements
  # Arrays, hashes, objects, strings of which some are equal, with allocation sites: about 250 bytes of dump for each.
  HEAP = <<~'RUBY'
    require "objspace"
    ObjectSpace.trace_object_allocations_start
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
     # 10 million objects, which are about 2 GB, in a minute.
     Row.new(key: "heap-report-dominators", what: "`heap report --dominators`: the same dump, likewise", unit: :mb_per_s,
             requirement: 33, rbprobe: Samples.new(held))]
  ensure
    FileUtils.rm_f(dump)
  end

  private

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
