# rbprobe stat --by: calls counted apart.

require_relative "helper"
require_relative "stat_rows"

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
    assert_equal expected, counted
    assert_equal [12, 0], counted[["Callee#called", "Calls#directly"]]
    assert_equal [2, 0], counted[["Callee#called", "(no caller)"]]
    assert_equal [150, 0], counted[["Calls#deep", "Calls#deep"]]
    %w[auto hook].each do |engine|
      counted = callers_counted(target, "--calls", "--engine", engine) { target.run("Calls.all") }
      assert_equal [12, nil], counted[["Callee#called", "Calls#directly"]], engine
      assert_equal [4, nil], counted[["String#center", "Calls#directly"]], engine
    end
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
    assert_match(/  method  caller\n.*  Callee#called  Calls#through_c$/, counter.stop.stdout)
  end
end
