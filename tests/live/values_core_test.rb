# What is shown of objects of Ruby's own classes: what inspect would say, without calling a method that the application may
# have overridden.

require_relative "helper"

class ValuesCoreTest < LiveTest
  SETUP = <<~RUBY
    require "set"
    require "date"
    require "pathname"
    $VERBOSE = nil
    Point = Struct.new(:x, :y)
    Named = Struct.new(:a, :b, keyword_init: true)
    Wide = Struct.new(*(1..20).map { |i| :"m\#{i}" })
    class Sub < Point; end
    class Coded < StandardError; end
    class Holder; def initialize(attributes); @attributes = attributes; @hash = 2; end; end
    def holding(ivars)
      Object.new.tap { |object| ivars.each { |name, value| object.instance_variable_set(name, value) } }
    end
    def deep(object, times); times.times { object = yield(object) }; object; end
    nil
  RUBY

  # Ruby code, and what is shown of its value: a String, or a Regexp where a part of it may differ.
  VALUES = {
    "Point.new(1, [2])" => "#<struct Point x=1, y=[2]>",
    "Sub.new(:a)" => "#<struct Sub x=:a, y=nil>",
    "Named.new(a: 1)" => "#<struct Named a=1, b=nil>",
    "Struct.new(:q).new(7)" => "#<struct q=7>",
    "Point.allocate" => "#<struct Point x=nil, y=nil>",
    "Wide.new(*1..20)" => /\A#<struct Wide m1=1, m2=2, .*, m16=16, \.\.\.> \(20 members\)\z/,
    "deep(1, 9) { |o| Point.new(o) }" =>
      "#<struct Point x=#<struct Point x=#<struct Point x=#<struct Point ...>, y=nil>, y=nil>, y=nil>",
    "Set.new([1, :b])" => "#<Set: {1, :b}>",
    "Set.new" => "#<Set: {}>",
    "Set.allocate" => /\A#<Set(: \{\})?>\z/,
    "Set.new(1..100)" => /\A#<Set: \{1, 2, .*, 16, \.\.\.\}> \(100 elements\)\z/,
    "[[[Set[1]]]]" => "[[[#<Set: {...}>]]]",
    '/a.b\/c\d#{"/"}é/mix' => '/a.b\/c\d\/é/mix',
    'Regexp.new("\n\e")' => '/\n\e/',
    'Regexp.new("")' => "//",
    "Regexp.allocate" => "#<Regexp>",
    "3/4r" => "(3/4)",
    "-2r" => "(-2/1)",
    "1+2i" => "(1+2i)",
    "Complex(1.5, -0.0)" => "(1.5-0.0i)",
    "Complex(-1, 1/2r)" => "(-1+(1/2)i)",
    "Complex(0, Float::NAN)" => "(0+NaN*i)",
    "1...3" => "1...3",
    '"a"..' => '"a"..',
    "nil..1" => "..1",
    "Class.new(Range).new(1, 2)" => "1..2",
    "Range.allocate" => "nil..",
    "deep(1, 100_000) { |o| o..nil }" => "#<Range>......",
    "Time.at(1795413526, 123456).utc" => "2026-11-23 05:58:46.123456 UTC",
    "Time.at(1795413526).localtime('+01:00')" => "2026-11-23 06:58:46 +0100",
    "Time.at(0, 5, :nsec).localtime('-03:30')" => "1969-12-31 20:30:00.000000005 -0330",
    "Time.utc(-1, 2, 28)" => "-001-02-28 00:00:00 UTC",
    "Time.utc(2000, 2, 29, 23, 59, 59)" => "2000-02-29 23:59:59 UTC",
    "Time.utc(12345, 12, 31)" => "12345-12-31 00:00:00 UTC",
    "Time.new(1900, 1, 1, 0, 0, 0, '+00:19:32')" => "1900-01-01 00:00:00 +001932",
    "Time.allocate" => "#<Time>",
    'ArgumentError.new("no\e")' => '#<ArgumentError: no\e>',
    "Coded.new" => "#<Coded: Coded>",
    "NameError.new(:a)" => "#<NameError: :a>",
    "NoMethodError.new([1], :a)" => "#<NoMethodError: [1]>",
    'Coded.new("a").tap { |e| def e.message; $asked = 1; end }' => "#<Coded: a (its own message method was not called)>",
    'Coded.new("a").extend(Module.new { def to_s; $asked = 1; end })' =>
      "#<Coded: a (its own message method was not called)>",
    "Exception.allocate" => "#<Exception: Exception>",
    "[Coded.new([1])]" => "[#<Coded: [1]>]",
    "begin; nowhere; rescue NameError => e; e; end" => /\A#<NameError: undefined.*:?nowhere/,
    "e = Coded.new([]); e.message; a = [e]; Coded.new(a)" => "#<Coded: [#<Coded: []>]>",
    "proc {}" => "#<Proc console:1>",
    "lambda {}" => "#<Proc console:1 (lambda)>",
    ":upcase.to_proc" => /\A#<Proc(?: \(lambda\))?>\z/,
    "$shop.method(:sell)" => %r{\A#<Method: Shop#sell /\S*/shop\.rb:\d+>\z},
    "Shop.method(:open)" => %r{\A#<Method: Shop\.open /\S*/shop\.rb:\d+>\z},
    "Shop.instance_method(:sell)" => %r{\A#<UnboundMethod: Shop#sell /\S*/shop\.rb:\d+>\z},
    '"".method(:upcase)' => "#<Method: String#upcase>",
    "$stdout" => "#<IO:<STDOUT>>",
    'File.open("/dev/null")' => "#<File:/dev/null>",
    'File.open("/dev/null").tap(&:close)' => "#<File:/dev/null (closed)>",
    "IO.allocate" => /\A#<IO(:0x\h+)?>\z/,
    "[1, 2].each_slice(2)" => "#<Enumerator: [1, 2]:each_slice>",
    "deep([1], 9) { |o| o.each_slice(2) }" =>
      "#<Enumerator: #<Enumerator: #<Enumerator: #<Enumerator>:each_slice>:each_slice>:each_slice>",
    "Enumerator.allocate" => "#<Enumerator>",
    "(1..3).lazy" => "#<Enumerator::Lazy: 1..3>",
    "(1..3).lazy.map { $asked = 1 }.select(&:even?)" => /\A#<Enumerator::Lazy: \.\.\.(?::select)?>\z/,
    "Enumerator::Lazy.new([1]) { |y, v| y << v }" => "#<Enumerator::Lazy: [1]:each>",
    "Enumerator::Lazy.allocate" => "#<Enumerator::Lazy>",
    "1.step(10, 3)" => "((1..10).step(3))",
    "(1...10) % 3" => "((1...10).step(3))",
    "1.0.step(by: 0.5)" => "((1.0..).step(0.5))",
    "Class.new(Enumerator).new { |y| y << 1 }" => /\A#<#<Class:0x\h+>>\z/,
    "1e15" => "1000000000000000.0",
    "-1e16" => "-1.0e+16",
    "1e23" => "1.0e+23",
    "1.25e-5" => "1.25e-05",
    "0.0001" => "0.0001",
    "5e-324" => "5.0e-324",
    "1.7976931348623157e308" => "1.7976931348623157e+308",
    "123456789012345680.0" => "1.2345678901234568e+17",
    "9007199254740994.0" => "9007199254740994.0",
    "[0.1 + 0.2, 100.0, -0.0]" => "[0.30000000000000004, 100.0, -0.0]",
    '[:$1, :"$1a", :"a?=", :a?, :"9", :é, :"@1", :@a, :"a b", :"=", :"?"]' =>
      '[:$1, :"$1a", :"a?=", :a?, :"9", :é, :"@1", :@a, :"a b", :"=", :"?"]',
    'Struct.new(:"a b", :C, :"d?").new(1, 2, 3)' => '#<struct :"a b"=1, C=2, :d?=3>',
    'Pathname.new("/a\e")' => '#<Pathname:/a\e>',
    "Pathname.allocate" => "#<Pathname>",
    'Regexp.new("a", 32 | 1)' => "/a/in",
    "Thread.main" => "#<Thread main>",
    'Thread.new {}.tap { |thread| thread.name = "w\e" }' => '#<Thread "w\e">',
    "Date.new(2026, 11, 23)" => "2026-11-23",
    "Date.new(-100, 2, 3)" => "-0100-02-03",
    'DateTime.new(2026, 11, 23, 5, 58, 46.5, "+1")' => "2026-11-23T05:58:46+01:00",
    "Date.allocate" => "-4712-01-01",
    "Holder.new(1)" => "#<Holder>",
    'Holder.new("name" => 1)' => "#<Holder>",
    # As ActiveRecord keeps them: 3, 4.0 with Attributes, 4.2 to 6.0, 6.1 and newer, and from 7.2 on.
    'Holder.new("name" => 1, "id" => 42)' => "#<Holder id=42>",
    'Holder.new(holding("@attributes" => { "id" => holding("@value_before_type_cast" => "7") }))' => '#<Holder id="7">',
    'Holder.new(holding("@attributes" => { "id" => holding("@value_before_type_cast" => "7", "@value" => 7) }))' =>
      "#<Holder id=7>",
    'Holder.new(holding("@attributes" => holding("@delegate_hash" => {}, "@values" => { "id" => 8 })))' => "#<Holder id=8>",
    'Holder.new(holding("@attributes" => {}, "@casted_values" => { "id" => nil }, "@values" => {}))' => "#<Holder id=nil>",
    'Holder.new(holding("@attributes" => {}, "@values" => holding("@column_indexes" => { "id" => 1 }, "@row" => [0, 9])))' =>
      "#<Holder id=9>",
    'Holder.new(holding("@attributes" => {}, "@values" => holding("@column_indexes" => { "id" => 2 }, "@row" => [0, 9])))' =>
      "#<Holder>",
  }.freeze

  # Of newer Rubies.
  DATA = {
    "Pair.new(1, two: 2)" => nil,
    "Pair.new(one: 1, two: [2])" => "#<data Pair one=1, two=[2]>",
    "Data.define.new" => "#<data>",
    "Pair.allocate" => "#<data Pair one=nil, two=nil>",
  }.freeze

  def shop
    start("shop").tap { |target| target.run("eval(#{SETUP.dump}, TOPLEVEL_BINDING)") }
  end

  # What is shown of each expression's value.
  def shown(target, expressions, *options)
    tracer = trace(target, "--format", "json", *options, "Shop#secret(word)")
    expressions.each { |expression| target.run("$shop.send(:secret, (#{expression})); nil") }
    result = tracer.stop
    assert_exit 0, result
    result.events("call").map { |call| call.dig("values", "word") }
  end

  def assert_shown(target, table, *options)
    found = shown(target, table.keys, *options)
    assert_equal table.size, found.size
    table.zip(found) do |(expression, expected), text|
      expected.is_a?(Regexp) ? assert_match(expected, text, expression) : assert_equal(expected, text, expression)
    end
    assert_empty target.stderr
  end

  test "objects of Ruby's own classes, also where they are not initialized" do
    assert_shown(shop, VALUES)
  end

  test "objects of Data" do
    target = shop
    skip "this Ruby has no Data" unless Processes.target_ruby?(">= 3.2")
    target.run("Pair = Data.define(:one, :two)")
    assert_shown(target, DATA.compact)
  end

  test "decimal numbers" do
    target = shop
    skip "this Ruby has no BigDecimal" unless target.run('begin; require "bigdecimal"; 1; rescue LoadError; 2; end') == "1"
    assert_shown(target, { 'BigDecimal("1.5")' => "0.15e1", 'BigDecimal("-Infinity")' => "-Infinity" })
  end

  test "dates as they are where the application has overridden to_s and inspect" do
    target = shop
    target.run("class Date; def to_s; $asked = 1; end; def inspect; $asked = 2; end; end; nil")
    assert_shown(target, { "Date.new(2026, 1, 2)" => "2026-01-02" })
    assert_equal "nil", target.run("$asked")
  end

  test "times, with a zone that is an object, which is not asked, too; what they have not computed yet, they compute later" do
    target = shop
    target.run(<<~RUBY)
      class Zone
        def utc_to_local(time) $asked = 1; time + 3600; end
        def local_to_utc(time) $asked = 1; time - 3600; end
        def dst?(_) $asked = 1; false; end
      end
      $zoned = Time.at(0, in: Zone.new)
      $later = $zoned + 5
      ENV["TZ"] = "UTC"
      $lazy = Time.at(0)
      $asked = nil
    RUBY
    assert_shown(target, { "$zoned" => "1970-01-01 01:00:00 +0100", "$later" => "1970-01-01 00:00:05 UTC",
                           "$lazy" => "1970-01-01 00:00:00 +0000" })
    assert_equal "nil", target.run("$asked")
    assert_equal "[10800, 1]", target.run('ENV["TZ"] = "XYZ-3"; [$lazy.utc_offset, $later.utc_offset && $asked]')
    assert_shown(target, { "$later" => "1970-01-01 01:00:05 +0100" })
  end

  test "records of the real ActiveRecord, without asking it" do
    only_with_gems("active_record", "sqlite3")
    target = shop
    target.run(<<~RUBY)
      require "active_record"
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: "#{directory}/db")
      ActiveRecord::Base.connection.create_table(:orders) { |t| t.string :name }
      class Order < ActiveRecord::Base; end
      $made = Order.create!(name: "cup")
      nil
    RUBY
    assert_shown(target, { "$made" => "#<Order id=1>", "Order.first" => "#<Order id=1>", "[Order.new]" => "[#<Order id=nil>]",
                           "Order.first.tap(&:id)" => "#<Order id=1>", "Order.select(:name).to_a.first" => /\A#<Order/ })
    assert_shown(target, { "$made" => /\A#<Order @/ }, "--ivars")
  end

  # Every method of the objects' classes notes that it was called.
  SPIES = <<~RUBY
    $called = []
    KEPT = /\\A(?:__|object_id|instance_e|method_missing|initialize|respond_to_missing|allocate|new|inherited)/
    def spied(owner)
      names = owner.instance_methods + owner.private_instance_methods(false)
      spy = Module.new do
        names.uniq.grep_v(KEPT).each do |name|
          define_method(name) do |*arguments, &block|
            # What is called from here may be watched, too.
            $called << name if $watched && !($watched = false)
            super(*arguments, &block)
          end
        end
      end
      owner.prepend(spy)
      owner
    end
    class Listed < Enumerator; end
    CLASSES = [Point, Set, Regexp, Rational, Complex, Range, Time, Coded, Proc, Method, UnboundMethod, IO, Integer, Float,
               String, Symbol, Array, Hash, Enumerator, Thread, Date, Holder, Pathname, Listed]
    KEEP = { point: Point.new(1), set: Set[1, 2], pattern: /a/, third: 1/3r, complex: 1.5+2i, range: 1..2, time: Time.now,
             utc: Time.now.utc, coded: Coded.new("x"), proc: proc {}, method: 1.method(:+),
             unbound: Integer.instance_method(:+), io: $stdout, each: [1].each, thread: Thread.main, date: Date.new,
             record: Holder.new("id" => "x"), listed: Listed.new { |y| y << 1 }, lazy: [1].each.lazy.map { |x| x },
             steps: 1.step(3), path: Pathname.new("/") }
    (CLASSES + CLASSES.map(&:singleton_class)).each { |owner| spied(owner) }
    nil
  RUBY

  test "none of their methods is called" do
    target = shop
    target.run("eval(#{SPIES.dump}, TOPLEVEL_BINDING)")
    tracer = trace(target, "--value-size", "4000", "--args", "--return", "Shop#secret")
    target.run("KEEP.each_value { |v| $watched = true; $shop.send(:secret, v); $watched = false }; nil")
    assert_equal "[]", target.run("$called.uniq")
    lines = tracer.stop.tree.lines
    assert_equal 21, lines.size
    # It would have been noticed.
    target.run("KEEP.each_value { |value| $watched = true; value.inspect }; $watched = false; nil")
    assert_equal "[:inspect, :to_s]", target.run("$called.uniq")
    assert_equal "21", target.run("$called.size")
    bare = /#<(?:Set|Regexp|Rational|Complex|Range|Time|Proc|Method|UnboundMethod|IO|Enumerator|Thread|Holder)>/
    refute_match(bare, lines.join)
  end
end
