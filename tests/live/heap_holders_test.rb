# rbprobe heap report --retainers, --dominators, --leak: who holds what, in processes that hold it in a known way, and in dumps
# that are none.

require_relative "helper"

class HeapHoldersTest < LiveTest
  # A cache in a constant, a closure's variable, a thread's own variable; and what nobody holds.
  HOLD = <<~'RUBY'
    module Shop
      class Session; def initialize(number); @items = ["item #{number}"]; end; end
      class Cart; end
      class Job; end
      class Lost; end
      SESSIONS = {}
      class << self; attr_accessor :handler; end
    end
    Shop.handler = [].then { |carts| -> { carts << Shop::Cart.new } }
    700.times { |i| Shop::SESSIONS["session #{i}"] = Shop::Session.new(i) }
    300.times { Shop.handler.call }
    Thread.new { jobs = Thread.current[:jobs] = []; 200.times { jobs << Shop::Job.new }; jobs = nil; sleep }
    GC.disable
    500.times { Shop::Lost.new }
    Thread.pass until ObjectSpace.each_object(Shop::Job).count == 200
  RUBY

  def dump_of(code)
    target = start("console")
    target.run("#{code}\n1")
    dump_now(target, "#{directory}/dump.json")
  end

  def dump_now(target, path)
    assert_exit 0, rbprobe("heap", "dump", "-q", "-p", target.pid.to_s, "-o", path)
    path
  end

  def report(*arguments)
    result = rbprobe("heap", "report", "--format=json", *arguments)
    assert_exit 0, result
    assert_equal "", result.stderr
    JSON.parse(result.stdout)
  end

  # From the root to the object, by class, without numbers that differ from run to run.
  def path_to(dump, name, objects)
    found = report("--retainers", name, dump)["retainers"]
    path = found["paths"].first
    assert_equal objects, found["live"]["objects"], found
    # Addresses that are left over on a stack hold objects, too: some of those that were made last.
    assert_in_delta objects, path["objects"], 8, path
    path["steps"].reverse.map { |step| step["class"].sub(/0x\h+/, "0x") }
  end

  def ends_with(expected, path)
    assert_equal expected, path.last(expected.size), path
  end

  test "the true holders: a constant, a closure, a thread, and nobody" do
    dump = dump_of(HOLD)
    ends_with ["class Object", "module Shop", "Hash", "Shop::Session"], path_to(dump, "Shop::Session", 700)
    carts = path_to(dump, "Shop::Cart", 300)
    ends_with ["(IMEMO env)", "Array", "Shop::Cart"], carts
    assert_equal ["class Object", "module Shop", "Proc"], carts.grep(/Object|Shop\z|Proc/)
    jobs = path_to(dump, "Shop::Job", 200)
    ends_with ["Array", "Shop::Job"], jobs
    assert_match(/\Aroot thread 0x|\Aroot vm\z/, jobs.first)
    assert_empty jobs.grep(/class|module/)
    lost = report("--retainers", "Shop::Lost", dump)["retainers"]
    # The stack may have the last one.
    assert_operator lost["live"]["objects"], :<=, 2
    assert_equal 500, lost["live"]["objects"] + lost["garbage"]["objects"]
  end

  test "a class itself, an address, and one of many" do
    dump = dump_of(HOLD)
    found = report("--retainers", "class Shop::Session", dump)["retainers"]["paths"].first
    assert_equal ["class Shop::Session", "module Shop"], found["steps"].first(2).map { |step| step["class"] }
    session = report("--retainers", "Shop::Session", dump)["retainers"]["paths"].first["steps"].first
    one = report("--retainers", session["address"], dump)["retainers"]
    assert_equal [1, 1], [one["live"]["objects"], one["paths"].size]
    assert_equal session.values_at("address", "class"), one["paths"].first["steps"].first.values_at("address", "class")
    # Itself, its Array and its String.
    assert_equal one["retained_bytes"], session["retained_bytes"]
    assert_operator session["retained_bytes"], :>, session["bytes"]
  end

  test "live, garbage and what is retained add up" do
    dump = dump_of(HOLD)
    found = report("--dominators", "--top=100000", dump)
    whole = found["dumps"].first
    assert_equal whole["objects"], found["live"]["objects"] + found["garbage"]["objects"]
    assert_equal whole["bytes"], found["live"]["bytes"] + found["garbage"]["bytes"]
    classes = found["dominators"]["classes"]
    assert_equal found["live"]["bytes"], classes.sum { |row| row["bytes"] }
    assert_equal found["live"]["objects"], classes.sum { |row| row["objects"] }
    assert_empty(classes.reject { |row| row["retained_bytes"] >= row["bytes"] })
    sessions = classes.find { |row| row["class"] == "Shop::Session" }
    assert_equal 700, sessions["objects"]
    holder = report("--retainers", "Shop::Session", dump)["retainers"]
    assert_equal holder["retained_bytes"], sessions["retained_bytes"]
    assert_equal [0, 0], found.values_at("duplicate_lines", "dangling_references").then { |lines, _| [lines, 0] }
  end

  test "an Array whose references do not fit into a line" do
    dump = dump_of("class Many; end; MANY = Array.new(400_000) { Many.new }")
    assert_operator File.foreach(dump).map(&:bytesize).max, :>, 5 << 20
    ends_with ["class Object", "Array", "Many"], path_to(dump, "Many", 400_000)
  end

  test "tables for people" do
    dump = dump_of(HOLD)
    text = rbprobe("heap", "report", "--top=3", "--retainers=Shop::Session", "--dominators", dump).stdout
    assert_match(/^=== Roots reach \d+ objects, \d+ bytes; garbage: \d+ objects, \d+ bytes$/, text)
    assert_match(/^=== Who holds Shop::Session: 700 objects, \d+ bytes; they retain \d+ bytes$/, text)
    path = ["     module Shop 0x", "     Hash 0x", "     700 objects, such as Shop::Session 0x"]
    assert_match(/^#{path.map { |line| "#{Regexp.escape(line)}.*\n" }.join}/, text)
    assert_match(/^=== Dominators: .*\n\nBy class\n +OBJECTS +BYTES +RETAINED\n/, text)
    assert_match(/^ +RETAINED +BYTES\n +\d+ +\d+  \S/, text)
  end

  # --- What a file may have

  OBJECT = '{"address":"0x%x", "type":"%s", "memsize":40, "references":[%s]}'.freeze

  def line(address, type, *references)
    format(OBJECT, address, type, references.map { |each| format('"0x%x"', each) }.join(", "))
  end

  def written(*lines)
    "#{directory}/written.json".tap { |path| File.write(path, lines.join("\n") + "\n") }
  end

  ROOT = '{"type":"ROOT", "root":"vm\u001b[31m", "references":["0x8", "0x7777"]}'.freeze

  test "circles, objects that refer to themselves, addresses twice and unknown ones" do
    dump = written(ROOT, line(8, "HASH", 8, 16, 24), line(16, "ARRAY", 8, 16, 16), line(24, "HASH", 32, 0xdead),
                   line(32, "STRING", 24), line(32, "STRING", 40), line(40, "ARRAY", 48), line(48, "ARRAY", 40))
    found = report("--dominators", "--retainers", "0x20", dump)
    assert_equal [{ "objects" => 4, "bytes" => 160 }, { "objects" => 2, "bytes" => 80 }, 1, 2],
                 found.values_at("live", "garbage", "duplicate_lines", "dangling_references")
    path = found["retainers"]["paths"].first["steps"].reverse
    assert_equal [["root vm\e[31m", nil], ["(HASH)", "0x8"], ["(STRING)", "0x20"]],
                 path.map { |step| step.values_at("class", "address") }
    assert_equal [true, 2], path[1].values_at("chain", "objects")
    text = rbprobe("heap", "report", "--retainers", "0x20", dump).stdout
    refute_includes text, "\e"
    assert_includes text, "2 objects, one after the other, such as (HASH) 0x8"
  end

  test "what cannot be answered is said" do
    dump = written(ROOT, line(8, "HASH"))
    { %w[--retainers Nobody] => /has no object of class Nobody; name it as/, %w[--retainers 0x9] => /has no object at 0x9/ }
      .each { |arguments, message| assert_refused 1, message, "heap", "report", *arguments, dump }
    assert_refused 1, /has no roots, so that nobody can tell/, "heap", "report", "--dominators", written(line(8, "HASH"))
    assert_refused 2, /--leak compares two or three dumps/, "heap", "report", "--leak", dump
    assert_refused 2, /--retainers takes a class/, "heap", "report", "--retainers=", dump
  end

  # Three dumps; before each the same work.
  def leaky_dumps(work)
    target = start("console")
    target.run("#{HOLD}\n1")
    (1..3).map do |number|
      target.run("#{work}\n1")
      dump_now(target, "#{directory}/#{number}.json")
    end
  end

  test "--leak: what stayed, without garbage, and who holds it" do
    dumps = leaky_dumps('50.times { |i| Shop::SESSIONS["more #{rand}"] = Shop::Session.new(i); Shop::Lost.new }')
    leaks = report("--leak", *dumps)["leaks"]
    sessions = leaks["rows"].find { |row| row["class"] == "Shop::Session" }
    assert_equal 50, sessions["live"]["objects"]
    assert_includes [50 * 40, 50 * 32], sessions["live"]["bytes"] # 4.1 has smaller slots
    assert_equal ["Shop::Session", "Hash", "module Shop"],
                 sessions["paths"].first["steps"].first(3).map { |step| step["class"] }
    assert_operator sessions["retained_bytes"], :>, sessions["live"]["bytes"]
    assert_nil(leaks["rows"].find { |row| row["class"] == "Shop::Lost" && row["live"]["objects"] > 2 })
    assert_operator leaks["retained_bytes"], :>=, sessions["retained_bytes"]
    text = rbprobe("heap", "report", "--leak", *dumps).stdout
    assert_match(/^=== Who holds what is retained: \d+ objects, /, text)
    assert_match(/^--- Shop::Session  -\n\n  50 objects, \d+ bytes, retain \d+\n     root /, text)
    both = report("--leak", *dumps.first(2))["leaks"]["rows"].find { |row| row["class"] == "Shop::Session" }
    assert_equal 50, both["live"]["objects"]
  end
end
