# rbprobe stat --tree: calls counted by the counted calls around them.

require_relative "helper"
require_relative "stat_rows"

class StatTreeTest < LiveTest
  include StatRows

  PROGRAM = <<~RUBY
    class Calls
      def outer
        3.times { middle }
        leaf
      end

      def middle
        leaf
        "text".center(9)
      end

      def leaf
        1
      end

      def down(levels)
        levels.zero? ? leaf : down(levels - 1)
      end

      def failing
        middle
        raise IOError
      end

      def rescues
        failing
      rescue IOError
        leaf
      end

      def passed_by
        leaf
        throw :out
      end

      def throws
        passed_by
      end

      def breaks
        yields { break }
        leaf
      end

      def yields
        leaf
        yield
      end

      def again
        @tries = (@tries || 0) + 1
        leaf
        raise ArgumentError if @tries % 3 != 0
      rescue ArgumentError
        retry
      end

      def in_fibers
        fibers = Array.new(3) { Fiber.new { outer; Fiber.yield; middle } }
        2.times { fibers.each(&:resume); leaf }
      end

      def in_threads
        Array.new(3) { Thread.new { 2.times { outer } } }.each(&:join)
      end

      def waits
        leaf
        sleep 0.05
        rests
      end

      def rests
        sleep 0.02
      end

      def self.all
        calls = new
        2.times { calls.outer }
        calls.middle
        calls.down(9)
        2.times { calls.rescues }
        3.times { catch(:out) { calls.throws } }
        calls.breaks
        calls.again
        calls.in_fibers
        calls.in_threads
        eval("class ::Calls; def leaf; 2; end; end")
        calls.outer
        calls.waits
        "done"
      end
    end
  RUBY
  SELECTORS = ["Calls#", "String#center"].freeze

  def prepared
    start("console").tap { |target| target.run("eval(#{PROGRAM.dump}, TOPLEVEL_BINDING)") }
  end

  # [calls, errors] by path, of a full trace: in each fiber a call's line comes when it has ended, so backwards the outer ones
  # come first.
  def paths_of_trace(result)
    assert_equal 0, result.events("summary").last["lost"]
    paths = Hash.new { |hash, path| hash[path] = [0, 0] }
    result.events("call").group_by { |call| call.values_at("thread", "fiber") }.each_value do |calls|
      around = []
      calls.reverse_each do |call|
        around = around.take(call["depth"]) << call["method"]
        paths[around][0] += 1
        paths[around][1] += 1 if call["ended"] == "raised"
      end
    end
    paths
  end

  def nodes(result)
    assert_exit 0, result
    refute_match(/please report/, result.stderr)
    result.events("node").reject { |node| node["interval"] }
  end

  def paths(nodes)
    nodes.to_h { |node| [node["path"], node.values_at("calls", "errors")] }
  end

  test "paths, calls and errors are those of a full trace" do
    target = prepared
    tracer = trace(target, "--format", "json", *SELECTORS)
    counter = stat(target, "--tree", "--format", "json", *SELECTORS)
    target.run("Calls.all")
    result = counter.stop
    counted = nodes(result)
    assert_equal paths_of_trace(tracer.stop), paths(counted)
    assert_equal 0, result.events("summary").last["folded"]
    assert_equal counted.sum { |node| node["calls"] }, result.events("summary").last["calls"]
  end

  test "total and self: what is inside is in the node around it" do
    target = prepared
    counter = stat(target, "--tree", "--format", "json", "Calls#waits", "Calls#rests", "Calls#leaf")
    target.run("calls = Calls.new; 2.times { calls.waits }; calls.rests")
    counted = nodes(counter.stop)
    assert_equal [%w[Calls#waits], %w[Calls#waits Calls#rests], %w[Calls#waits Calls#leaf], %w[Calls#rests]],
                 counted.map { |node| node["path"] }, "a tree by total"
    waits, rests, leaf, alone = counted
    assert_operator waits["self_ns"], :>=, 100_000_000
    assert_operator rests["total_ns"], :>=, 40_000_000
    assert_operator alone["total_ns"], :>=, 20_000_000
    assert_in_delta waits["total_ns"] - rests["total_ns"] - leaf["total_ns"], waits["self_ns"], 3
    assert_equal rests["total_ns"], rests["self_ns"]
    assert_in_delta waits["total_ns"] / 2.0, waits["mean_ns"], 1
  end

  test "what is too deep, or of too many paths, is in the call around it, and said" do
    target = prepared
    counter = stat(target, "--tree", "--format", "json", "Calls#down", "Calls#leaf")
    target.run("calls = Calls.new; 2.times { calls.down(99) }")
    result = counter.stop
    counted = nodes(result)
    assert_equal 64, counted.size
    assert_equal [2], counted.map { |node| node["calls"] }.uniq
    assert_equal 2 * 37, counted.last["folded"]
    assert_equal 202, result.events("summary").last["calls"]
    assert_equal 2 * 37, result.events("summary").last["folded"]
    assert_equal counted.last["total_ns"], counted.last["self_ns"]
    target.run("class Many; 100.times { |i| define_method(\"m\#{i}\") { |*rest| send(*rest) if rest.any? } }; end")
    counter = stat(target, "--tree", "Many#", "Calls#leaf")
    target.run("many = Many.new; 100.times { |i| 100.times { |j| many.send(\"m\#{i}\", \"m\#{j}\") } }; Calls.new.leaf")
    lines = counter.stop.stdout.lines
    assert_match(/: 20001 calls of 100 methods/, lines.first)
    # 81 methods with 100 paths below each, one with 10; the rest, and all of 18 methods, and the leaf.
    assert_match(/\A#{90 + 18 * 200 + 1} calls have no line, as 64 levels and 8192 lines are kept/, lines.last)
    assert_equal 8192 + 3, lines.size
  end

  test "drawn for people; sorted; the first few with what is around them" do
    target = prepared
    counter = stat(target, "--tree", "Calls#waits", "Calls#rests", "Calls#leaf")
    target.run("calls = Calls.new; 2.times { calls.waits }; calls.rests")
    lines = counter.stop.stdout.lines.drop(1)
    assert_match(/\A +calls +errors +total +self  method\n\z/, lines[0])
    assert_match(/\A +2 +0 +\d+ms +\d+ms  Calls#waits\n\z/, lines[1])
    assert_match(/\A +2 +0 +[\d.]+ms +[\d.]+ms     Calls#rests\n\z/, lines[2])
    assert_match(/\A +2 +0 +\S+ +\S+     Calls#leaf\n\z/, lines[3])
    assert_match(/\A +1 +0 +[\d.]+ms +[\d.]+ms  Calls#rests\n\z/, lines[4])
    counter = stat(target, "--tree", "--sort", "calls", "--top", "1", "--measure", "alloc", "Calls#waits", "Calls#leaf")
    target.run("calls = Calls.new; calls.waits; calls.leaf; 3.times { calls.waits }")
    lines = counter.stop.stdout.lines
    assert_match(/, 2 rows shown\n\z|, 1 shown\n\z/, lines[0])
    assert_match(/ allocs  method$/, lines[1])
    assert_match(/  Calls#waits\n\z/, lines[2])
  end

  test "with --interval what has come since, below calls that are still open" do
    target = prepared
    target.run("$go = Queue.new; class Calls; def stays; while $go.pop; leaf; end; end; end")
    target.run("$stays = Thread.new { Calls.new.stays }")
    counter = stat(target, "--tree", "--format", "json", "--interval", "0.2", "Calls#stays", "Calls#leaf")
    target.run("$go << true; $go << false; $stays.join; $stays = Thread.new { Calls.new.stays }; 2.times { $go << true }")
    counter.wait_for(/"interval":\d+,"method":"Calls#leaf","path":\["Calls#stays","Calls#leaf"\],"calls":/)
    target.run("$go << true")
    target.run("$go << false; $stays.join")
    result = counter.stop
    assert_equal [3, 0], paths(nodes(result))[%w[Calls#stays Calls#leaf]]
  end

  test "frames that vanish, and calls that are left out" do
    target = prepared
    target.run("class Calls; def deep; deep; end; end")
    counter = stat(target, "--tree", "--format", "json", "Calls#deep", "Calls#leaf")
    target.run("calls = Calls.new; begin; calls.deep; rescue SystemStackError; end; calls.leaf")
    counted = paths(nodes(counter.stop))
    assert_equal [1, 0], counted[%w[Calls#leaf]]
    assert_equal 64, counted.keys.map(&:size).max
    counter = stat(target, "--tree", "--format", "json", "--within", "Calls#outer", "Calls#middle", "Calls#leaf")
    target.run("calls = Calls.new; calls.outer; calls.middle")
    assert_equal({ %w[Calls#middle] => [3, 0], %w[Calls#middle Calls#leaf] => [3, 0], %w[Calls#leaf] => [1, 0] },
                 paths(nodes(counter.stop)))
  end

  test "what makes no sense is refused" do
    { "--slow=5" => /conditions that are known at their end/, "--raised" => /conditions that are known at their end/,
      "--by=class" => /give one of them/, "--calls" => /--calls does not follow calls/,
      "--histogram" => /no place for --histogram/, "--format=prometheus" => /no place for a --tree/ }.each do |option, message|
      assert_refused 2, message, "stat", "-p", "1", "--tree", option, "Calls#"
    end
  end
end
