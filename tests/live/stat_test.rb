# rbprobe stat: what is counted in the process is what a full trace of the same calls shows.

require_relative "helper"
require_relative "stat_rows"
require_relative "terminal"

class StatTest < LiveTest
  include StatRows

  PROGRAM = <<~RUBY
    class Work
      def down(levels)
        levels == 0 ? 0 : down(levels - 1)
      end

      def fail_with(error)
        raise error, "no"
      end

      def passed_by
        throw :out
      end

      def left
        yield
      end

      def deep
        deep
      end

      def again(times)
        @tries = (@tries || 0) + 1
        raise ArgumentError if @tries < times
      rescue ArgumentError
        retry
      end

      def inside_fiber
        Fiber.yield
      end

      def named
        1
      end
      alias other_name named

      define_method(:made) { |number| number }

      def long
        short
        sleep 0.2
      end

      def short
        sleep 0.1
      end

      def self.all
        work = new
        work.down(20)
        3.times { work.fail_with(IOError) rescue nil }
        2.times { catch(:out) { work.passed_by } }
        [1, 2].each { work.left { break } }
        begin
          work.deep
        rescue SystemStackError
          nil
        end
        work.again(4)
        fibers = Array.new(5) { Fiber.new { work.inside_fiber } }
        fibers.each { |fiber| 2.times { fiber.resume } }
        Array.new(4) { Thread.new { 100.times { work.down(2) } } }.each(&:join)
        work.named
        work.other_name
        7.times { |i| work.made(i) }
        eval("class ::Work; def named; 2; end; end")
        4.times { work.named }
        10.times { "text".valid_encoding? }
        3.times { "text".center(-1, "") rescue nil }
        "done"
      end
    end
  RUBY
  SELECTORS = ["Work#", "String#valid_encoding?", "String#center"].freeze

  def prepared
    start("console").tap { |target| target.run("eval(#{PROGRAM.dump}, TOPLEVEL_BINDING)") }
  end

  test "calls and errors are those of a full trace that looks at the same time" do
    target = prepared
    tracer = trace(target, "--format", "json", *SELECTORS)
    counter = stat(target, "--format", "json", *SELECTORS)
    target.run("Work.all")
    assert_equal counts_of_trace(tracer.stop), counts(rows(counter.stop))
  end

  test "the last line has the time of the table, which is for how long was counted" do
    target = start("console")
    target.run("def named; end; Thread.new { loop { named; sleep 0.01 } }; nil")
    result = rbprobe("stat", "-p", target.pid.to_s, "-f", "--max-overhead", "0", "--duration", "0.5", "--top", "1", "--yes")
    assert_exit 0, result
    assert_equal result.stdout[/^process \d+, ([\d.]+) s: /, 1], result.stderr[/, 0 lost, ([\d.]+) s; ended/, 1], result.stderr
  end

  test "they are the same where nobody else looks, and with --calls the calls" do
    target = prepared
    tracer = trace(target, "--format", "json", *SELECTORS)
    target.run("Work.all")
    expected = counts_of_trace(tracer.stop)
    expected.delete("Work#deep") # as deep as the machine's stack lets it
    counter = stat(target, "--format", "json", *SELECTORS)
    target.run("Work.all")
    counted = rows(counter.stop)
    assert_equal expected, counts(counted).except("Work#deep")
    counter = stat(target, "--calls", "--format", "json", *SELECTORS)
    target.run("Work.all")
    only_calls = rows(counter.stop)
    assert_equal expected.transform_values(&:first), only_calls.transform_values { |row| row["calls"] }.except("Work#deep")
    refute only_calls.values.any? { |row| row.key?("total_ns") || row.key?("errors") }
  end

  test "C methods that have one function, and methods of both kinds by turns, are told apart" do
    target = prepared
    counter = stat(target, "--format", "json", "Array#index", "Array#find_index", "Work#made", "Work#named")
    target.run(<<~RUBY)
      work = Work.new
      400.times { |i| [i].index(i); work.made(i) if i.even? }
      300.times { |i| [i].find_index(i); work.named; work.made(i) if i % 3 == 0 }
      50.times { |i| [i].index { break } }
    RUBY
    expected = { "Array#index" => [450, 0], "Array#find_index" => [300, 0], "Work#made" => [300, 0], "Work#named" => [300, 0] }
    assert_equal expected, counts(rows(counter.stop))
  end

  test "a method that Ruby leaves out from the second call on is counted each time" do
    target = prepared
    target.run("class Work; def distance(number); number.abs; end; end")
    counter = stat(target, "--yes", "--format", "json", "Integer#abs", "Work#distance")
    target.run("work = Work.new; 40.times { |i| work.distance(-i) }")
    assert_equal({ "Integer#abs" => [40, 0], "Work#distance" => [40, 0] }, counts(rows(counter.stop)))
  end

  test "times: total, self, percentiles in their order" do
    target = prepared
    counter = stat(target, "--format", "json", "Work#long", "Work#short", "Work#named")
    target.run("work = Work.new; 3.times { work.long }; 100.times { work.named }")
    counted = rows(counter.stop)
    long, short, named = counted.values_at("Work#long", "Work#short", "Work#named")
    assert_equal ["Work#long", "Work#short", "Work#named"], counted.keys, "by total"
    assert_operator long["min_ns"], :>=, 300_000_000
    assert_operator short["min_ns"], :>=, 100_000_000
    assert_operator long["self_ns"], :>=, 600_000_000
    assert_in_delta long["total_ns"] - short["total_ns"], long["self_ns"], 2
    assert_equal named["total_ns"], named["self_ns"]
    counted.each_value do |row|
      values = row.values_at("min_ns", "p50_ns", "p90_ns", "p99_ns", "p99.9_ns", "max_ns")
      assert_equal values.sort, values
      assert_operator row["mean_ns"], :>=, row["min_ns"]
      assert_operator row["mean_ns"], :<=, row["max_ns"]
    end
  end

  test "every time is in a bucket, and buckets are narrow" do
    target = prepared
    counter = stat(target, "--format", "json", "--histogram", "Work#down")
    target.run("work = Work.new; 200.times { |i| work.down(i % 100) }")
    row = rows(counter.stop).fetch("Work#down")
    assert_equal 200.times.sum { |i| i % 100 + 1 }, row["calls"]
    assert_equal row["calls"], row["histogram"].sum { |_, _, count| count }
    # Both ends are rounded to nanoseconds.
    row["histogram"].each { |least, most, _| assert_operator most - least, :<=, least / 31.0 + 2 }
  end

  test "a table for people, sorted and cut as asked" do
    target = prepared
    counter = stat(target, "--sort", "calls", "--top", "2", "--histogram", "Work#made", "Work#down", "Work#fail_with")
    target.run("work = Work.new; work.down(9); 3.times { |i| work.made(i) }; (work.fail_with(IOError) rescue nil)")
    lines = counter.stop.stdout.lines
    assert_match(/\Aprocess #{target.pid}, \d+\.\d s: 14 calls of 3 methods, 2 shown\n\z/, lines[0])
    assert_match(/\A +calls +errors +total +self +mean +min +p50 +p90 +p99 +p99\.9 +max  method\n\z/, lines[1])
    rows = lines.grep(/  Work#/)
    assert_match(/\A +10 +0 +[\d.]+[num]?s .*  Work#down\n\z/, rows[0])
    assert_match(/\A +3 +0 .*  Work#made\n\z/, rows[1])
    assert_equal 2, rows.size
    assert_match(/\A +[\d.]+[num]?s to +[\d.]+[num]?s +\d+ #+\n\z/, lines[3])
  end

  test "on a narrow terminal the columns that are missed least are left out" do
    target = prepared
    terminal = Terminal.new(["stat", "-v", "-p", target.pid.to_s, "Work#down"], columns: 70)
    @tracers << terminal
    terminal.expect(/tracing 1 method/)
    target.run("Work.new.down(3)")
    terminal.signal(:INT)
    terminal.wait
    lines = terminal.text.lines.map(&:chomp)
    heading = lines.find { |line| line.end_with?("  method") }
    assert_equal %w[calls errors total self mean p99 max method], heading.split
    assert_operator lines.find { |line| line.end_with?("  Work#down") }.size, :<=, 70
  end

  test "for Prometheus" do
    target = prepared
    counter = stat(target, "--format", "prometheus", "Work#made", "Work#fail_with")
    target.run("work = Work.new; 5.times { |i| work.made(i) }; (work.fail_with(IOError) rescue nil)")
    text = counter.stop.stdout
    assert_match(/^# TYPE rbprobe_method_calls_total counter$/, text)
    assert_match(/^rbprobe_method_calls_total\{pid="#{target.pid}",method="Work#made"\} 5$/, text)
    assert_match(/^rbprobe_method_errors_total\{pid="#{target.pid}",method="Work#fail_with"\} 1$/, text)
    assert_match(/^rbprobe_method_duration_seconds\{pid="#{target.pid}",method="Work#made",quantile="0\.99"\} [\d.e-]+$/, text)
  end

  test "with --interval what has come since, and all of it at the end" do
    target = prepared
    counter = stat(target, "--format", "json", "--interval", "0.2", "Work#made")
    target.run("3.times { |i| Work.new.made(i) }")
    counter.wait_for(/"interval":\d+,"method":"Work#made","calls":3,"calls_per_s":\d/)
    target.run("2.times { |i| Work.new.made(i) }")
    counter.wait_for(/"interval":\d+,"method":"Work#made","calls":2,/)
    result = counter.stop
    assert_equal 5, result.events("method").last["calls"]
    assert_nil result.events("method").last["interval"]
    assert_equal "interrupted", result.events("summary").last["reason"]
  end

  test "of several processes each has the reason why it ended" do
    first, second = prepared, prepared
    counter = launch("stat", "-v", "-p", "#{first.pid},#{second.pid}", "--format", "json", "--duration", "2", "Work#made")
    wait_until("both are counted") { counter.stderr.scan("tracing 1 method").size == 2 }
    first.run("Thread.new { sleep 0.1; Thread.main.raise(SystemExit) }; nil")
    wait_until("the first has ended") { counter.stderr.include?("the process exited") && !first.alive? }
    first.finish
    @targets.delete(first)
    reasons = counter.wait.events("summary").to_h { |summary| summary.values_at("pid", "reason") }
    assert_equal({ first.pid => "the process exited", second.pid => "--duration reached" }, reasons)
  end

  test "why it ended is told whole where nobody has confirmed it" do
    target = prepared
    timeout = [Processes::PATIENCE / 2, 1].max.to_s # in which it also arms
    counter = launch("stat", "-v", "-p", target.pid.to_s, "--interval", "0.2", "--timeout", timeout, "--format", "json",
                     "Work#made")
    wait_until("it counts") { counter.stderr.include?("tracing 1 method") && !counter.stdout.empty? }
    target.halt
    result = counter.stop
    Process.kill(:CONT, -target.pid)
    assert_equal ["interrupted, unconfirmed: calls may be missing that nobody counted"],
                 result.events("summary").map { |summary| summary["reason"] }.compact.uniq
  end

  test "calls that have not ended are said to be open" do
    target = prepared
    counter = stat(target, "--format", "json", "Work#inside_fiber", "Work#made")
    target.run("$fibers = Array.new(3) { Fiber.new { Work.new.inside_fiber }.tap(&:resume) }; Work.new.made(1)")
    result = counter.stop
    assert_equal ["Work#made"], rows(result).keys
    assert_equal 3, result.events("summary").last["open"]
  end

  test "conditions decide which calls are counted" do
    target = prepared
    counter = stat(target, "--format", "json", "--within", "Work#long", "Work#short")
    target.run("work = Work.new; work.short; work.long")
    result = counter.stop
    assert_equal({ "Work#short" => [1, 0] }, counts(rows(result)))
    assert_equal 1, result.events("summary").last["left_out"]
    counter = stat(target, "--format", "json", "--raised=IOError", "Work#fail_with")
    target.run("work = Work.new; [IOError, EOFError, KeyError].each { |error| work.fail_with(error) rescue nil }")
    result = counter.stop
    assert_equal({ "Work#fail_with" => [2, 2] }, counts(rows(result)))
    counter = stat(target, "--format", "json", "--slow", "50", "Work#short", "Work#named")
    target.run("work = Work.new; work.short; work.named")
    assert_equal({ "Work#short" => [1, 0] }, counts(rows(counter.stop)))
  end

  test "a call that is decided about when the end comes is left out" do
    target = prepared
    target.run("$threads = Array.new(2) { Thread.new { work = Work.new; work.named until $over } }; nil")
    5.times do
      result = rbprobe("stat", "-p", target.pid.to_s, "--duration", "0.2", "--if", "result || true", "Work#named")
      assert_exit 0, result
      refute_match(/please report/, result.stderr)
    end
    target.run("$over = true; $threads.each(&:join); nil")
  end

  test "several processes: a table each, or one of all" do
    targets = Array.new(2) { prepared }
    pids = targets.map(&:pid).join(",")
    count = lambda do |*arguments|
      counter = launch("stat", "-v", "-p", pids, "--format", "json", *arguments, "Work#made")
      Processes.wait_until("both are armed") { counter.stderr.scan(/tracing 1 method/).size == 2 }
      targets.each_with_index { |target, i| target.run("#{i + 1}.times { |n| Work.new.made(n) }") }
      counter.stop
    end
    assert_equal targets.map(&:pid).zip([1, 2]).to_h,
                 count.call.events("method").to_h { |row| row.values_at("pid", "calls") }
    assert_equal([[nil, 3]], count.call("--sum").events("method").map { |row| row.values_at("pid", "calls") })
  end

  test "a child counts nothing, and the parent goes on" do
    target = prepared
    counter = stat(target, "--format", "json", "Work#made")
    target.run("Work.new.made(1); Process.wait(fork { 50.times { |i| Work.new.made(i) }; exit!(0) }); $?.exitstatus")
    target.run("Work.new.made(1)")
    assert_equal({ "Work#made" => [2, 0] }, counts(rows(counter.stop)))
  end

  test "a process that exits sends its figures; one that is killed sends none" do
    target = prepared
    counter = stat(target, "--format", "json", "Work#made")
    target.run_in_background("3.times { |i| Work.new.made(i) }; exit")
    result = counter.wait
    assert_equal({ "Work#made" => [3, 0] }, counts(rows(result)))
    assert_equal "the process exited", result.events("summary").last["reason"]
    target = prepared
    counter = stat(target, "--format", "json", "Work#made")
    target.run("Work.new.made(1)")
    Process.kill(:KILL, target.pid)
    result = counter.wait
    assert_exit 4, result
    assert_match(/process #{target.pid} sent nothing of what it had counted before it ended; --interval shows/, result.stderr)
    assert_match(/^rbprobe: calls not known, \d+\.\d s; ended: the process was killed$/, result.stderr)
    refute_match(/0 calls|lost/, result.stderr)
  end

  test "of a process that is killed the last figures that it told are shown, and said to be that" do
    {"text" => /^process \d+, \d+\.\d s: 2 calls of 1 method; the last known figures$/,
     "json" => /"type":"summary",.*,"calls":2,.*,"last_known":true,"reason":"the process was killed"/,
     "sum" => /^1 process, .*: 2 calls of 1 method; the last known figures of those that were killed$/}.each do |way, shown|
      target = prepared
      options = way == "sum" ? ["--sum"] : ["--format", way]
      counter = stat(target, *options, "--interval", "0.2", "Work#made")
      target.run("2.times { |i| Work.new.made(i) }")
      counter.wait_for(way == "json" ? /"interval":\d+,"method":"Work#made","calls":2/ : /last .*: 2 calls of 1 method/)
      Process.kill(:KILL, target.pid)
      result = counter.wait
      assert_exit 4, result
      assert_match(shown, result.stdout)
      assert_match(/^rbprobe: 2 calls last known, \d+\.\d s; ended: the process was killed$/, result.stderr)
    end
  end

  # A sanitizer maps terabytes.
  test "of an address space that is limited it leaves the application most" do
    only_where_loading_is_possible
    target = prepared
    target.run("GC.start; $left = 40 << 20; $mapped = Integer(File.read('/proc/self/statm').split[0]) * 4096; " \
               "Process.setrlimit(:AS, $mapped + $left); GC.disable; nil")
    tracer = stat(target, "--format", "json", "Work#named")
    target.run("10.times { Work.new.named }")
    assert_equal "nil", target.run("String.new(capacity: $left / 4); nil")
    result = tracer.stop
    assert_exit 0, result
    assert_equal 10, rows(result).fetch("Work#named")["calls"]
  end

  test "where little address space is left, counting is refused" do
    only_where_loading_is_possible
    target = prepared
    target.run("$mapped = Integer(File.read('/proc/self/statm').split[0]) * 4096; " \
               "Process.setrlimit(:AS, $mapped + (30 << 20)); nil")
    result = rbprobe("stat", "-p", target.pid.to_s, "--duration", "0.1", "--tree", "Work#named")
    assert_exit 1, result
    assert_match(/counting calls there takes too much of it/, result.stderr)
  end

  test "what makes no sense is refused" do
    target = prepared
    pid = target.pid.to_s
    assert_refused 2, /stat shows no values: leave out the parentheses of Work#made\(number\)/,
                   "stat", "-p", pid, "Work#made(number)"
    assert_refused 2, /stat counts calls of methods, not lines such as order\.rb:4/, "stat", "-p", pid, "order.rb:4"
    assert_refused 2, /--sort takes calls, rate, errors, .* not "size"/, "stat", "-p", pid, "--sort", "size", "Work#"
    assert_refused 2, /--format takes text, json or prometheus/, "stat", "-p", pid, "--format", "xml", "Work#"
    assert_refused 2, /--by takes thread, class, caller, or a Ruby expression/, "stat", "-p", pid, "--by", " ", "Work#"
    assert_refused 2, /--calls counts no times/, "stat", "-p", pid, "--calls", "--histogram", "Work#"
    assert_refused 2, /there are --sort calls, rate and method/, "stat", "-p", pid, "--calls", "--sort", "p99", "Work#"
    assert_refused 2, /--sort rate needs --interval/, "stat", "-p", pid, "--sort", "rate", "Work#"
    assert_refused 2, /has no place for --histogram/, "stat", "-p", pid, "--histogram", "--format", "prometheus", "Work#"
    assert_refused 2, /which methods\?/, "stat", "-p", pid
  end
end
