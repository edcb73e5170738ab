# rbprobe stat --by: calls counted apart.

require_relative "helper"
require_relative "stat_rows"
require_relative "terminal"

class StatByTest < LiveTest
  include StatRows

  test "--by thread and --by class count apart; what is beyond the limit is counted together" do
    target = start("console")
    target.run("class Work; define_method(:made) { |number| number }; end; class Other < Work; end")
    code = "[3, 4].map { |i| Thread.new { Thread.current.name = \"worker \#{i}\"; i.times { |n| Work.new.made(n) } } }" \
           ".each(&:join); 2.times { |n| Other.new.made(n) }; 5.times { 'text'.valid_encoding? }"
    selectors = ["Work#made", "String#valid_encoding?"]
    %w[--calls --attributes].each do |option|
      counter = stat(target, "--format", "json", "--by", "thread", *option, *selectors)
      target.run(code)
      by_thread = rows_of(counter.stop).map { |row| [row["method"], row["thread"].sub(/\A\d+ ?/, ""), row["calls"]] }
      assert_equal [["String#valid_encoding?", "", 5], ["Work#made", "", 2], ["Work#made", "worker 3", 3],
                    ["Work#made", "worker 4", 4]], by_thread.sort
    end
    counter = stat(target, "--format", "json", "--by", "class", *selectors)
    target.run(code)
    by_class = rows_of(counter.stop).map { |row| row.values_at("method", "class", "calls") }
    assert_equal [["String#valid_encoding?", "String", 5], ["Work#made", "Other", 2], ["Work#made", "Work", 7]], by_class.sort
    counter = stat(target, "--format", "json", "--by", "class", "Work#made")
    target.run("300.times { |n| Class.new(Work).new.made(n) }; GC.start; 300.times { |n| Work.new.made(n) }")
    counted = rows_of(counter.stop)
    assert_equal 600, counted.sum { |row| row["calls"] }
    assert_equal 400, counted.find { |row| !row.key?("class") }["calls"]
  end

  test "on a terminal of 80 columns long names and keys are cut; -v, a pipe and JSON have them whole" do
    target = start("console")
    target.run("module Billing; module Adapters; class Connection; def log(sql); sql; end; end; end; end; nil")
    selector = "Billing::Adapters::Connection#log(statement: sql)"
    statement = "SELECT items.* FROM items WHERE items.order_id = ? AND items.kind = ? ORDER BY items.id"
    shown = lambda do |*options|
      terminal = Processes::Terminal.new(["stat", "-p", target.pid.to_s, "--by", "statement", "--interval", "0.2",
                                          *options, selector]).tap { |one| @tracers << one }
      wait_until("it counts") do
        target.run("Billing::Adapters::Connection.new.log(#{statement.dump}); nil")
        terminal.text.include?("SELECT")
      end
      terminal.signal(:INT)
      terminal.wait
      terminal.text.lines.map(&:chomp).grep(/SELECT/)
    end
    [[], ["--calls"], ["--measure", "cpu"]].each do |options|
      rows = shown.(*options)
      rows.each { |row| assert_match(/\A +\d+ .*#log  "SELECT items.* FROM.*\.\.\.\z/, row) }
      assert_operator rows.map(&:size).max, :<=, 80
    end
    assert_match(/ Billing::Adapters::Connection#log  "#{Regexp.escape(statement)}"\z/, shown.("-v").join)
    counter = stat(target, "--by", "statement", selector)
    target.run("Billing::Adapters::Connection.new.log(#{statement.dump}); nil")
    assert_match(/ Billing::Adapters::Connection#log  "#{Regexp.escape(statement)}"$/, counter.stop.stdout)
  end

  CALLERS = <<~'RUBY'
    class Callee
      def called(error = nil)
        raise error if error
      end
    end

    class Calls
      def directly
        3.times { Callee.new.called }
        "text".center(9)
      end

      def through_c
        [nil, IOError].each(&Callee.new.method(:called))
      rescue IOError
        nil
      end

      define_method(:by_block) { Callee.new.called }

      def self.of_class
        eval("Callee.new.called; 'text'.center(9)")
      end

      def deep(levels)
        levels.zero? ? Callee.new.called : deep(levels - 1)
      end

      def self.all
        calls = new
        4.times { calls.directly }
        calls.through_c
        2.times { calls.by_block }
        of_class
        calls.deep(150)
        Thread.new(&Callee.new.method(:called)).join
        Fiber.new(&Callee.new.method(:called)).resume
        eval("class ::Calls; def by_block; Callee.new.called; end; end")
        calls.by_block
        "done"
      end
    end
  RUBY

  def with_callers
    start("console").tap { |target| target.run("eval(#{CALLERS.dump}, TOPLEVEL_BINDING, 'calls.rb', 1)") }
  end

  def callers_counted(target, *arguments)
    counter = stat(target, "--format", "json", "--by", "caller", *arguments, "Callee#called", "String#center", "Calls#deep")
    yield
    rows_of(counter.stop).to_h { |row| [row.values_at("method", "caller"), row.values_at("calls", "errors")] }
  end

  test "--by caller: the callers are those of a full trace" do
    target = with_callers
    expected = nil
    counted = callers_counted(target) do
      tracer = trace(target, "--format", "json", "--stack=1", "Callee#called", "String#center", "Calls#deep")
      target.run("Calls.all")
      calls = tracer.stop.events("call")
      expected = calls.group_by { |call| [call["method"], call["stack"].first&.fetch("label") || "(no caller)"] }
      expected.transform_values! { |same| [same.size, same.count { |call| call["ended"] == "raised" }] }
    end
    # Of blocks, where they begin is told as well.
    by_label = counted.group_by { |(method, caller), _| [method, caller.sub(/\A(block .*) calls\.rb:\d+\z/, '\1')] }
    assert_equal expected, by_label.transform_values { |same| same.map(&:last).transpose.map(&:sum) }
    assert_equal [12, 0], counted[["Callee#called", "Calls#directly"]]
    assert_equal [2, 0], counted[["Callee#called", "(no caller)"]]
    assert_equal [150, 0], counted[["Calls#deep", "Calls#deep"]]
    %w[auto hook].each do |engine|
      counted = callers_counted(target, "--calls", "--engine", engine) { target.run("Calls.all") }
      assert_equal [12, nil], counted[["Callee#called", "Calls#directly"]], engine
      assert_equal [4, nil], counted[["String#center", "Calls#directly"]], engine
    end
  end

  test "--by caller: blocks that define_method has made methods of are told apart by where they begin" do
    target = start("console")
    target.run(<<~'RUBY'.then { |code| "eval(#{code.dump}, TOPLEVEL_BINDING, '/srv/app.rb', 1)" })
      class Routes
        def query; end
        define_method(:first) do
          query
        end
        define_method(:second) { query }
      end
    RUBY
    counter = stat(target, "--format", "json", "--by", "caller", "Routes#query")
    target.run("Routes.new.tap { |routes| routes.first; 2.times { routes.second } }; nil")
    assert_equal({ "block in <class:Routes> app.rb:3" => 1, "block in <class:Routes> app.rb:6" => 2 },
                 rows_of(counter.stop).to_h { |row| row.values_at("caller", "calls") })
  end

  test "--by caller: callers that are collected and moved are told apart; what is beyond the limit is counted together" do
    target = with_callers
    counted = callers_counted(target) do
      target.run(<<~'RUBY')
        300.times do |i|
          Class.new { eval "def from_#{i}; Callee.new.called; end" }.new.public_send("from_#{i}")
          GC.start if i % 50 == 0
          GC.compact if i % 100 == 0 && GC.respond_to?(:compact)
        end
      RUBY
    end
    assert_equal 201, counted.size
    assert_equal [100, 0], counted[["Callee#called", nil]]
    assert_equal [[1, 0]], counted.reject { |(_, caller), _| caller.nil? }.values.uniq
    counter = stat(target, "--by", "caller", "Callee#called")
    target.run("Calls.new.through_c")
    # Array#each is written in Ruby where there is YJIT, from 4.0 on.
    assert_match(/  method  caller\n.*  Callee#called  (Calls#through_c|Array#each)$/, counter.stop.stdout)
  end

  QUERIES = <<~'RUBY'
    class Store
      def initialize(name)
        @name = name
      end
      attr_reader :name

      def query(sql, limit = 10)
        raise IOError if sql == "broken"
        limit
      end

      define_method(:by_block) { |value, *rest| value }

      def inspect
        raise "an application's inspect is not called"
      end

      def self.all
        stores = %w[main replica].map { |name| new(name) }
        5.times { |i| stores[i % 2].query("select 1", i) }
        3.times { stores[0].query("select \n'\e[31m'") }
        2.times { stores[1].query("broken") rescue nil }
        stores[0].query(nil)
        stores[0].query(stores[1])
        stores[0].query(:sym, [1, { a: 2.5 }])
        4.times { |i| stores[0].by_block(i, i + 1) }
        Array.new(3) { |i| Thread.new { 10.times { stores[1].query("thread \#{i}") } } }.each(&:join)
        6.times { |i| "text".center(i % 2 + 10) }
        "done"
      end
    end
  RUBY

  def with_queries
    start("console").tap { |target| target.run("eval(#{QUERIES.dump}, TOPLEVEL_BINDING, 'store.rb', 1)") }
  end

  # Of a trace of these values, and of what was counted by it.
  def compare_with_trace(target, selector, expression)
    tracer = trace(target, "--format", "json", "#{selector}(#{expression})")
    counter = stat(target, "--format", "json", "--by", expression, selector)
    target.run("Store.all")
    calls = tracer.stop.events("call")
    expected = calls.group_by { |call| call["values"].fetch(expression) }
    expected.transform_values! { |same| [same.size, same.count { |call| call["ended"] == "raised" }] }
    counted = rows_of(counter.stop).to_h { |row| [row["key"], row.values_at("calls", "errors")] }
    assert_equal expected, counted, "#{selector} by #{expression}"
    counted
  end

  test "--by EXPR: the values are those of a full trace" do
    target = with_queries
    counted = compare_with_trace(target, "Store#query", "sql")
    assert_equal [5, 0], counted['"select 1"']
    assert_equal [2, 2], counted['"broken"']
    assert_equal [1, 0], counted["#<Store>"]
    compare_with_trace(target, "Store#query", "limit")
    assert_equal %w["main" "replica"], compare_with_trace(target, "Store#query", "@name").keys.sort
    assert_equal %w["main" "replica"], compare_with_trace(target, "Store#query", "name").keys.sort
    compare_with_trace(target, "Store#query", "self")
    compare_with_trace(target, "Store#query", "sql.class")
    compare_with_trace(target, "Store#by_block", "value")
    assert_equal({ "10" => [3, 0], "11" => [3, 0] }, compare_with_trace(target, "String#center", "arg1"))
    counter = stat(target, "--calls", "--engine", "hook", "--format", "json", "--by", "sql", "Store#query")
    target.run("Store.all")
    assert_equal 5, rows_of(counter.stop).find { |row| row["key"] == '"select 1"' }["calls"]
  end

  test "--by EXPR: an expression that raises, throws or takes too long is said to" do
    target = with_queries
    by = lambda do |expression, *arguments|
      counter = stat(target, "--format", "json", "--calls", "--by", expression, *arguments, "Store#query")
      target.run("store = Store.new('main'); [1, 2, nil, 'x'].each { |sql| store.query(sql) }")
      result = counter.stop
      [rows_of(result).to_h { |row| [row["key"], row["calls"]] }, result]
    end
    assert_equal({ "2" => 1, "3" => 1, "(error: NoMethodError)" => 1, "(error: TypeError)" => 1 }, by.call("sql + 1").first)
    counted, result = by.call("moon")
    assert_equal({ "(error: NameError)" => 4 }, counted)
    assert_equal 1, result.stderr.scan(/--by gave #<NameError: undefined.*>; such calls are counted under the name/).size
    assert_equal({ "(throw)" => 4 }, by.call("throw :up").first.transform_keys { |key| key[/throw/i] ? "(throw)" : key })
    counted, result = by.call("sleep 20", "--timeout", "0.3")
    assert_equal({ "(timed out)" => 1, "(switched off: it timed out)" => 3 }, counted)
    assert_match(/--by took longer than 300 ms and is switched off for a method/, result.stderr)
    assert_equal({ "4" => 4 }, by.call("caller.size > 1 ? 4 : 0").first)
  end

  test "--by EXPR: a word that means something else in parentheses; a heading; what does not compile" do
    target = with_queries
    target.run("class Store; def thread; 77; end; end")
    counter = stat(target, "--by", "(thread)", "Store#query")
    target.run("Store.new('main').query(1)")
    assert_match(/  method  \(thread\)\n.*  Store#query  77$/, counter.stop.stdout)
    assert_refused 1, /syntax error|unexpected|SyntaxError/i, "stat", "-p", target.pid.to_s, "--by", "sql +", "Store#query"
    %w[error.class result elapsed.round].each do |expression|
      assert_refused 2, /--by chooses the row when a call begins/, "stat", "-p", "1", "--by", expression, "Store#query"
    end
  end

  test "--by: a word that no expression of the tracers has for its name is refused before the process is touched" do
    names = "--by takes thread, class, caller, sql, binds or statement, not"
    { "statment" => /\Arbprobe: #{names} "statment"; did you mean statement\?\n\z/, "zork" => /\Arbprobe: #{names} "zork"\n\z/ }
      .each { |word, message| assert_refused 2, message, "stat", "-p", "4194304", "-c", "sql", "--by", word }
    ["(statment)", "statement", "self"].each do |word|
      refute_match(/--by takes/, rbprobe("stat", "-p", "4194304", "-c", "sql", "--by", word).stderr)
    end
    refute_match(/--by takes/, rbprobe("stat", "-p", "4194304", "-c", "sql", "--by", "order", "Order#save").stderr)
  end

  test "a word that is none of those that an option takes is answered with the one that was probably meant" do
    { "stat --sort metod Order#save" => "--sort takes calls, rate, .* or method, not \"metod\"; did you mean method\\?",
      "top --sort mena" => "--sort takes .*; did you mean mean\\?", "bt --format jsn" => "--format .*; did you mean json\\?",
      "trace --format jsom Order#save" => "--format takes text, json or rbtrace, not \"jsom\"; did you mean json\\?",
      "trace --engine pach Order#save" => "--engine .*; did you mean patch\\?",
      "heap dunp" => "heap has no verb \"dunp\"; did you mean dump\\?" }.each do |words, message|
      assert_refused 2, /\Arbprobe: #{message}\n\z/, *words.split, "-p", "4194304"
    end
    { "export --to colapsed file" => "collapsed", "report --sort toatl file" => "total" }.each do |words, meant|
      assert_refused 2, /did you mean #{meant}\?\n\z/, *words.split
    end
  end

  test "--by EXPR: what is beyond the limit is counted together; long values are cut" do
    target = with_queries
    counter = stat(target, "--format", "json", "--calls", "--by", "sql", "Store#query")
    target.run("store = Store.new('main'); 300.times { |i| store.query(i) }; 300.times { |i| store.query(i) }")
    counted = rows_of(counter.stop)
    assert_equal 201, counted.size
    assert_equal 200, counted.find { |row| !row.key?("key") }["calls"]
    assert_equal [2], counted.select { |row| row.key?("key") }.map { |row| row["calls"] }.uniq
    counter = stat(target, "--format", "json", "--calls", "--by", "sql", "Store#query")
    target.run("store = Store.new('main'); 3.times { |i| store.query('x' * 100_000 + i.to_s) }")
    row = rows_of(counter.stop).first
    assert_equal 3, row["calls"]
    assert_operator row["key"].size, :<, 400
    assert_match(/\A"xxx.*\.\.\./, row["key"])
  end
end
