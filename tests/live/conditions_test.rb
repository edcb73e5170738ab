# Conditions of a trace: which calls are shown, decided in the process. Every call is shown, lost or left out.

require_relative "helper"

class ConditionsTest < LiveTest
  # Times are far apart, so that a loaded machine does not matter: what is slow takes SLOW seconds, the rest nearly nothing.
  SLOW = 0.6
  LIMIT = ["--slow", "500"].freeze

  PROGRAM = <<~RUBY
    class Work
      class Failed < StandardError; end
      class FailedBadly < Failed; end

      def nap(slow, note = nil)
        note << "changed" if note
        sleep #{SLOW} if slow
        slow
      end

      def compute(seconds)
        from = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
        nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < from + seconds
      end

      def fail_with(error)
        raise error, "no" if error
      end

      def around
        yield
      end

      def outer(times)
        times.times { |i| inner(i) }
      end

      def inner(number)
        number
      end

      def down(levels)
        down(levels - 1) if levels > 1
      end

      def again(times)
        @tries = (@tries || 0) + 1
        raise Failed if @tries < times
      rescue Failed
        retry
      end
    end
    $work = Work.new
    # A method written in C on every Ruby.
    $codes = [1, 2, 3, 4, 22, 333].to_h { |number| [number.to_s, number] }
  RUBY

  def prepared
    start("console").tap { |target| target.run("eval(#{PROGRAM.dump}, TOPLEVEL_BINDING)") }
  end

  # What a trace with these arguments shows of the code, in JSON. Checks that every call is accounted for: `calls` in all.
  def traced(code, calls, *arguments, target: prepared)
    tracer = trace(target, "--format", "json", *arguments)
    target.run(code)
    tracer.stop.tap { |result| assert_accounted(calls, result) }
  end

  def assert_accounted(calls, result)
    assert_exit 0, result
    summary = result.events("summary").last
    assert_equal calls, summary["calls"] + summary["lost"] + summary.fetch("left_out", 0), result.stderr
    assert_equal result.events("call").size, summary["calls"]
    refute_match(/please report/, result.stderr)
  end

  def methods_of(result)
    result.events("call").map { |call| call["name"] }
  end

  def values_of(result, name)
    result.events("call").map { |call| call["values"][name] }
  end

  # A call whose beginning has a line of its own, as when it was told to be running: one line.
  def whole(tree)
    tree.gsub(/^(Work#\w+)(.*)\n\1 <time>$/, '\1\2 <time>')
  end

  test "--always shows each call of a method, and of the others those that are slow" do
    target = prepared
    [[*LIMIT, "Work#nap(slow)", "--always", "Work#inner(number)"],
     [*LIMIT, "Work#inner(number)", "--slow-methods", "Work#nap(slow)"]].each do |arguments|
      tracer = trace(target, *arguments)
      target.run("$work.nap(false); $work.outer(2); $work.nap(true); $work.outer(1)")
      result = tracer.stop
      assert_equal <<~TREE, whole(result.tree)
        Work#inner(number=0) <time>
        Work#inner(number=1) <time>
        Work#nap(slow=true) <time>
        Work#inner(number=0) <time>
      TREE
      assert_match(/4 calls, 0 lost, 1 other does not meet the conditions/, result.stderr)
    end
  end

  test "--always is recorded as it is traced" do
    target = prepared
    file = "#{directory}/always.rec"
    client = launch("record", "-v", "-p", target.pid.to_s, "-o", file, *LIMIT, "Work#nap(slow)", "--always", "Work#inner(number)")
    client.wait_until_armed
    target.run("$work.nap(false); $work.outer(1); $work.nap(true)")
    assert_exit 0, client.stop
    assert_equal "Work#inner(number=0) <time>\nWork#nap(slow=true) <time>\n", whole(rbprobe("replay", file).tree)
  end

  test "--always: a call that is shown inside of one that runs for long, and is told when that has ended" do
    target = prepared
    target.run("class Work; def wait(seconds) sleep(seconds); end; end")
    tracer = trace(target, "--slow", "100", "Work#around", "--always", "Work#wait(seconds)", "--always", "Work#inner")
    target.run("$work.around { $work.inner(1); $work.wait(#{SLOW}); $work.inner(2); sleep #{SLOW} }")
    assert_equal <<~TREE, whole(tracer.stop.tree)
      Work#inner <time>
      Work#wait(seconds=#{SLOW}) <time>
      Work#inner <time>
      Work#around <time>
    TREE
  end

  test "the compiler warns of nothing on the application's standard error" do
    target = start("shop")
    tracer = trace(target, "--if", "return true", "Shop#price")
    target.run("$shop.price(:apple)")
    assert_match(/Shop#price/, tracer.stop.stdout)
    assert_equal "", target.stderr
  end

  test "one call that does not meet the conditions is one other" do
    result = traced("2.times { $work.inner(1) }", 2, "--every", "2", "Work#inner")
    assert_match(/1 call, 0 lost, 1 other does not meet the conditions,/, result.stderr)
  end

  # --- Decided at the end

  test "--slow shows the slow calls with what their arguments were when they began" do
    result = traced("9.times { $work.nap(false) }; $work.nap(true, +'before'); $work.nap(false)", 11,
                    *LIMIT, "--return", "Work#nap(note.size, note)")
    assert_equal [{ "note.size" => "6", "note" => '"before"' }], result.events("call").map { |call| call["values"] }
    assert_equal ["true"], result.events("call").map { |call| call["result"] }
    assert_operator result.events("call").first["duration_ns"], :>=, 500_000_000
    assert_match(/1 call, 0 lost, 10 others do not meet the conditions/, result.stderr)
  end

  test "--slow of a method written in C" do
    result = traced("9.times { sleep 0 }; sleep #{SLOW}", 10, *LIMIT, "--args", "--return", "Kernel#sleep")
    assert_equal [SLOW.to_s], values_of(result, "arg1")
    assert_equal ["returned"], result.events("call").map { |call| call["ended"] }
  end

  test "--slow by engine hook" do
    result = traced("9.times { $work.nap(false) }; $work.nap(true)", 10, *LIMIT, "--args", "--engine", "hook", "Work#nap")
    assert_equal ["true"], values_of(result, "slow")
  end

  test "--slow without values" do
    result = traced("99.times { $work.nap(false) }; $work.around { $work.nap(true) }", 101, *LIMIT, "Work#")
    assert_equal %w[nap around], methods_of(result)
  end

  test "--slow-cpu is about the CPU time of the thread" do
    result = traced("$work.nap(true); $work.compute(0); $work.compute(0.3)", 3, "--slow-cpu", "200", "--args", "Work#nap",
                    "Work#compute")
    assert_equal ["0.3"], values_of(result, "seconds")
  end

  test "--raised shows calls that an exception leaves" do
    code = "[nil, Work::Failed, nil, ArgumentError].each { |error| $work.fail_with(error) rescue nil }"
    result = traced(code, 4, "--raised", "--args", "Work#fail_with")
    assert_equal %w[Work::Failed ArgumentError], values_of(result, "error")
    assert_equal %w[Work::Failed ArgumentError], result.events("call").map { |call| call["exception"]["class"] }
  end

  test "--raised=CLASS means the class, those below it, and patterns" do
    code = "[Work::Failed, Work::FailedBadly, ArgumentError, Errno::ENOENT, nil].each " \
           "{ |error| $work.fail_with(error) rescue nil }"
    { "Work::Failed" => %w[Work::Failed Work::FailedBadly], "Work::FailedB*" => %w[Work::FailedBadly],
      "Errno::*" => %w[Errno::ENOENT], "SystemCallError" => %w[Errno::ENOENT], "Nope" => [],
      "Kernel" => %w[Work::Failed Work::FailedBadly ArgumentError Errno::ENOENT] }.each do |pattern, shown|
      result = traced(code, 5, "--raised=#{pattern}", "--args", "Work#fail_with")
      assert_equal shown, values_of(result, "error"), pattern
    end
  end

  test "--raised of a method written in C" do
    result = traced("%w[1 x 2 y].each { |text| $codes.fetch(text) rescue nil }", 4, "--raised", "--args", "Hash#fetch")
    assert_equal ['"x"', '"y"'], values_of(result, "arg1")
  end

  test "throw, break and a killed thread are no exceptions" do
    result = traced(<<~RUBY, 4, "--raised", "Work#around", "Work#nap")
      catch(:out) { $work.around { throw :out } }
      $work.around { break }
      thread = Thread.new { $work.around { Thread.pass; sleep } }
      Thread.pass until thread.stop?
      thread.kill.join
      $work.nap(false)
    RUBY
    assert_empty result.events("call")
  end

  test "calls that throw, break or a kill ends are shown if they were slow" do
    result = traced(<<~RUBY, 4, *LIMIT, "Work#around", "Work#nap")
      catch(:out) { $work.around { sleep #{SLOW}; throw :out } }
      $work.around { sleep #{SLOW}; break }
      thread = Thread.new { $work.around { sleep } }
      Thread.pass until thread.stop?
      sleep #{SLOW}
      thread.kill.join
      $work.nap(false)
    RUBY
    assert_equal %w[thrown returned killed], result.events("call").map { |call| call["ended"] }
  end

  test "fibers that never end, and the end of the process" do
    target = prepared
    tracer = trace(target, "--format", "json", "--raised", "Work#")
    target.run("$fibers = Array.new(5) { Fiber.new { $work.around { Fiber.yield } }.tap(&:resume) }; nil")
    target.run("Array.new(20) { Fiber.new { $work.around { Fiber.yield } }.resume; nil }; GC.start; nil")
    target.run_in_background("$work.around { exit }")
    result = tracer.wait
    # The last one ends by SystemExit.
    assert_accounted 26, result
    assert_equal ["SystemExit"], result.events("call").map { |call| call["exception"]["class"] }
  end

  test "a client that is killed while calls are open" do
    target = prepared
    tracer = trace(target, "--raised", "--args", "Work#")
    target.run("$thread = Thread.new { $work.around { sleep } }; Thread.pass until $thread.stop?")
    tracer.kill
    wait_until("the process has noticed") { Leftovers.of(targets: [target], tracers: []).empty? }
    target.run("$thread.kill.join; $work.nap(false)")
    assert_attachable target
  end

  test "calls that are open when the trace ends are left out" do
    target = prepared
    result = traced("$thread = Thread.new { $work.around { sleep } }; Thread.pass until $thread.stop?", 1, "--raised", "Work#",
                    target: target)
    assert_equal 1, result.events("summary").last["left_out"]
    target.run("$thread.kill.join")
  end

  test "a retry is no call" do
    %w[--depth=1 --every=2 --raised --every=1].each do |option|
      result = traced("$work.again(4)", 1, option, "Work#again")
      assert_equal(option == "--raised" ? [] : [3], result.events("call").map { |call| call["retries"] })
    end
  end

  # --- Decided when a call begins

  test "--every shows the first call of each method, and then every Nth" do
    result = traced("10.times { |i| $work.inner(i) }; 3.times { $work.nap(false) }", 13, "--every", "4", "--args", "Work#inner",
                    "Work#nap")
    assert_equal %w[0 4 8], result.events("call").filter_map { |call| call.dig("values", "number") }
    assert_equal({ "inner" => 3, "nap" => 1 }, methods_of(result).tally)
  end

  test "--every counts calls that meet the other conditions" do
    result = traced("6.times { |i| $work.nap(false); $work.fail_with(i.even? ? Work::Failed : nil) rescue nil }", 12,
                    "--every", "2", "--raised", "Work#")
    assert_equal %w[fail_with fail_with], methods_of(result)
  end

  test "--rate shows at most so many in a second" do
    result = traced("5000.times { |i| $work.inner(i) }", 5000, "--rate", "3", "Work#inner")
    shown = result.events("call").size
    assert_operator shown, :>=, 3
    assert_operator shown, :<, 1000
    assert_equal 0, result.events("summary").last["lost"]
  end

  test "--within shows only what is inside a call" do
    code = "$work.inner(7); $work.outer(3); $work.inner(8)"
    result = traced(code, 5, "--within", "Work#outer", "--args", "Work#inner")
    assert_equal %w[0 1 2], values_of(result, "number")
    assert_equal [0], result.events("call").map { |call| call["depth"] }.uniq
    result = traced(code, 6, "--within", "Work#outer", "--args", "Work#inner", "Work#outer")
    assert_equal %w[inner inner inner], methods_of(result)
  end

  test "--within by another engine, and a method written in C" do
    result = traced("$codes.fetch('1'); [2, 3].each { |i| $codes.fetch(i.to_s) }; $codes.fetch('4')", 4,
                    "--within", "Array#each", "--args",
                    "Hash#fetch")
    assert_equal ['"2"', '"3"'], values_of(result, "arg1")
    result = traced("$codes.fetch('1'); $work.around { $codes.fetch('2') }", 2, "--engine", "hook", "--within", "Work#around",
                    "Hash#fetch")
    assert_equal 1, result.events("call").size
  end

  test "--outside shows only what is not inside a call" do
    code = "$work.inner(7); $work.outer(3); $work.inner(8)"
    result = traced(code, 5, "--outside", "Work#outer", "--args", "Work#inner")
    assert_equal %w[7 8], values_of(result, "number")
    result = traced(code, 6, "--outside", "Work#outer", "--args", "Work#inner", "Work#outer")
    assert_equal %w[inner inner], methods_of(result)
  end

  test "a selector for --within does not take the expressions of one that is shown" do
    # Work#around itself is only looked at, and so no call of the trace.
    result = traced("$work.around { $work.inner(2) }", 1, "--within", "Work#", "Work#inner(number + 1)")
    assert_equal %w[3], values_of(result, "number + 1")
  end

  test "--depth shows the outer levels" do
    result = traced("$work.down(5)", 5, "--depth", "2", "--args", "Work#down")
    assert_equal %w[4 5], values_of(result, "levels")
  end

  test "--thread by name, by pattern and by native id" do
    target = prepared
    code = "%w[red green].each { |name| Thread.new { Thread.current.name = name; $work.nap(false) }.join }; $work.inner(1)"
    { "red" => %w[nap], "*e*" => %w[nap nap], "blue" => [], target.pid.to_s => %w[inner],
      "main" => %w[inner] }.each do |wanted, shown|
      result = traced(code, 3, "--thread", wanted, "Work#", target: target)
      assert_equal shown, methods_of(result), wanted
    end
  end

  test "--thread main is the main thread, whatever its name, and any that is named so" do
    target = prepared
    target.run("Thread.current.name = 'boss'; nil")
    code = "%w[main red].each { |name| Thread.new { Thread.current.name = name; $work.nap(false) }.join }; $work.inner(1)"
    assert_equal %w[nap inner], methods_of(traced(code, 3, "--thread", "main", "Work#", target: target))
    assert_equal %w[inner], methods_of(traced(code, 3, "--thread", "boss", "Work#", target: target))
    nobody = traced(code, 3, "--thread", "nobody", "Work#", target: target)
    assert_match(/: no call met the conditions; `rbprobe bt -p #{target.pid}` shows the threads that/, nobody.stderr)
  end

  # --- Still running

  test "a call that is still running past --slow is shown before it ends" do
    target = prepared
    tracer = trace(target, "--slow", "200", "--return", "Work#around", "Work#nap(note)")
    target.run("$go = Queue.new; $thread = Thread.new { $work.around { $work.nap(false); $go.pop } }; nil")
    tracer.wait_for(/^Work#around$/)
    target.run("$go << 7; $thread.join; $work.around { 8 }; nil")
    result = tracer.stop
    assert_equal "Work#around => 7 <time>\n", result.tree.lines.last
    assert_equal 2, result.tree.scan("Work#around").size
    assert_match(/ 1 call, 0 lost, 2 others do not meet/, result.stderr)
  end

  test "calls that are still running come with the outermost first, and with the values of their beginning" do
    target = prepared
    tracer = trace(target, "--slow", "200", "Work#around(@note)", "Work#inner(number)")
    target.run(<<~RUBY)
      $go = Queue.new
      $note = ->(value) { $work.instance_variable_set(:@note, value) }
      $thread = Thread.new do
        $note.(1)
        $work.around { $work.inner(3); $note.(2); $work.around { $note.(3); $go.pop } }
      end
      nil
    RUBY
    tracer.wait_for(/^Work#around\(@note=1\)\n   Work#around\(@note=2\)$/)
    target.run("$go << 7; $thread.join; nil")
    result = tracer.stop
    assert_equal <<~TREE, result.tree
      Work#around(@note=1)
         Work#around(@note=2)
         Work#around <time>
      Work#around <time>
    TREE
    assert_match(/ 2 calls, 0 lost, 1 other/, result.stderr)
  end

  test "nothing comes between the start and the end of a call whose exception takes long to show" do
    target = prepared
    target.run("class Work::Failed; def message; sleep 0.5; 'no'; end; end; nil")
    tracer = trace(target, "--inspect", "--slow", "20", "Work#around", "Work#fail_slowly")
    target.run(<<~RUBY)
      class Work; def fail_slowly; sleep 0.05; raise Failed; end; end
      3.times { $work.around { $work.fail_slowly rescue nil } }
    RUBY
    result = tracer.stop
    assert_exit 0, result
    assert_match(/ 6 calls, 0 lost/, result.stderr)
    assert_equal 3, result.stdout.scan("Work#fail_slowly ! Work::Failed: no").size
  end

  test "fibers that are dropped in calls while the trace ends" do
    target = prepared
    target.run(<<~RUBY)
      $threads = Array.new(3) { Thread.new { Fiber.new { $work.around { Fiber.yield } }.resume || $work.inner(1) until $over } }
      nil
    RUBY
    6.times do
      result = rbprobe("trace", "-p", target.pid.to_s, "--duration", "0.2", "--if", "result || true", "Work#")
      assert_exit 0, result
      refute_match(/please report/, result.stderr)
    end
    target.run("$over = true; $threads.each(&:join); nil")
  end

  # Disarming so many methods takes several jobs: between two of them fibers die with calls that are open.
  test "fibers that are dropped while a --tree is disarmed" do
    target = start("console")
    target.run(<<~'RUBY')
      class Dropped
        def inward(depth); depth > 0 ? inward(depth - 1) : Fiber.yield; end
        4_000.times { |i| class_eval("def other#{i}; end") }
      end
      $round = -> { 20.times { Fiber.new { Dropped.new.inward(20) }.resume } }
      Thread.new { loop { GC.start; sleep 0.002 } }
      Thread.new { loop { $round.call; sleep 0.0005 } }
      nil
    RUBY
    10.times do
      # With YJIT so many methods take longer than a trace may by itself.
      result = rbprobe("trace", "-p", target.pid.to_s, "--duration", "0.2", "--tree", "--slow", "1000", "--timeout", "60",
                       "Dropped#*")
      assert_exit 0, result
      refute_match(/please report/, result.stderr)
    end
  end

  test "in JSON it has a line of its own" do
    target = prepared
    tracer = trace(target, "--format", "json", "--slow", "200", "--args", "Work#around", "Work#fail_with")
    target.run("$go = Queue.new; $thread = Thread.new { $work.around { $go.pop } }; nil")
    tracer.wait_for(/"running"/)
    target.run("$go << 7; $thread.join; nil")
    result = tracer.stop
    assert_equal %w[running call summary], result.objects.map { |object| object["type"] }
    running, call = result.objects
    %w[pid thread fiber method class name depth start_ns values file line].each do |key|
      assert_equal [call[key]], [running[key]], key
    end
    refute running.key?("ended")
  end

  test "the main thread sleeps in a slow call, and the trace ends before that" do
    target = prepared
    tracer = trace(target, "--format", "json", "--slow", "200", "--args", "Work#nap", "Kernel#sleep")
    target.run_in_background("$work.nap(true)")
    tracer.wait_for(/"running".*\n.*"running"/)
    target.answer
    target.run_in_background("$work.nap(true)")
    tracer.wait_for(/("running"(.|\n)*){4}/)
    result = tracer.stop
    assert_accounted 4, result
    target.answer
  end

  test "--tree shows that its outermost call is still running" do
    target = prepared
    tracer = trace(target, "--slow", "200", "--tree", "--args", "Work#around", "Work#inner")
    target.run("$go = Queue.new; $thread = " \
               "Thread.new { $work.around { $work.inner(1); $work.around { $go.pop }; $work.inner(2) } }")
    tracer.wait_for(/^Work#around/)
    target.run("$go << 7; $thread.join; $work.inner(3)")
    result = tracer.stop
    assert_equal <<~TREE, result.tree.gsub("(&block=#<Proc>)", "")
      Work#around
         Work#inner(number=1) <time>
         Work#around <time>
         Work#inner(number=2) <time>
      Work#around <time>
    TREE
    assert_match(/ 4 calls, 0 lost, 1 other/, result.stderr)
  end

  test "with other conditions of the end it is not known yet, and with --every and --rate they count" do
    target = prepared
    target.run("$go = Queue.new")
    { "--raised" => 0, "--if=result" => 0, "--every=2" => 2, "--rate=2" => 2 }.each do |option, shown|
      tracer = trace(target, "--format", "json", "--slow", "200", option, "Work#around")
      target.run("$threads = Array.new(4) { Thread.new { $work.around { $go.pop } } }; nil")
      shown.zero? ? sleep(0.4) : tracer.wait_for(/("running"(.|\n)*){#{shown}}/)
      target.run("4.times { $go << nil }; $threads.each(&:join); nil")
      result = tracer.stop
      assert_accounted 4, result
      assert_equal shown, result.events("running").size, option
    end
  end

  # --- --if

  test "--if sees arguments, instance variables and self when a call begins" do
    code = "$work.instance_variable_set(:@limit, 2); 5.times { |i| $work.inner(i) }; $work.nap(false)"
    result = traced(code, 5, "--if", "number > @limit && is_a?(Work)", "--args", "Work#inner")
    assert_equal %w[3 4], values_of(result, "number")
  end

  test "--if with result, error or elapsed is decided at the end" do
    code = "3.times { |i| $work.inner(i) }; [nil, Work::Failed].each { |e| $work.fail_with(e) rescue nil }; $work.nap(true)"
    { "result == 1" => %w[inner], "error" => %w[fail_with], "error.is_a?(Work::FailedBadly)" => [],
      "elapsed > 0.5" => %w[nap], "result.nil? && !error" => %w[fail_with], "elapsed.class == Float && result" =>
      %w[inner inner inner nap], "number >= 1 && result" => %w[inner inner] }.each do |expression, shown|
      result = traced(code, 6, "--if", expression, "--args", "--return", "Work#inner", "Work#fail_with", "Work#nap")
      assert_equal shown, methods_of(result), expression
    end
  end

  test "--if shows the values as they were when the call began" do
    result = traced("$work.nap(false, +'a'); $work.nap(1, +'b')", 2, "--if", "result && note == 'bchanged'", "Work#nap(note)")
    assert_equal ['"b"'], values_of(result, "note")
  end

  test "--if in methods written in C" do
    result = traced("%w[1 22 333].each { |text| $codes.fetch(text) }", 3, "--if", "arg1.size == 2", "--args", "Hash#fetch")
    assert_equal ['"22"'], values_of(result, "arg1")
    result = traced("%w[1 x 333].each { |text| $codes.fetch(text) rescue nil }", 3,
                    "--if", "result == 333 || error && arg1 == 'x'",
                    "--args", "Hash#fetch")
    assert_equal ['"x"', '"333"'], values_of(result, "arg1")
  end

  test "--if by engine hook" do
    result = traced("3.times { |i| $work.inner(i) }", 3, "--engine", "hook", "--if", "number == 1 && result == 1", "Work#inner")
    assert_equal 1, result.events("call").size
  end

  test "where --if raises the calls are left out, and it is said once" do
    %w[nope number.nope result.nope].each do |expression|
      result = traced("4.times { |i| $work.inner(i) }", 4, "--if", expression, "Work#inner")
      assert_empty result.events("call")
      assert_equal 1, result.stderr.scan(/--if gave #<\w+: undefined/).size, result.stderr
      assert_match(/--if could not be decided for 4 calls, which count as left out/, result.stderr)
    end
  end

  test "--if that takes too long is switched off for the method" do
    result = traced("3.times { |i| $work.inner(i) }", 3, "--timeout", "1", "--if", "sleep", "Work#inner")
    assert_empty result.events("call")
    assert_match(/--if gave #<timed out after 1000 ms>/, result.stderr)
    assert_match(/could not be decided for 3 calls/, result.stderr)
  end

  test "an exception, throw or kill goes on while --if decides, and $! stays" do
    target = prepared
    tracer = trace(target, "--format", "json", "--if", "(raise 'ours' rescue true) && elapsed", "Work#", "Hash#fetch")
    assert_equal '["Work::Failed", nil, 1]', target.run(<<~RUBY)
      seen = []
      begin; $work.fail_with(Work::Failed); rescue => e; seen << e.class.name; end
      $work.around { nil }
      seen << $!
      catch(:out) { $work.around { throw :out } }
      thread = Thread.new { $work.around { sleep } }
      Thread.pass until thread.stop?
      thread.kill.join
      seen << (begin; raise "outer"; rescue; $codes.fetch("1"); end)
    RUBY
    result = tracer.stop
    assert_accounted 5, result
    assert_equal %w[raised returned returned], result.events("call").map { |call| call["ended"] }
  end

  test "--if that leaves its fiber for good" do
    target = prepared
    tracer = trace(target, "--format", "json", "--if", "(Fiber.yield if number == 1) || result", "Work#inner")
    target.run("2.times { Fiber.new { $work.inner(1) }.resume }; $work.inner(2); nil")
    target.run("8.times { GC.start; Array.new(1000) { Object.new } }; nil")
    result = tracer.stop
    assert_accounted 3, result
    assert_equal 1, result.events("call").size
  end

  test "--if that does not compile is refused in a line" do
    target = prepared
    result = rbprobe("trace", "-p", target.pid.to_s, "--if", "1 +", "Work#inner")
    assert_exit 1, result
    assert_match(/^rbprobe: .*an expression does not compile, "1 \+"/, result.stderr)
    assert_attachable target
  end

  # --- --tree

  # The text output of a trace, as a tree.
  def tree_of(code, *arguments)
    target = prepared
    tracer = trace(target, *arguments)
    target.run(code)
    tracer.stop.tap { |result| assert_exit 0, result }.tree
  end

  test "--tree shows the traced calls inside calls that meet the condition" do
    assert_equal <<~TREE, tree_of("$work.outer(1); $work.around { $work.outer(2); $work.nap(true) }; $work.inner(3)",
      Work#around
         Work#outer(times=2)
            Work#inner(number=0) => 0 <time>
            Work#inner(number=1) => 1 <time>
         Work#outer => 2 <time>
         Work#nap(slow=true, note=nil) => true <time>
      Work#around => true <time>
    TREE
                                  *LIMIT, "--tree", "--args", "--return", "Work#")
  end

  test "--tree of what is inside a call that does not meet the condition" do
    code = "$work.around { $work.inner(1); $work.around { $work.inner(2); raise Work::Failed } rescue nil; $work.inner(3) }"
    assert_equal <<~TREE, tree_of(code, "--raised", "--tree", "--args", "Work#")
      Work#around
         Work#inner(number=2) <time>
      Work#around ! Work::Failed: Work::Failed <time>
    TREE
    result = traced(code, 5, "--raised", "--tree", "--args", "Work#")
    assert_equal %w[inner around], methods_of(result)
  end

  test "--tree with --count: the last tree is shown whole, and no other begins" do
    target = prepared
    tracer = trace(target, "--raised", "--tree", "--count", "1", "--args", "Work#")
    target.run("2.times { $work.around { $work.inner(2); $work.inner(3); raise Work::Failed } rescue nil }")
    result = tracer.wait
    assert_exit 0, result
    assert_equal <<~TREE, result.tree
      Work#around
         Work#inner(number=2) <time>
         Work#inner(number=3) <time>
      Work#around ! Work::Failed: Work::Failed <time>
    TREE
  end

  test "--tree with --depth, and with conditions of the beginning" do
    result = traced("$work.around { $work.outer(2); raise Work::Failed } rescue nil", 4, "--raised", "--tree", "--depth", "2",
                    "Work#")
    assert_equal %w[outer around], methods_of(result)
    result = traced("$work.around { $work.outer(3); raise Work::Failed } rescue nil", 5, "--raised", "--tree", "--outside",
                    "Work#outer", "Work#")
    assert_equal %w[around], methods_of(result)
  end

  test "trees of threads do not interleave" do
    target = prepared
    tracer = trace(target, "--raised", "--tree", "--args", "Work#")
    target.run(<<~RUBY)
      Array.new(4) do |n|
        Thread.new do
          5.times { $work.around { 3.times { |i| $work.inner(n); Thread.pass; sleep 0.001 }; raise Work::Failed } rescue nil }
        end
      end.each(&:join)
    RUBY
    result = tracer.stop
    assert_equal 80, result.summary("calls")
    trees = result.tree.gsub(/^\[.*\n/, "").scan(/^Work#around\n(?:   Work#inner\(number=(\d)\) <time>\n){3}Work#around ! /)
    assert_equal 20, trees.size, result.tree
    assert_equal 20, result.tree.scan(/^Work#around\n(   Work#inner\(number=\d\) <time>\n)\1\1/).size
  end

  test "--tree gives up what does not fit, and says so" do
    calls = 60_000
    # None is shown; the outermost does not raise.
    result = traced("$work.outer(#{calls})", calls + 1, "--raised", "--tree", "Work#")
    assert_empty result.events("call")
    assert_equal 0, result.events("summary").last["lost"]
    # The outermost does: what was given up is lost.
    result = traced("$work.around { $work.outer(#{calls}); raise Work::Failed } rescue nil", calls + 2, "--raised", "--tree",
                    "Work#")
    assert_operator result.events("summary").last["lost"], :>, 0
    assert_equal({ "around" => 1 }, methods_of(result).tally.except("inner", "outer"))
    # What meets the condition is shown though it has to make room.
    result = traced("$work.around { 3.times { $work.outer(#{calls}); $work.fail_with(Work::Failed) rescue nil } }",
                    3 * (calls + 2) + 1, "--raised", "--tree", "Work#")
    assert_equal %w[fail_with] * 3, methods_of(result)
  end

  test "--tree with deep recursion, throw, fibers and the end of the trace" do
    target = prepared
    tracer = trace(target, "--format", "json", "--raised", "--tree", "--return", "Work#")
    target.run("$work.down(3000); catch(:out) { $work.around { $work.inner(1); throw :out } }")
    target.run("$fibers = Array.new(5) { Fiber.new { $work.around { $work.inner(2); Fiber.yield } }.tap(&:resume) }; nil")
    target.run("20.times { Fiber.new { $work.around { $work.fail_with(Work::Failed) rescue Fiber.yield } }.resume }; GC.start")
    target.run("$thread = Thread.new { $work.around { $work.fail_with(Work::FailedBadly) rescue sleep } }; " \
               "Thread.pass until $thread.stop?")
    result = tracer.stop
    assert_accounted 3000 + 2 + 10 + 40 + 2, result
    assert_equal({ "fail_with" => 21 }, methods_of(result).tally)
    target.run("$thread.kill.join")
  end

  test "--tree with methods written in C" do
    tree = tree_of("%w[1 x].each { |text| [text].map { |t| $codes.fetch(t) } rescue nil }",
                    "--raised", "--tree", "Array#map(self)",
                   "Hash#fetch(arg1)")
    assert_equal <<~TREE, tree
      Array#map(self=["x"])
         Hash#fetch(arg1="x") ! KeyError: key not found: "x" <time>
      Array#map ! KeyError: key not found: "x" <time>
    TREE
  end

  test "--tree and --if that leaves its fiber for good" do
    target = prepared
    tracer = trace(target, "--format", "json", "--tree", "--if", "(Fiber.yield if number == 1) || result", "Work#inner",
                   "Work#nap(slow)")
    target.run("3.times { Fiber.new { $work.inner(1) }.resume }; $work.inner(2); nil")
    target.run("8.times { GC.start; Array.new(1000) { Object.new } }; nil")
    result = tracer.stop
    assert_accounted 4, result
    assert_equal 1, result.events("call").size
  end

  # --- Together

  test "all conditions must be met" do
    code = <<~RUBY
      $work.outer(2)
      Thread.new { Thread.current.name = "w1"; $work.outer(3); $work.around { $work.fail_with(Work::Failed) rescue nil } }.join
    RUBY
    result = traced(code, 9, "--thread", "w*", "--within", "Work#outer", "--every", "2", "--args", "Work#")
    assert_equal %w[0 2], values_of(result, "number")
    result = traced(code, 9, "--thread", "w*", "--within", "Work#around", "--raised", "Work#")
    assert_equal %w[fail_with], methods_of(result)
    result = traced(code, 9, *LIMIT, "--raised", "Work#")
    assert_empty result.events("call")
  end

  test "with --firehose" do
    target = prepared
    tracer = trace(target, "--format", "json", "--firehose", "--no-hook", "--within", "Work#outer")
    target.run("$work.outer(3); $work.inner(4)")
    result = tracer.stop
    assert_exit 0, result
    assert_equal({ "inner" => 3 }, methods_of(result).tally.slice("inner", "outer"))
  end

  test "a method that is defined anew keeps what it is for" do
    target = prepared
    tracer = trace(target, "--format", "json", "--within", "Work#outer", "Work#outer", "Work#inner")
    target.run("class Work; def outer(times) = times.times { |i| inner(i) }; def inner(number) = -number; end") \
      if target_ruby?(">= 3.0")
    target.run("$work.inner(1); $work.outer(2)")
    result = tracer.stop
    assert_accounted 4, result
    assert_equal %w[inner inner], methods_of(result)
  end

  test "rbprobe exec has conditions, too" do
    path = "#{directory}/program.rb"
    File.write(path, "#{PROGRAM}\n9.times { $work.nap(false) }; $work.nap(true)\n")
    skip "the target's Ruby is in a chroot" if RUBY.first == "chroot"
    result = rbprobe("exec", "--format", "json", *LIMIT, "Work#nap", "--", *RUBY, path, env: TARGET_ENV)
    assert_accounted 10, result
    assert_equal 1, result.events("call").size
  end

  # --- Wrong usage

  test "what makes no sense is refused in a line" do
    { %w[--slow 0] => /--slow takes milliseconds, such as 100 or 0.5, not "0"/,
      %w[--slow x] => /--slow takes milliseconds, such as 100 or 0.5, not "x"/,
      %w[--every 0] => /--every takes a whole number/,
      ["--if", " "] => /--if takes a Ruby expression/,
      ["--depth", "2", "--if", "elapsed > 1"] => /--depth goes with conditions/,
      %w[--rate x] => /--rate takes a whole number/,
      %w[--depth 2 --slow 3] => /--depth goes with conditions/,
      %w[--tree --if number>3] => /--tree shows what happens inside the calls that meet/,
      %w[--within Work#a(b)] => /--within takes a selector without expressions/,
      %w[--within #] => /--within: selector "#", character/ }.each do |options, message|
      assert_refused 2, message, "trace", "-p", Process.pid.to_s, "Work#", *options
    end
    assert_refused 2, /which methods\?/, "trace", "-p", Process.pid.to_s, "--within", "Work#outer"
  end
end
