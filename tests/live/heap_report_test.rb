# rbprobe heap report: what is in dumps that this Ruby has made, and in some that are written here; what leaks; and broken files.

require_relative "helper"
require "open3"
require "zlib"

class HeapReportTest < LiveTest
  # One of everything. Names of classes come after their instances. A line that begins with blanks continues the one before.
  DUMP = <<~'LINES'.gsub(/\n +/, " ").freeze
    {"type":"ROOT", "root":"vm", "references":["0x1000"]}
    {"address":"0x7f01", "type":"SHAPE", "id":1, "parent_id":0, "depth":2, "shape_type":"IVAR","edge_name":"@name",
      "edges":2, "memsize":42}
    {"address":"0x1000", "type":"OBJECT", "class":"0x2000", "ivars":3, "references":["0x1080"],
      "file":"/srv/app.rb", "line":7, "method":"new", "generation":3, "memsize":40, "flags":{"wb_protected":true}}
    {"address":"0x1028", "type":"OBJECT", "class":"0x2000", "ivars":3, "file":"/srv/app.rb", "line":7,
      "generation":4, "memsize":40}
    {"address":"0x1050", "type":"OBJECT", "shape_id":9, "slot_size":40, "class":"0x2080", "ivars":0, "memsize":40}
    {"address":"0x1060", "type":"STRUCT", "class":"0x2100", "memsize":80}
    {"address":"0x1080", "type":"STRING", "class":"0x3000", "embedded":true, "bytesize":5, "value":"twice",
      "encoding":"UTF-8", "file":"/srv/app.rb", "line":9, "generation":3, "memsize":40}
    {"address":"0x10a8", "type":"STRING", "class":"0x3000", "frozen":true, "fstring":true, "bytesize":5,
      "capacity":99, "value":"twice", "memsize":140}
    {"address":"0x10d0", "type":"STRING", "class":"0x3000", "embedded":true, "bytesize":8,
      "value":"a \"b\"\n\u001b[", "memsize":40}
    {"address":"0x10e0", "type":"STRING", "class":"0x3000", "embedded":true, "bytesize":8,
      "value":"a \"b\"\n\u001b[", "memsize":40}
    {"address":"0x10f8", "type":"STRING", "class":"0x3000", "shared":true, "encoding":"UTF-8",
      "references":["0x1080"], "memsize":40}
    {"address":"0x1120", "type":"ARRAY", "class":"0x3080", "length":70, "references":["0x1000", "0x1028"], "memsize":600}
    {"address":"0x1148", "type":"ARRAY", "frozen":true, "length":2, "embedded":true, "memsize":40}
    {"address":"0x1170", "type":"IMEMO", "class":"0x5602d3dcba90", "imemo_type":"callinfo", "memsize":40}
    {"address":"0x1198", "type":"DATA", "class":"0x3100", "struct":"tracer", "memsize":72}
    {"address":"0x11c0", "type":"DATA", "class":"0x3180", "struct":"VM/thread", "memsize":1000}
    {"address":"0x11e8", "type":"HASH", "class":"0x9990", "size":0, "memsize":40}
    {"address":"0x2000", "type":"CLASS", "class":"0x2040", "superclass":"0x2060", "name":"Shop::Order", "memsize":500}
    {"address":"0x2040", "type":"CLASS", "class":"0x3200", "superclass":"0x3200", "real_class_name":"Class",
      "singleton":true, "memsize":500}
    {"address":"0x2060", "type":"ICLASS", "class":"0x3280", "superclass":"0x3100", "memsize":40}
    {"address":"0x2080", "type":"CLASS", "class":"0x3200", "superclass":"0x2000", "real_class_name":"Shop::Order",
      "singleton":true, "memsize":500}
    {"address":"0x2100", "type":"CLASS", "class":"0x3200", "superclass":"0x3300", "memsize":500}
    {"address":"0x3000", "type":"CLASS", "class":"0x3200", "name":"String", "memsize":500}
    {"address":"0x3080", "type":"CLASS", "class":"0x3200", "name":"Array", "memsize":500}
    {"address":"0x3100", "type":"CLASS", "class":"0x3200", "name":"Object", "memsize":500}
    {"address":"0x3180", "type":"CLASS", "class":"0x3200", "name":"Thread", "memsize":500}
    {"address":"0x3200", "type":"CLASS", "class":"0x3200", "name":"Class", "memsize":500}
    {"address":"0x3300", "type":"CLASS", "class":"0x3200", "name":"Struct", "memsize":500}
    {"address":"0x4000", "type":"NONE"}
  LINES

  TEXT = <<~'TEXT'
    standard input: 26 objects, 7332 bytes; shapes: 1, 42 bytes; free slots: 1
      (it has no end mark: a missing end would not be noticed)

    By type
         OBJECTS          BYTES
              10           5000  CLASS
               2           1072  DATA
               2            640  ARRAY
               5            300  STRING
               3            120  OBJECT
               1             80  STRUCT
               3            120  ... 3 more

    By class
         OBJECTS          BYTES
              10           5000  Class
               1           1000  Thread
               1            600  Array
               5            300  String
               3            120  Shop::Order
               1             80  #<Class:0x2100> < Struct
               5            232  ... 5 more

    By allocation site
         OBJECTS          BYTES
               2             80  /srv/app.rb:7
               1             40  /srv/app.rb:9

    By generation
         OBJECTS          BYTES
               2             80  3
               1             40  4

    Without an allocation site, as it was not recorded: 23 of 26 objects

    Equal strings: 4 copies of 2 values; one of each would save 80 bytes
          COPIES         WASTED    LENGTH
               2             40         8  "a \"b\"\n\u001b["
               2             40         5  "twice"
    Not compared, as their values are not in the dump: 1 (40 bytes)

    Biggest objects
          LENGTH          BYTES  ADDRESS
               -           1000  0x11c0              Thread
              70            600  0x1120              Array
               -            500  0x2000              Class
               -            500  0x2040              Class
               -            500  0x2080              Class
               -            500  0x2100              Class
  TEXT

  # The report of these bytes as JSON.
  def report(bytes, *options)
    result = report_result(bytes, "--format=json", *options)
    assert_exit 0, result
    assert_equal "", result.stderr
    JSON.parse(result.stdout)
  end

  def report_result(bytes, *options)
    path = "#{directory}/dump"
    File.binwrite(path, bytes)
    rbprobe("heap", "report", *options, "-", stdin: path)
  end

  def counts(table, label = table["rows"].first&.keys&.first)
    table["rows"].to_h { |row| [row[label], row.values_at("objects", "bytes")] }
  end

  test "all that is in a dump, as tables" do
    result = report_result(DUMP, "--top", "6")
    assert_exit 0, result
    assert_equal TEXT, result.stdout.gsub(/ +$/, "")
    assert_equal "", result.stderr
  end

  test "all that is in a dump, as JSON" do
    found = report(DUMP)
    assert_equal({ "file" => "standard input", "objects" => 26, "bytes" => 7332, "shapes" => 1, "shape_bytes" => 42, "roots" => 1,
                   "free_slots" => 1, "own_objects" => 0, "own_bytes" => 0, "lines" => 29, "bad_lines" => 0,
                   "dump_bytes" => DUMP.bytesize, "trailing_bytes" => 0, "complete" => nil },
                 found["dumps"].first)
    assert_equal({ "(ARRAY)" => [1, 40], "(DATA tracer)" => [1, 72], "(ICLASS)" => [1, 40], "(IMEMO callinfo)" => [1, 40],
                   "(class 0x9990, not in the dump)" => [1, 40], "Class" => [10, 5000], "Thread" => [1, 1000],
                   "Array" => [1, 600],
                   "String" => [5, 300], "Shop::Order" => [3, 120], "#<Class:0x2100> < Struct" => [1, 80] },
                 counts(report(DUMP, "--top=20")["by_class"]))
    assert_equal({ "count" => 1, "objects" => 1, "bytes" => 40 }, found["by_class"]["others"])
    assert_equal ["a \"b\"\n\e[", 8, 2, 40, false],
                 found["strings"]["rows"].first.values_at("value", "length", "copies", "wasted_bytes", "cut")
    assert_equal({ "address" => "0x1120", "type" => "ARRAY", "class" => "Array", "bytes" => 600, "length" => 70 },
                 found["biggest"][1])
    assert_equal 23, found["objects_without_site"]
  end

  test "--sort objects" do
    found = report(DUMP, "--sort", "objects")
    assert_equal %w[CLASS STRING OBJECT IMEMO], found["by_type"]["rows"].map { |row| row["type"] }.values_at(0, 1, 2, -1)
  end

  # A frame of zstd whose only block is not compressed.
  def zstd(bytes)
    ["\x28\xB5\x2F\xFD\xA0".b, [bytes.bytesize].pack("V"), [1 | bytes.bytesize << 3].pack("V")[0, 3], bytes].join
  end

  test "dumps that are packed, by their first bytes, in one piece or several" do
    middle = DUMP.bytesize / 2
    expected = report(DUMP)
    assert_equal expected, report(Zlib.gzip(DUMP))
    assert_equal expected, report(Zlib.gzip(DUMP[0, middle]) + Zlib.gzip("") + Zlib.gzip(DUMP[middle..-1]))
    assert_equal expected, report(zstd(DUMP))
    assert_equal expected, report(zstd(DUMP[0, middle]) + zstd(DUMP[middle..-1]))
  end

  test "a packed dump without its end gives what came before, and says so" do
    [Zlib.gzip(DUMP * 1000), zstd(DUMP)].each do |packed|
      result = report_result(packed[0, packed.bytesize * 3 / 4], "--format=json")
      assert_exit 0, result
      assert_match(/\Arbprobe: .* (end too early|are damaged); only what is before that is reported\n\z/, result.stderr)
      dump = JSON.parse(result.stdout)["dumps"].first
      assert_equal false, dump["complete"]
      assert_operator dump["objects"], :>=, 10
    end
  end

  test "a dump without its end gives what came before, and says so" do
    lines = DUMP.lines
    result = report_result(lines[0, 10].join + lines[10][0, 50], "--format=json")
    assert_exit 0, result
    assert_equal "rbprobe: standard input: the dump ends in the middle of a line; only what is before that is reported\n",
                 result.stderr
    assert_equal [8, 1, false], JSON.parse(result.stdout)["dumps"].first.values_at("objects", "bad_lines", "complete")
    # Also where its last line was given an end.
    ended = report_result("#{lines[0, 10].join}#{lines[10][0, 50]}\n", "--format=json")
    assert_equal result.stderr, ended.stderr
    assert_equal [8, 1, false], JSON.parse(ended.stdout)["dumps"].first.values_at("objects", "bad_lines", "complete")
    # The last newline is not needed.
    assert_nil report(DUMP.chomp)["dumps"].first["complete"]
  end

  OWN = "{\"type\":\"ROOT\", \"root\":\"rbprobe\", \"end_mark\":true, \"references\":[\"0x1080\"]}\n"
  ENDED = "#{OWN}#{DUMP}{\"type\":\"ROOT\", \"root\":\"rbprobe end\", \"references\":[]}\n"

  test "a dump that should have an end mark, cut at the end of a line" do
    whole = report(ENDED)["dumps"].first
    assert_equal [25, 1, true], whole.values_at("objects", "own_objects", "complete")
    refute_includes report_result(ENDED).stdout, "end mark"
    [ENDED.lines[0..-2].join, ENDED.lines[0, 5].join, OWN + DUMP.lines.first, ENDED + OWN].each do |cut|
      result = report_result(cut, "--format=json")
      assert_exit 0, result
      assert_equal "rbprobe: standard input: the end of the dump is missing; only what is before that is reported\n",
                   result.stderr
      assert_equal false, JSON.parse(result.stdout)["dumps"].first["complete"]
    end
    # One after the other.
    assert_equal [true, nil], [ENDED + ENDED, ENDED + DUMP].map { |both| report(both)["dumps"].first["complete"] }
    assert_includes report_result(ENDED + DUMP).stdout, "(it has no end mark: a missing end would not be noticed)"
  end

  test "what follows the compressed data is left out, and counted" do
    packed = Zlib.gzip(ENDED)
    assert_equal [true, 0], report(packed + "\0" * 1000)["dumps"].first.values_at("complete", "trailing_bytes")
    ["garbage", "\0\0garbage", "\x1e\x1f\x8b".b + "x" * 300_000].each do |garbage|
      result = report_result(packed + garbage, "--format=json")
      assert_exit 0, result
      size = garbage.delete_prefix("\0\0").bytesize
      assert_equal "rbprobe: standard input: the compressed data are followed by #{size} bytes of something else, " \
                   "which were left out\n", result.stderr
      assert_equal [25, true, size], JSON.parse(result.stdout)["dumps"].first.values_at("objects", "complete", "trailing_bytes")
    end
  end

  test "lines that are none of a dump are left out and counted" do
    lines = DUMP.lines
    bad = ["garbage\n", "[1]\n", "{}\n", "{\"type\":\"STRING\"}\n", "#{lines[3].chomp}#{lines[4]}",
           "{\"address\":12, \"type\":\"STRING\"}\n"]
    result = report_result(lines[0, 3].join + bad.join + "\n" + lines[3..-1].join, "--format=json")
    assert_exit 0, result
    assert_equal "rbprobe: standard input: 6 of its 35 lines are no object of a dump and were left out; the first is line 4\n",
                 result.stderr
    assert_equal [26, 6, nil], JSON.parse(result.stdout)["dumps"].first.values_at("objects", "bad_lines", "complete")
  end

  test "sizes that no process can have are left out and counted, and overflow nothing" do
    large = [2**64 - 1, 2**63, 2**63, 2**56, 2**55].each_with_index.map do |size, i|
      "{\"address\":\"0x#{i}8\", \"type\":\"OBJECT\", \"class\":\"0x2000\", \"memsize\":#{size}}\n"
    end
    result = report_result(DUMP + large.join.chomp, "--format=json")
    assert_exit 0, result
    assert_equal "rbprobe: standard input: 4 of its 34 lines are no object of a dump and were left out; the first is line 30\n" \
                 "rbprobe: standard input: 4 of those have a size that no process can have\n", result.stderr
    dump = JSON.parse(result.stdout)["dumps"].first
    assert_equal [27, report(DUMP)["dumps"].first["bytes"] + 2**55, 4, nil],
                 dump.values_at("objects", "bytes", "bad_lines", "complete")
  end

  test "names that are not UTF-8, and lines longer than any buffer" do
    path = "/srv/caf\xE9 \x01.rb".b
    object = "{\"address\":\"0x20\", \"type\":\"OBJECT\", \"file\":\"#{path}\", \"line\":3, \"memsize\":40}\n".b
    references = Array.new(600_000) { |i| format("\"0x%x\"", i * 8) }.join(", ")
    array = "{\"address\":\"0x28\", \"type\":\"ARRAY\", \"length\":600000, \"references\":[#{references}], \"memsize\":4800040}\n"
    text = "\\\"]\\\\" * 1_500_000
    strings = [0x30, 0x38].map do |address|
      "{\"address\":\"0x#{address.to_s(16)}\", \"type\":\"STRING\", \"bytesize\":4500000, \"value\":\"#{text}\", " \
      "\"memsize\":4500041}\n"
    end
    [report(array + strings.join + array.sub("0x28", "0x40")),
     report(object.gsub("\x01", "-") + array + strings.join)].each do |found|
      assert_equal 4_800_040, found["biggest"][0]["bytes"]
      assert_equal 600_000, found["biggest"][0]["length"]
      assert_equal [2, 9_000_082], counts(found["by_type"])["STRING"]
      # Of such strings the values are not compared.
      assert_equal [2, 9_000_082, 0], found["strings"].values_at("not_compared", "not_compared_bytes", "copies")
    end
    assert_equal "/srv/caf\uFFFD -.rb:3", report(object.gsub("\x01", "-"))["by_site"]["rows"][0]["site"]
  end

  test "what is no dump is refused" do
    nothing = "#{directory}/none"
    assert_refused 1, /\Arbprobe: cannot open #{nothing}: No such file or directory\n\z/, "heap", "report", nothing
    assert_refused 1, /\Arbprobe: cannot read #{directory}: Is a directory\n\z/, "heap", "report", @directories.last
    ["\n", "hello\nworld\n", File.binread("/bin/sh"), "{\"json\":1}\n" * 1000, "x" * 20_000_000].each do |bytes|
      result = report_result(bytes)
      assert_exit 1, result
      assert_match(/\Arbprobe: standard input is (empty|no heap dump: its first line is not .*)\n\z/, result.stderr)
      assert_equal "", result.stdout
    end
  end

  test "wrong usage" do
    {
      [] => /needs a dump/, %w[a b c d] => /up to 3 dumps, not also "d"/, %w[- -] => /only once/,
      %w[--top 0 -] => /--top takes a whole number/, %w[--format xml -] => /--format takes text, json or html, not "xml"/,
      %w[--sort name -] => /--sort takes bytes or objects/,
    }.each { |arguments, message| assert_refused 2, message, "heap", "report", *arguments }
    assert_refused 2, /heap needs a verb/, "heap"
    assert_refused 2, /heap has no verb "repot"/, "heap", "repot"
    assert_match(/^  report /, rbprobe("heap", "--help").stdout)
    assert_match(/--top=N/, rbprobe("heap", "report", "--help").stdout)
  end

  # Makes dumps of what it holds, and lets go of everything but orders.
  LEAK = <<~'RUBY'
    require "objspace"
    module Shop
      class Order
        def initialize
          @note = "a no" + "te"
        end
      end
    end
    $anonymous = Class.new
    ORDERS = []
    def work
      500.times { ORDERS << Shop::Order.new }
      700.times.map { |i| "temporary #{i}" }.join
    end
    ObjectSpace.trace_object_allocations_start
    7.times { ORDERS << $anonymous.new }
    ORDERS << Object.new.tap { |o| def o.x; end } << ("big " * 1_500_000) << [ORDERS] * 70_000
    [10, 11, 12].each do |descriptor|
      work
      GC.start
      file = IO.for_fd(descriptor, "w")
      ObjectSpace.dump_all(output: file)
      file.close
    end
  RUBY

  MADE_HERE = "-e:#{LEAK.lines.index { |line| line.include?("Order.new") } + 1}"
  NOTED_HERE = "-e:#{LEAK.lines.index { |line| line.include?("a no") } + 1}"

  def leaky_dumps
    dumps_by(LEAK)
  end

  # The paths of three dumps that this program makes.
  def dumps_by(program)
    paths = %w[1 2 3].map { |name| "#{directory}/#{name}.json" }
    pid = Process.spawn(*Processes::RUBY, "-e", program, 10 => [paths[0], "w"], 11 => [paths[1], "w"], 12 => [paths[2], "w"])
    Process.wait(pid)
    assert $?.success?
    paths
  end

  def report_of(*paths)
    result = rbprobe("heap", "report", "--format=json", "--top=100000", *paths)
    assert_exit 0, result
    assert_equal "", result.stderr
    JSON.parse(result.stdout)
  end

  # The same, by plain means: { label => [objects, bytes] }.
  def tally(objects)
    objects.group_by { |object| yield object }.transform_values do |group|
      [group.size, group.sum { |object| object["memsize"] || 0 }]
    end
  end

  test "shapes: classes with several, and the variables of each" do
    skip "this Ruby writes no shapes" unless Processes.target_ruby?(">= 3.3")
    target = start("console")
    target.run(<<~RUBY)
      class Sorted; def initialize(names); names.each { |name| instance_variable_set(name, 1) }; end; end
      $sorted = %i[@a @b @c].permutation.map { |names| Sorted.new(names) }
      class Wild; def initialize(name); instance_variable_set(name, 1); end; end
      $wild = (1..20).map { |i| Wild.new(:"@v\#{i}") }
    RUBY
    path = "#{directory}/shapes.dump"
    assert_exit 0, rbprobe("heap", "dump", "-q", "-p", target.pid.to_s, "-o", path)
    shapes = report_of(path, "--shapes")["shapes"]
    found = shapes["classes"].to_h { |row| [row["class"], row.values_at("shapes", "too_complex")] }
    assert_equal [6, 0], found["Sorted"]
    assert_equal 20, found["Wild"].sum
    assert_operator found["Wild"].last, :>, 0
    assert_includes shapes["deepest"].map { |row| row["variables"] }, "@c @b @a"
    text = rbprobe("heap", "report", "--shapes", path).stdout
    assert_match(/^Classes with several shapes\n +SHAPES +TOO COMPLEX\n(?:.*\n)*? +6 +0  Sorted$/, text)
  end

  test "shapes with many variables are shown by their ends, and their beginnings not at all" do
    dump = "#{directory}/deep.dump"
    shapes = (1..40).map do |i|
      %({"address":"0x#{i}8", "type":"SHAPE", "id":#{i}, "parent_id":#{i - 1}, "depth":#{i + 1}, "edge_name":"@v#{i}", ) +
        %("edges":#{i < 40 ? 1 : 0}, "memsize":40}\n)
    end
    File.write(dump, shapes.join)
    text = rbprobe("heap", "report", "--shapes", dump).stdout
    assert_includes text, "Shapes with most variables\n       EDGES          DEPTH\n" \
                          "           0             41  @v1 @v2 @v3 ... @v38 @v39 @v40\n"
    assert_equal 1, text.scan("@v40").size
    assert_equal [(1..40).map { |i| "@v#{i}" }.join(" ")],
                 report_of(dump, "--shapes")["shapes"]["deepest"].map { |row| row["variables"] }
  end

  test "a dump without shapes" do
    dump = "#{directory}/none.dump"
    File.write(dump, %({"address":"0x1000", "type":"OBJECT", "class":"0x2000", "memsize":40}\n))
    assert_match(/^No shapes are in the dump: Ruby writes them from 3\.3 on$/, rbprobe("heap", "report", "--shapes", dump).stdout)
  end

  test "what is dead, and waits for its finalizer, is in no row of its class" do
    dump = "#{directory}/dead.dump"
    File.write(dump, %w[CLASS STRING STRING ZOMBIE].each_with_index.map { |type, i|
      of = i.zero? ? '"name":"String"' : '"class":"0x1000"'
      %({"address":"0x#{i + 1}000", "type":"#{type}", #{of}, "memsize":40}\n)
    }.join)
    rows = counts(report_of(dump)["by_class"], "class")
    assert_equal [[2, 80], [1, 40]], rows.values_at("String", "(ZOMBIE)"), rows.inspect
  end

  test "a real dump has what Ruby's own parser finds in it" do
    path = leaky_dumps.last
    objects = File.foreach(path, encoding: "BINARY").map { |line| JSON.parse(line.force_encoding("UTF-8").scrub("?")) }
                  .reject { |object| %w[ROOT SHAPE].include?(object["type"]) }
    found = report_of(path)
    assert_equal [objects.size, objects.sum { |object| object["memsize"] || 0 }],
                 found["dumps"].first.values_at("objects", "bytes")
    assert_equal tally(objects) { |object| object["type"] }, counts(found["by_type"])
    sites = objects.select { |object| object["file"] }
    assert_equal tally(sites) { |object| "#{object["file"]}:#{object["line"]}" }, counts(found["by_site"])
    assert_equal tally(objects.select { |object| object["generation"] }) { |object| object["generation"].to_s },
                 counts(found["by_generation"])
    names = objects.select { |object| %w[CLASS MODULE].include?(object["type"]) }.to_h do |object|
      [object["address"], object["name"] || object["real_class_name"]]
    end
    named = objects.select { |object| names[object["class"]] && !%w[IMEMO ICLASS DATA CLASS MODULE].include?(object["type"]) }
    tally(named) { |object| names[object["class"]] }.each do |name, numbers|
      assert_equal numbers, counts(found["by_class"])[name], name
    end
    assert_equal 1, found["by_class"]["rows"].count { |row| row["class"].start_with?("#<Class:") && row["objects"] == 7 }
    strings = objects.select { |object| object["type"] == "STRING" && (object["value"] || object["bytesize"] == 0) }
                     .group_by { |object| object["value"] || "" }.select { |_, copies| copies.size > 1 }
    assert_equal [strings.size, strings.sum { |_, copies| copies.size }],
                 found["strings"].values_at("duplicated_values", "copies")
    wasted = strings.transform_values do |copies|
      copies.sum { |copy| copy["memsize"] } - copies.map { |copy| copy["memsize"] }.max
    end
    assert_equal wasted.values.sum, found["strings"]["wasted_bytes"]
    found["strings"]["rows"].each do |row|
      next if row["cut"]

      assert_equal [strings[row["value"]].size, wasted[row["value"]]], row.values_at("copies", "wasted_bytes"), row["value"]
    end
    assert_equal objects.map { |object| object["memsize"] || 0 }.max(50), found["biggest"].map { |row| row["bytes"] }.first(50)
    orders = found["by_class"]["rows"].find { |row| row["class"] == "Shop::Order" }
    assert_equal 1500, orders["objects"]
    assert_equal 1500, found["strings"]["rows"].find { |row| row["value"] == "a note" }["copies"]
    assert_equal %w[ARRAY STRING], (found["biggest"].map { |row| row["type"] } & %w[ARRAY STRING])[0, 2].sort
  end

  test "two dumps: what grew, what is new" do
    first, second, = leaky_dumps
    found = report_of(first, second)
    orders = found["growth"]["by_class"]["rows"].find { |row| row["class"] == "Shop::Order" }
    assert_equal [500, 1000], orders.values_at("objects_before", "objects")
    fresh = found["new"]["by_class_and_site"]["rows"].select { |row| row["class"] == "Shop::Order" }
    assert_equal [[MADE_HERE, 500]], fresh.map { |row| row.values_at("site", "objects") }
    assert_equal found["dumps"][1]["objects"], found["new"]["objects"] + found["new"]["stayed"]
    assert_equal found["dumps"][0]["objects"], found["new"]["gone"] + found["new"]["stayed"]
  end

  test "three dumps: the leak" do
    found = report_of(*leaky_dumps)
    leak = found["retained"]["by_class_and_site"]["rows"]
    assert_equal [[MADE_HERE, 500]],
                 leak.select { |row| row["class"] == "Shop::Order" }.map { |row| row.values_at("site", "objects") }
    assert_equal 500, leak.find { |row| row["class"] == "String" && row["site"] == NOTED_HERE }["objects"]
    assert_operator found["retained"]["objects"], :<, 1100
    assert_equal 500, found["retained"]["strings"]["rows"].find { |row| row["value"] == "a note" }["copies"]
    orders = found["growth"]["by_class"]["rows"].find { |row| row["class"] == "Shop::Order" }
    assert_equal [500, 1500], orders.values_at("objects_before", "objects")
  end

  # As `heap dump --allocations` records for one dump only.
  RECORDED_ONCE = <<~'RUBY'
    require "objspace"
    Order = Class.new
    ORDERS = []
    [10, 11, 12].each do |descriptor|
      ObjectSpace.trace_object_allocations_start if descriptor == 11
      500.times { ORDERS << Order.new }
      GC.start
      IO.for_fd(descriptor, "w").tap { |file| ObjectSpace.dump_all(output: file) }.close
      next unless descriptor == 11
      ObjectSpace.trace_object_allocations_stop
      ObjectSpace.trace_object_allocations_clear
    end
  RUBY

  test "three dumps, of which the second alone has allocation sites" do
    paths = dumps_by(RECORDED_ONCE)
    refute_includes File.read(paths[2]), '"file":"-e"'
    retained = report_of(*paths)["retained"]
    orders = retained["by_class_and_site"]["rows"].select { |row| row["class"] == "Order" }
    assert_equal [["-e:6", 500]], orders.map { |row| row.values_at("site", "objects") }
    assert_equal 1, retained["by_generation"]["rows"].count { |row| row["objects"] >= 500 }
  end

  # A dump of these objects: address => [type, class, memsize, generation]; all were allocated in line 5.
  def dump_of(objects)
    lines = objects.map do |address, (type, class_address, memsize, generation)|
      site = ", \"file\":\"app.rb\", \"line\":5, \"generation\":#{generation}" if generation
      "{\"address\":\"#{address}\", \"type\":\"#{type}\", \"class\":\"#{class_address}\"#{site}, \"memsize\":#{memsize}}\n"
    end
    names = { "0x1" => "Order", "0x2" => "Array", "0x3" => "Class" }.map do |address, name|
      "{\"address\":\"#{address}\", \"type\":\"CLASS\", \"class\":\"0x3\", \"name\":\"#{name}\", \"memsize\":500}\n"
    end
    "#{directory}/dump".tap { |path| File.write(path, (lines + names).join) }
  end

  ORDER = ["OBJECT", "0x1", 40].freeze
  LIST = ["ARRAY", "0x2", 80].freeze

  # What stays, what goes, what comes and stays (0x30, 0x40, 0x50), what comes and goes; and places that others have taken.
  def three_dumps
    [
      { "0x10" => ORDER, "0x18" => ["ARRAY", "0x2", 100], "0x20" => LIST, "0x30" => LIST, "0x40" => [*ORDER, 1],
        "0x50" => ORDER },
      { "0x10" => ORDER, "0x18" => ["ARRAY", "0x2", 300], "0x30" => ORDER, "0x40" => [*ORDER, 2], "0x50" => [*ORDER, 2],
        "0x60" => ORDER, "0x70" => [*ORDER, 2] },
      { "0x10" => ORDER, "0x18" => ["ARRAY", "0x2", 400], "0x30" => ORDER, "0x40" => ORDER, "0x50" => [*ORDER, 2],
        "0x70" => [*ORDER, 3], "0x80" => ORDER },
    ].map { |objects| dump_of(objects) }
  end

  COMPARED = <<~'TEXT'
    1: 9 objects, 1880 bytes
      (it has no end mark: a missing end would not be noticed)
    2: 10 objects, 2040 bytes
      (it has no end mark: a missing end would not be noticed)
    3: 10 objects, 2140 bytes
      (it has no end mark: a missing end would not be noticed)

    === Growth from the first dump to the last

    By type
         OBJECTS          BYTES
              -2           +140  ARRAY  (now 1)
              +3           +120  OBJECT  (now 6)

    By class
         OBJECTS          BYTES
              -2           +140  Array  (now 1)
              +3           +120  Order  (now 6)

    By allocation site
         OBJECTS          BYTES
              +1            +40  app.rb:5  (now 2)

    === Retained: in the second and third dump, not in the first: 3 objects, 120 bytes
    5 objects were new in the second

    By type
         OBJECTS          BYTES
               3            120  OBJECT

    By class and allocation site
         OBJECTS          BYTES
               2             80  Order  app.rb:5
               1             40  Order  -

    By generation
         OBJECTS          BYTES
               2             80  2

    Without an allocation site, as it was not recorded: 1 of 3 objects

    Biggest objects
          LENGTH          BYTES  ADDRESS
               -             40  0x30                Order
               -             40  0x40                Order  app.rb:5
               -             40  0x50                Order  app.rb:5
  TEXT

  test "three dumps, each object's fate known" do
    paths = three_dumps
    result = rbprobe("heap", "report", *paths)
    assert_exit 0, result
    assert_equal COMPARED,
                 paths.each_with_index.reduce(result.stdout.gsub(/ +$/, "")) { |text, (path, i)| text.sub(path, (i + 1).to_s) }
  end

  test "two dumps, each object's fate known" do
    found = report_of(*three_dumps.first(2))
    # Gone: 0x20, and what was at 0x30, 0x40 and 0x50.
    assert_equal [5, 200, 5, 4], found["new"].values_at("objects", "bytes", "stayed", "gone")
    grown = found["growth"]["by_type"]["rows"].map do |row|
      row.values_at("type", "objects_before", "bytes_before", "objects", "bytes")
    end
    assert_equal [["ARRAY", 3, 260, 1, 300], ["OBJECT", 3, 120, 6, 240]], grown.sort
    assert_equal [["Order", "-", 2], ["Order", "app.rb:5", 3]],
                 found["new"]["by_class_and_site"]["rows"].map { |row| row.values_at("class", "site", "objects") }.sort
  end

  test "dumps of different processes are recognised" do
    other = DUMP.gsub("0x", "0x7")
    paths = [DUMP, other].map { |bytes| "#{directory}/dump".tap { |path| File.write(path, bytes) } }
    result = rbprobe("heap", "report", *paths)
    assert_exit 0, result
    assert_equal "rbprobe: the dumps have no object in common; are they of the same process?\n", result.stderr
  end

  test "a report that fails leaves the file of its -o as it was, and never takes the dump's place" do
    Dir.mktmpdir do |place|
      kept, dump = "#{place}/kept.txt", "#{place}/dump.json"
      File.write(kept, "of yesterday")
      File.write(dump, DUMP)
      assert_refused 1, /nothing-here/, "heap", "report", "-o", kept, "#{place}/nothing-here.json"
      assert_refused 3, //, "heap", "leak", "-p", "999999", "-o", kept
      assert_equal "of yesterday", File.read(kept)
      File.symlink("dump.json", "#{place}/link")
      [dump, "#{place}/link"].each do |path|
        assert_refused 2, /\A\S+: #{dump} is the dump; give the report another name\n\z/, "heap", "report", "-o", path, dump
      end
      assert_equal DUMP, File.read(dump)
      assert_exit 0, rbprobe("heap", "report", "-o", kept, dump)
      assert_equal rbprobe("heap", "report", dump).stdout, File.read(kept)
    end
  end

  test "a limit on the size of files is an error as others are" do
    Dir.mktmpdir do |place|
      File.write("#{place}/dump.json", DUMP)
      script = "ulimit -f 1; exec #{Processes::RBPROBE} heap report --format html -o #{place}/report.html #{place}/dump.json"
      output, status = Open3.capture2e("bash", "-c", script)
      assert_equal 1, status.exitstatus, output
      assert_match(/\Arbprobe: cannot write to \S+report\.html: File too large; what came after that is not in it\n\z/, output)
    end
  end

  test "a report that fails leaves no new file, and an old one as it was" do
    broken, new, old = %w[broken new old].map { |name| "#{directory}/#{name}" }
    File.write(broken, "no dump\n")
    File.write(old, "kept\n")
    [new, old].each { |path| assert_exit 1, rbprobe("heap", "report", broken, "-o", path) }
    refute File.exist?(new), "a file that nothing was written to"
    assert_equal "kept\n", File.read(old)
    File.write(dump = "#{directory}/dump", DUMP)
    assert_exit 0, rbprobe("heap", "report", dump, "-o", new)
    assert_includes File.read(new), "By type"
  end
end
