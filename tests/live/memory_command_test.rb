# rbprobe memory: what the process has, and what of it has changed.

require_relative "helper"
require_relative "terminal"

class MemoryCommandTest < LiveTest
  # More live objects of one class than a fresh process has of most.
  CROWD = "class Crowd; end; $crowd = Array.new(5_000) { Crowd.new }; $crowd.size".freeze

  def memory(target, *options)
    rbprobe("memory", "-p", target.pid.to_s, *options)
  end

  def memory_of(target, *options)
    result = memory(target, "--format=json", *options)
    assert_exit 0, result
    assert_equal "", result.stderr.gsub(/^rbprobe: .*loaded the extension.*\n/, "")
    result.objects
  end

  def class_count(sample, name)
    sample.dig("ruby", "objects", "classes").find { |row| row["name"] == name }&.fetch("count")
  end

  test "classes are counted, types add up, and Ruby's own numbers are GC.stat's" do
    target = start("console")
    target.run(CROWD)
    sample = memory_of(target).first
    assert_equal target.pid, sample["pid"]
    assert_equal 5_000, class_count(sample, "Crowd")
    objects = sample.dig("ruby", "objects")
    refute objects["cut"]
    assert_operator objects["types"].fetch("OBJECT"), :>=, 5_000
    assert_operator objects["types"].values.sum, :<=, objects["slots"]
    assert_operator objects["classes"].sum { |row| row["count"] }, :<=, objects["types"].values.sum
    keys = JSON.parse(target.run("GC.stat.keys").gsub(/:(\w+)/, '"\1"'))
    assert_equal keys.sort, sample.dig("ruby", "gc").keys.sort
    resident = Processes.resident_kib_of(target.pid) * 1024
    assert_in_delta resident, sample["resident"], resident / 4.0
    assert_operator sample["proportional"], :<=, sample["resident"]
  end

  test "one screen for people" do
    target = start("console")
    target.run(CROWD)
    result = memory(target)
    assert_exit 0, result
    assert_match(/^memory +\d+\.\d MiB resident/, result.stdout)
    assert_match(/^slots +[\d,]+ live, [\d,]+ free: \d+ % used; [\d,]+ pages$/, result.stdout)
    assert_match(/^GC +\d+ runs?: \d+ minor, \d+ major/, result.stdout)
    assert_match(/^malloc +\S+ \S+ of \S+ \S+ until a GC/, result.stdout)
    assert_match(/^ +[\d,]+ [A-Z]+ +5,000 Crowd$/, result.stdout)
    assert_operator result.stdout.lines.size, :<=, 40
  end

  test "on a narrow terminal nothing wraps, and no number is cut" do
    target = start("console")
    target.run("module AVeryLongName; module OfAModuleWithin; class WithAClassThatIsNamedAtLength; end; end; end; " \
               "$crowd = Array.new(5_000) { AVeryLongName::OfAModuleWithin::WithAClassThatIsNamedAtLength.new }; nil")
    terminal = Terminal.new(["memory", "-p", target.pid.to_s, "--every", "0.2", "--count", "3"], columns: 80, rows: 60)
    @tracers << terminal
    terminal.expect(/5,000 AVeryLongName\S*\.\.$/)
    target.run("$crowd.concat(Array.new(12_345) { $crowd.first.class.new }).size")
    terminal.expect(/17,345 AVery\S*\.\. \(\+12,345\)$/)
    terminal.wait
    assert_empty terminal.text.lines(chomp: true).select { |line| line.size > 80 }
    assert_match(/^malloc .*\n {11}\S/, terminal.text)
  end

  test "on a very narrow terminal types are above classes" do
    target = start("shop")
    terminal = Terminal.new(["memory", "-p", target.pid.to_s], columns: 40, rows: 60)
    @tracers << terminal
    assert_equal 0, terminal.wait
    lines = terminal.text.lines(chomp: true)
    assert_empty lines.select { |line| line.size > 40 || line =~ /\A +\z/ }
    first, second = lines.each_index.select { |i| lines[i] =~ /\A +objects of (type|class)\z/ }
    assert_match(/\A +[\d,]+ [A-Z]+\z/, lines[first + 1])
    assert_match(/\A +[\d,]+ [A-Z]\w+/, lines[second + 1])
  end

  test "with --every on a terminal a sample fits it" do
    target = start("shop")
    terminal = Terminal.new(["memory", "--every", "0.1", "--count", "2", target.pid.to_s], rows: 24)
    @tracers << terminal
    assert_equal 0, terminal.wait
    samples = terminal.raw.split("\e[H\e[2J").drop(1)
    assert_equal 2, samples.size
    samples.each { |sample| assert_includes 12..23, sample.lines.size, sample }
  end

  test "with --every the differences" do
    target = start("console")
    target.run(CROWD)
    tracer = launch("memory", "-p", target.pid.to_s, "--every=0.2")
    tracer.wait_for(/5,000 Crowd\n/)
    target.run("$crowd.concat(Array.new(300) { Crowd.new }).size")
    tracer.wait_for(/5,300 Crowd \(\+300\)\n/)
    assert_exit 0, tracer.stop
  end

  test "Ctrl-C ends it, also where a question is answered just then" do
    target = start("console")
    20.times do
      tracer = launch("memory", "-p", target.pid.to_s, "--no-objects", "--every=0.001")
      tracer.wait_for(/resident/)
      assert_exit 0, tracer.stop
    end
  end

  test "--count ends it, and JSON has a line each time" do
    target = start("console")
    samples = memory_of(target, "--every=0.01", "--count=3")
    assert_equal 3, samples.size
    assert_operator samples[0]["time_ns"], :<, samples[2]["time_ns"]
  end

  test "--no-objects looks at no object" do
    target = start("console")
    sample = memory_of(target, "--no-objects").first
    refute sample["ruby"].key?("objects")
    assert sample["ruby"].key?("gc")
  end

  test "counting is broken off when it takes too long, and says how much it has seen" do
    target = start("console")
    target.run("$many = Array.new(1_500_000) { Object.new }; 1")
    sample = memory_of(target, "--pause=1").first
    objects = sample.dig("ruby", "objects")
    assert objects["cut"]
    assert_operator objects["slots"], :<, 1_500_000
    assert_match(/was broken off there: these are about \d+ % of the heap/, memory(target, "--pause=1").stdout)
  end

  test "no code of the application runs for it" do
    target = start("console")
    target.run(<<~'RUBY')
      $ran = []
      class Loud
        def self.name; $ran << :name; "Quiet"; end
        def self.to_s; $ran << :to_s; "Quiet"; end
        def self.inspect; $ran << :inspect; "Quiet"; end
        def class; $ran << :class; String; end
      end
      $loud = Array.new(3_000) { Loud.new }
      $anonymous = Class.new { def self.inspect; $ran << :anonymous; "x"; end }
      $unnamed = Array.new(2_000) { $anonymous.new }
      def ObjectSpace.count_objects(*); $ran << :count_objects; {}; end
      def GC.stat(*); $ran << :stat; {}; end
      1
    RUBY
    sample = memory_of(target).first
    assert_equal 3_000, class_count(sample, "Loud")
    anonymous = sample.dig("ruby", "objects", "classes").select { |row| row["name"].start_with?("#<Class:0x") }
    assert_includes anonymous.map { |row| row["count"] }, 2_000
    assert_equal "[]", target.run("$ran")
  end

  test "a process that never loaded the extension, one that is busy in eight threads, one that sleeps" do
    only_where_loading_is_possible
    assert_operator memory_of(start("shop", load: false)).first["resident"], :>, 0
    busy = start("busy", 8)
    busy.run("go")
    assert_equal 8, class_count(memory_of(busy).first, "Work")
    busy.run("halt")
    assert_operator memory_of(start("states", "sleep")).first["resident"], :>, 0
  end

  test "wrong usage" do
    assert_refused 2, /memory needs -p PID/, "memory"
    assert_refused 2, /--count goes with --every/, "memory", "-p", "1", "--count=2"
    assert_refused 2, /--format takes text or json/, "memory", "-p", "1", "--format=xml"
  end
end
