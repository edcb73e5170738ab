# What doc/rubies.md says of this Ruby is what rbprobe does on it, cell by cell.

require "zlib"
require_relative "helper"
require_relative "otlp_receiver"
require_relative "screen"
require_relative "terminal"

class RubiesTest < LiveTest
  include OnScreen

  PAGE = "#{Processes::ROOT}/doc/rubies.md".freeze
  RUBY = Processes::RUBY_VERSION_OF_TARGET[/\A\d+\.\d+/]
  PROGRAM = <<~'CODE'.tr("\n", " ").freeze
    class Shop; attr_reader :stock; def sell(n = 1) sold = n * 2; sold end;
      define_method(:made) { |n = 1| n } end;
    Pair = Struct.new(:left);
    KEPT = [];
    def work; KEPT.push(Shop.new.freeze); KEPT.shift if KEPT.size > 50; 2000.times { |n| n * n } end;
    2.times { |n| Thread.new { loop { work } }.name = "works #{n}" };
    nil
  CODE
  FORMATS = IO.popen([Processes::RBPROBE, "export", "--help"], &:read)[/--to=(\S+)/, 1].split("|").freeze

  # The row's name in the page, and how its cell is found out: the name of a method cell_of_..., and its arguments.
  ROWS = {
    "methods written in Ruby" => [:selector, "Shop#sell"],
    "methods of `define_method`" => [:selector, "Shop#made"],
    "methods written in C" => [:selector, "String#gsub"],
    "`attr_reader` and the like" => [:selector, "Shop#stock"],
    "inlined operators (`Integer#+`)" => [:selector, "Integer#+"],
    "accessors of a `Struct`" => [:selector, "Pair#left"],
    "how a call ended" => [:fact, "frames.endings"],
    "local variables when a method ends (`--locals`)" => [:trace, /^Shop#sell n=3 sold=6 /, "Shop.new.sell(3)", "--locals",
                                                          "Shop#sell"],
    "spans (`trace --otlp`)" => [:otlp],
    "waits for the GVL (`--gvl`)" => [:trace, /gvl waited/, "1 + 1", "--gvl"],
    "what threads do (`--timeline`)" => [:timeline],
    "garbage collections (`--gc`)" => [:trace, /^# gc /, "GC.start", "--gc"],
    "allocations (`--allocations`)" => [:trace, / Shop /, "Shop.new; 1", "--allocations", "Shop"],
    "`record`, `replay`, `report`, its `--tui`, each format of `export`" => [:record],
    "`stat`" => [:stat],
    "`profile`, by time and by `--cpu`" => [:profile, [], ["--cpu"]],
    "`profile --alloc`, `--retained`" => [:profile, ["--alloc=Shop"], %w[--retained --alloc=Shop --every 1]],
    "`profile --gvl`" => [:profile_of_gvl],
    "`bt`, with `--locals`" => [:backtrace],
    "who holds the Mutex that a thread waits for" => [:fact, "threads.mutex"],
    "where a process is that is stuck in C code, without ptrace" => [:fact, "threads.handler"],
    "`eval`" => [:eval],
    "`heap dump`, `heap report`, its `--retainers`" => [:heap],
    "`heap leak`" => [:leak],
    "`fork`" => [:fork],
  }.freeze

  # By row, the cell of this Ruby's column; nil: it has no column.
  def cells
    table = File.read(PAGE)[/^\| On Ruby .*?(?=^\n|\z)/m].lines.map { |line| line.chomp.split("|").drop(1).map(&:strip) }
    column = table.first.index(RUBY)
    column && table.drop(2).to_h { |row| [row.first, row[column]] }
  end

  # command: also one of two words.
  def run_on(command, *arguments)
    rbprobe(*command.split, "-q", "-p", @target.pid.to_s, *arguments)
  end

  # "yes" where it does what it should; "no" where it refuses in a line that names a version of Ruby. Anything else fails.
  def yes_where_shown(pattern, result)
    return refused(result) unless result.status.zero?

    assert_match pattern, result.stdout
    "yes"
  end

  def refused(result)
    assert_match(/\Arbprobe: [^\n]*\bRuby \d\.\d[^\n]*\n\z/, result.stderr)
    "no"
  end

  def cell_of_selector(selector)
    listed = run_on("methods", selector)
    assert_exit 0, listed
    engine = listed.stdout[/^#{Regexp.escape(selector)}  \S+  (\w+)/, 1]
    engine == "none" ? "no" : engine
  end

  def cell_of_fact(name)
    @facts ||= run_on("selftest", "--format", "json").objects.first["facts"].to_h { |fact| [fact["name"], fact] }
    fact = @facts.fetch(name)
    fact["state"] == "ok" && fact["seen"].split.include?(RUBY) ? "yes" : "no"
  end

  def cell_of_trace(pattern, code, *options)
    first = run_on("trace", "--duration", "0.1", *options)
    return refused(first) unless first.status.zero?

    tracer = launch("trace", "-v", "-p", @target.pid.to_s, *options)
    wait_until(-> { "it is shown: #{pattern}; #{tracer.stdout}#{tracer.stderr}" }) do
      @target.run(code)
      tracer.stdout.match?(pattern)
    end
    assert_exit 0, tracer.stop
    "yes"
  end

  def cell_of_timeline
    cell_of_trace(/"doing":"running"/, "sleep 0.01", "--timeline", "--format", "json")
    run_on("trace", "--duration", "0.3", "--timeline", "--format", "json").stdout.include?("sampled_hz") ? "by samples" : "yes"
  end

  def cell_of_otlp
    receiver = OtlpReceiver.new
    tracer = trace(@target, "Shop#sell", "--otlp", receiver.url)
    @target.run("Shop.new.sell(3)")
    assert_exit 0, tracer.stop
    assert_equal ["Shop#sell"], receiver.spans.map { |span| span[:name] }
    "yes"
  ensure
    receiver&.close
  end

  def cell_of_record
    file = "#{directory}/rec"
    client = launch("record", "-v", "-p", @target.pid.to_s, "-o", file, "--args", "Shop#sell").wait_until_armed
    @target.run("3.times { |n| Shop.new.sell(n) }")
    assert_exit 0, client.stop
    assert_match(/^Shop#sell\(n=2\)/, rbprobe("replay", "-q", file).stdout)
    assert_match(/^ +3 .* Shop#sell$/, rbprobe("report", "-q", file).stdout)
    FORMATS.each { |format| assert_match(/sell/n, exported(file, format)) }
    draw("report", "-q", "--tui", file)
    await(/Shop#sell$/)
    type("q")
    assert_left
    "yes"
  end

  def exported(file, format)
    result = rbprobe("export", "-q", file, "--to", format)
    assert_exit 0, result
    result.stdout.b.then { |bytes| bytes.start_with?("\x1f\x8b".b) ? Zlib.gunzip(bytes) : bytes }
  end

  def cell_of_stat
    client = launch("stat", "-v", "-p", @target.pid.to_s, "Shop#sell").wait_until_armed
    @target.run("7.times { Shop.new.sell }")
    yes_where_shown(/^ +7 .* Shop#sell$/, client.stop)
  end

  def cell_of_profile(*ways)
    answers = ways.map { |options| yes_where_shown(/work/, run_on("profile", "--duration", "0.5", *options)) }
    answers.uniq.join(", ")
  end

  def cell_of_profile_of_gvl
    profile = run_on("profile", "--duration", "0.5", "--gvl")
    assert_exit 0, profile
    assert_match(/^ +[\d.]+s  works \d for works \d$/, profile.stdout)
    profile.stdout.include?("by samples, as Ruby before 3.2") ? "by samples" : "yes"
  end

  # Most of the time a thread is in the block, which has a local variable.
  def cell_of_backtrace
    shown = /^   .* in (Object#)?work\n(?:.*\n)*?      n=\d+$|^      n=\d+$/
    found = wait_until("it is found there") do
      run_on("bt", "--locals").then { |result| result if result.stdout.match?(shown) || !result.status.zero? }
    end
    yes_where_shown(shown, found)
  end

  def cell_of_eval
    yes_where_shown(/\A\d+\n\z/, run_on("eval", "KEPT.size"))
  end

  def cell_of_heap
    dump = "#{directory_of_target.first}/dump"
    assert_exit 0, run_on("heap dump", "--gc", "-o", dump)
    assert_match(/^ +\d+ +\d+  Shop$/, rbprobe("heap", "report", "--top", "1000", dump).stdout)
    yes_where_shown(/root .*\n(?:.*\n)* +50 objects, such as Shop 0x/, rbprobe("heap", "report", "--retainers", "Shop", dump))
  end

  def cell_of_leak
    yes_where_shown(/=== Retained/, run_on("heap leak", "--interval", "0.2"))
  end

  def cell_of_fork
    copy = run_on("fork")
    assert_exit 0, copy
    pid = Integer(copy.stdout)
    wait_until("it is frozen") { Processes.comm_of(pid) == "rbprobe-frozen" }
    "yes"
  ensure
    Process.kill(:KILL, pid) if pid
  end

  test "each cell of this Ruby's column holds, and the table has each row" do
    @target = start("console")
    @target.run(PROGRAM)
    found = ROWS.transform_values { |(kind, *arguments)| send("cell_of_#{kind}", *arguments) }
    skip "doc/rubies.md has no column #{RUBY}; found: #{found}" unless cells
    assert_equal found, cells
  end
end
