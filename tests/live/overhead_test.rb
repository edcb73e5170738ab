# What observing takes of the process: who is told of it, and --max-overhead.

require_relative "helper"

class OverheadTest < LiveTest
  # One method that is called all the time, and one that is called now and then.
  def hot_target(pause: nil)
    start("console").tap do |target|
      target.run(<<~RUBY)
        class Shop
          def hot(number)
            number
          end

          def rare
            1_000.times { |i| hot(i) #{pause && "; #{pause}.times { |j| j }"} }
          end
        end
        $shop = Shop.new
        $thread = Thread.new { $shop.rare while true }
        nil
      RUBY
    end
  end

  def notes(result)
    result.stderr.scan(/^.*(?:is not traced any more|tracing takes).*$/)
  end

  test "the busiest method is let go, and the others are traced on" do
    target = hot_target
    tracer = trace(target, "--max-overhead", "5", "--overflow", "block", "Shop#")
    tracer.wait_for(/Shop#hot is not traced any more: called \d+ times a second, it took \d+ % of the process's CPU time \(--max/)
    before = tracer.stdout.scan(/Shop#rare/).size
    wait_until("the other is traced") { tracer.stdout.scan(/Shop#rare/).size > before + 5 }
    result = tracer.stop
    assert_exit 0, result
    assert_equal 1, notes(result).size
    refute_match(/another number arrived/, result.stderr)
    assert_equal "[false]", target.run("ObjectSpace.each_object(TracePoint).map(&:enabled?).uniq")
  end

  test "named methods are never let go unasked, and who they are is said once" do
    target = hot_target
    tracer = trace(target, "--overflow", "block", "Shop#")
    tracer.wait_for(/tracing takes \d+ % of the process's CPU time, most of it for Shop#hot \(called \d+ times a second\); --/)
    sleep 0.6
    result = tracer.stop
    assert_equal 1, notes(result).size
    assert_match(/Shop#hot/, result.stdout.lines.last(20).join)
  end

  test "what takes little is not mentioned" do
    target = hot_target(pause: 5_000)
    tracer = trace(target, "--max-overhead", "50", "Shop#rare")
    wait_until("calls come") { tracer.stdout.scan(/Shop#rare/).size > 2 }
    sleep 0.6
    assert_empty notes(tracer.stop)
  end

  test "--firehose lets go what takes too much; 0 is no limit" do
    target = hot_target
    limited = trace(target, "-f", "--no-hook", "--max-overhead", "20", "-o", File::NULL)
    limited.wait_for(/Shop#hot is not traced any more/)
    limited.stop
    unlimited = trace(target, "-f", "--no-hook", "--max-overhead", "0", "-o", File::NULL)
    unlimited.wait_for(/tracing takes/)
    refute_match(/not traced any more/, unlimited.stop.stderr)
  end

  test "a method that was let go is traced again by the next trace" do
    target = hot_target
    first = trace(target, "--max-overhead", "5", "Shop#hot")
    first.wait_for(/not traced any more/)
    first.stop
    again = rbprobe("trace", "-p", target.pid.to_s, "--count", "100", "Shop#hot")
    assert_operator again.stdout.scan(/Shop#hot/).size, :>=, 100
  end

  test "wrong usage" do
    ["-1", "101", "x", "5%"].each do |wrong|
      assert_refused 2, /--max-overhead takes a whole number from 0 to 100, not "#{wrong}"/,
                     "trace", "-p", "1", "--max-overhead", wrong, "x"
    end
  end
end
