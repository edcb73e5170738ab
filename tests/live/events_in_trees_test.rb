# Where exceptions are raised (--raise), in trees of calls that wait until it is known whether they are shown.

require_relative "helper"

class EventsInTreesTest < LiveTest
  TILL = <<~'RUBY'
    class Till
      def sell(n); price(n); end
      def price(n)
        raise ArgumentError, "no #{n}" if n == 3
        n * 2
      end
      def quietly(n)
        sell(n)
      rescue ArgumentError
        -1
      end
      def late; (raise IOError, "too late" rescue 0); end
      def broken; (raise KeyError, "was never asked" rescue 0); end
      def many
        20_000.times { |i| begin; raise i.to_s * 9; rescue RuntimeError; end }
        Thread.stop
      end
    end
  RUBY

  test "an exception in a tree that waits for its end has its place there, and others come at once, or without the tree" do
    target = prepared
    tracer = trace(target, "--raise", "--tree", "--if", "result == -1", "Till#quietly", "Till#sell", "Till#price", "Till#broken")
    assert_equal "[-1, 0, 0, 8]", target.run("s = Till.new; [s.quietly(3), s.broken, s.late, s.quietly(4)]")
    target.run("class Till; def quietly(n) late; [price(n)]; rescue ArgumentError; -1; end; end; nil")
    assert_equal "-1", target.run("Till.new.quietly(3)")
    result = tracer.stop
    assert_equal <<~TREE, result.tree
      Till#quietly
         Till#sell
            Till#price
               ! raised ArgumentError: no 3 at till.rb:4
            Till#price ! ArgumentError: no 3 <time>
         Till#sell ! ArgumentError: no 3 <time>
      Till#quietly <time>
      ! raised KeyError: was never asked at till.rb:13
      ! raised IOError: too late at till.rb:12
      Till#quietly
         ! raised IOError: too late at till.rb:12
         Till#price
            ! raised ArgumentError: no 3 at till.rb:4
         Till#price ! ArgumentError: no 3 <time>
      Till#quietly <time>
    TREE
    assert_match(/^rbprobe: 5 calls, 0 lost, .*5 raised, /, result.stderr)
  end

  test "exceptions wait in bounded memory for the end of a tree, and each is shown or counted, also where it never ends" do
    target = prepared
    tracer = trace(target, "--raise", "--tree", "--if", "result == 5", "--format", "json", "Till#many")
    target.run("$thread = Thread.new { Till.new.many }; sleep 0.001 until $thread.stop?; nil")
    result = tracer.stop
    summary, = result.events("summary")
    shown = result.events("raise")
    assert_equal 20_000, shown.size + summary["events_lost"].to_i, summary
    assert_operator shown.size, :>, 1000
    assert_equal shown.size, shown.map { |event| event["message"] }.uniq.size
  end

  private

  def prepared
    start("shop").tap { |target| target.run("eval(#{TILL.dump}, nil, 'till.rb', 1)") }
  end
end
