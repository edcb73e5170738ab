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
    tracer.wait_for(/Shop#hot is not traced any more: called \d+ times a second, it took \d+ % of the process's CPU time/)
    before = tracer.stdout.scan(/Shop#rare/).size
    wait_until("the other is traced") { tracer.stdout.scan(/Shop#rare/).size > before + 5 }
    result = tracer.stop
    assert_exit 0, result
    assert_equal 1, notes(result).size
    refute_match(/another number arrived/, result.stderr)
    assert_equal "[false]", target.run("ObjectSpace.each_object(TracePoint).map(&:enabled?).uniq")
  end

  # Values that take far longer than the loop around them.
  def start_with_dear_values
    start("console").tap do |target|
      target.run(<<~RUBY)
        class Shop
          def hot(number)
            number
          end

          def dear
            2_000.times { |i| i }
          end
        end
        $made = 0
        $run = lambda do
          $thread = Thread.new { shop = Shop.new; until $stop; shop.hot($made); $made += 1; 200.times { |j| j }; end }
          nil
        end
        nil
      RUBY
    end
  end

  [["text", []], ["json", ["--format", "json"]]].each do |format, options|
    test "what its values make too dear is only counted, and each call is shown or counted, #{format}" do
      target = start_with_dear_values
      tracer = trace(target, "--max-overhead", "70", "--overflow", "block", *options, "Shop#hot(dear)")
      target.run("$run.call")
      tracer.wait_for(/Shop#hot is only counted from now on, and not shown: called \d+ times a second, it took \d+ % of the/)
      counted_from = Integer(target.run("$made"))
      wait_until("calls are counted") { Integer(target.run("$made")) > counted_from + 1_000 }
      made = Integer(target.run("$stop = true; $thread.join; $made"))
      result = tracer.stop
      calls, counted = format == "json" ? result.events("summary").last.values_at("calls", "counted") : summary_of(result)
      assert_operator counted, :>=, 1_000
      assert_equal made, calls + counted, result.stderr
      assert_empty notes(result)
      refute_match(/another number arrived/, result.stderr)
    end
  end

  def summary_of(result)
    result.stderr.match(/^rbprobe: (\d+) calls?, 0 lost, (\d+) only counted, /).captures.map { |number| Integer(number) }
  end

  test "what is let go was only counted before" do
    target = hot_target
    tracer = trace(target, "--max-overhead", "1", "--overflow", "block", "Shop#hot")
    tracer.wait_for(/Shop#hot is not traced any more: called \d+ times a second, it took \d+ % of .* time just to be counted \(/)
    result = tracer.stop
    assert_match(/Shop#hot is only counted from now on.*Shop#hot is not traced any more/m, result.stderr)
    assert_match(/1 method or line was not traced to the end, as .* --max-overhead .* neither shown nor counted$/, result.stderr)
  end

  test "a C method and a line are only counted as well" do
    target = start_with_dear_values
    path = "#{shared_directory}/line.rb"
    File.write(path, "class Shop\n  def line(number)\n    number.succ\n  end\nend\n")
    target.run("load #{path.dump}; class Integer; def dear; 2_000.times { |i| i }; end; end; nil")
    tracer = trace(target, "--max-overhead", "70", "--overflow", "block", "#{path}:3(dear)", "Integer#gcd(dear)")
    target.run("$thread = Thread.new { shop = Shop.new; until $stop; shop.line($made); 7.gcd($made += 1); " \
               "200.times { |j| j }; end }; nil")
    tracer.wait_for(/line.rb:3 is only counted from now on/)
    tracer.wait_for(/Integer#gcd is only counted from now on/)
    made = Integer(target.run("$stop = true; $thread.join; $made"))
    summary = tracer.stop.stderr.match(/^rbprobe: (\d+) calls?, (\d+) lines?, 0 lost, (\d+) only counted, /)
    assert_equal 2 * made, summary.captures.sum { |number| Integer(number) }
  end

  # Calls that do not meet it take its time as well.
  test "a condition counts for what it takes, whether a call meets it or not" do
    target = start_with_dear_values
    tracer = trace(target, "--max-overhead", "70", "--overflow", "block", "--if", "dear == 1", "Shop#hot")
    target.run("$run.call")
    tracer.wait_for(/Shop#hot is only counted from now on, and not shown: called \d+ times a second, it took \d+ % of the/)
    target.run("$stop = true; $thread.join; nil")
    assert_empty notes(tracer.stop)
  end

  # A job comes in the middle of the expression, where the VM lets no TracePoint be disabled.
  test "what --by takes counts, and a method that is let go while it runs is observed no more" do
    target = start_with_dear_values
    tracer = launch("stat", "-v", "-p", target.pid.to_s, "--max-overhead", "20", "--by", "$asked = $made; dear; nope", "Shop#hot")
    tracer.wait_until_armed
    # Where a compiler could be switched on, that is watched as well.
    target.run("def on; ObjectSpace.each_object(TracePoint).count(&:enabled?); end; $on = on; $run.call")
    tracer.wait_for(/Shop#hot is not traced any more: called \d+ times a second, it took \d+ % of the process's CPU time/)
    wait_until("it is asked no more") { Integer(target.run("$made - $asked")) > 1_000 }
    wait_until("its TracePoint is off") { target.run("on == $on - 1") == "true" }
    target.run("$stop = true; $thread.join; nil")
    assert_equal 1, notes(tracer.stop).size
  end

  test "stat says of a method that was let go that its figures are not whole" do
    target = hot_target
    tracer = launch("stat", "-p", target.pid.to_s, "--max-overhead", "5", "--format", "json", "Shop#")
    tracer.wait_for(/Shop#hot is not traced any more/)
    result = tracer.stop
    hot, rare = %w[hot rare].map { |name| result.events("method").find { |row| row["method"] == "Shop##{name}" } }
    assert_equal true, hot["let_go"]
    assert_operator hot["let_go_after_ns"], :<=, result.events("summary").first["duration_ns"]
    assert_operator hot["calls"], :>, 1
    assert_equal 1, result.events("summary").first["let_go"]
    refute_includes rare.to_h, "let_go"
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

  # How often its threads wake in a second.
  def wakes_of(pid)
    count = -> { Dir.glob("/proc/#{pid}/task/*/status").sum { |path| (File.read(path) rescue "")[/^voluntary\D*(\d+)/, 1].to_i } }
    began = now
    before = count.()
    sleep 0.2
    (count.() - before) / (now - began)
  end

  # A busy machine only makes it less.
  [["trace", 300], ["trace --slow 10", 150], ["stat", 150]].each do |command, limit|
    test "#{command} wakes a process that makes no traced call less than #{limit} times a second" do
      target = start("console")
      tracer = launch(*command.split, "-v", "--yes", "-p", target.pid.to_s, "Process.pid").wait_until_armed
      rate = nil
      wait_until(-> { "it wakes #{rate.round} times a second" }) { (rate = wakes_of(target.pid)) < limit }
      target.run("Process.pid")
      assert_exit 0, tracer.stop
    end
  end
end
