# What doc/rubies.md says of this Ruby is what rbprobe does on it, cell by cell.

require_relative "helper"

class RubiesTest < LiveTest
  PAGE = "#{Processes::ROOT}/doc/rubies.md".freeze
  RUBY = Processes::RUBY_VERSION_OF_TARGET[/\A\d+\.\d+/]
  PROGRAM = <<~'CODE'.tr("\n", " ").freeze
    class Shop; attr_reader :stock; def sell(n = 1) n end;
      define_method(:made) { |n = 1| n } end;
    Pair = Struct.new(:left);
    nil
  CODE

  # The row's name in the page, and how its cell is found out. A Symbol is a fact of selftest.
  ROWS = {
    "methods written in Ruby" => "Shop#sell",
    "methods of `define_method`" => "Shop#made",
    "methods written in C" => "String#gsub",
    "`attr_reader` and the like" => "Shop#stock",
    "inlined operators (`Integer#+`)" => "Integer#+",
    "accessors of a `Struct`" => "Pair#left",
    "how a call ended" => :"frames.endings",
    "who holds the Mutex that a thread waits for" => :"threads.mutex",
    "where a process is that is stuck in C code, without ptrace" => :"threads.handler",
    "waits for the GVL (`--gvl`)" => ["--gvl"],
    "what threads do (`--timeline`)" => ["--timeline", "--format", "json"],
    "garbage collections (`--gc`)" => ["--gc"],
    "allocations (`--allocations`)" => ["--allocations", "Shop"],
  }.freeze

  # By row, the cell of this Ruby's column; nil: it has no column.
  def cells
    table = File.read(PAGE)[/^\| On Ruby .*?(?=^\n|\z)/m].lines.map { |line| line.chomp.split("|").drop(1).map(&:strip) }
    column = table.first.index(RUBY)
    column && table.drop(2).to_h { |row| [row.first, row[column]] }
  end

  def cell_of_selector(target, selector)
    listed = rbprobe("methods", "-p", target.pid.to_s, selector)
    assert_exit 0, listed
    engine = listed.stdout[/^#{Regexp.escape(selector)}  \S+  (\w+)/, 1]
    engine == "none" ? "no" : engine
  end

  def cell_of_event(target, options)
    traced = rbprobe("trace", "-p", target.pid.to_s, "--duration", "0.1", *options)
    traced.status.zero? ? "yes" : "no"
  end

  test "each cell of this Ruby's column holds, and the table has each row" do
    target = start("console")
    target.run(PROGRAM)
    facts = rbprobe("selftest", "-p", target.pid.to_s, "--format", "json").objects.first["facts"]
    facts = facts.to_h { |fact| [fact["name"].to_sym, fact] }
    found = ROWS.transform_values do |how|
      case how
      when String then cell_of_selector(target, how)
      when Symbol then facts.fetch(how)["state"] == "ok" && facts[how]["seen"].split.include?(RUBY) ? "yes" : "no"
      else cell_of_event(target, how)
      end
    end
    skip "doc/rubies.md has no column #{RUBY}; found: #{found}" unless cells
    assert_equal found, cells
  end
end
