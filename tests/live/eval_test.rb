# Code that is run in a process on demand: what comes back, what it cannot do to the application, and how it is stopped.

require_relative "helper"
require "socket"
require "net/http"

class EvalTest < LiveTest
  # A time that is there to be over; attaching has to be done in it as well.
  LIMIT = (0.2 * Processes::PATIENCE).round(2).to_s.delete_suffix(".0").freeze

  def eval_in(target, *arguments, **options)
    rbprobe("eval", "-p", target.pid.to_s, *arguments, **options)
  end

  # Code that says "waiting", and goes on when something comes into $go.
  def eval_waiting(target, code = "")
    target.run("$go = Queue.new; nil")
    launch("eval", "-p", target.pid.to_s, "puts 'waiting'; $go.pop#{code}").wait_for(/waiting\n/)
  end

  def assert_eval(expected, target, *arguments, **options)
    result = eval_in(target, *arguments, **options)
    assert_equal [expected, "", 0], [result.stdout, without_slowness(result.stderr), result.status]
  end

  # On a slow machine it says so.
  def without_slowness(text)
    text.lines.grep_v(Processes::Tracer::SLOWNESS).join
  end

  def refute_eval(message, target, *arguments, **options)
    result = eval_in(target, *arguments, **options)
    assert_exit 1, result
    assert_match message, result.stderr
    result
  end

  # What of a process must be as it was before.
  def picture_of(target)
    threads = target.run("Thread.list.size").to_i
    [threads, Processes.threads_of(target.pid), Dir.children("/proc/#{target.pid}/fd").sort,
     target.run("[$stdout.equal?(STDOUT), $stderr.equal?(STDERR)]")]
  end

  # The same when it has come to rest: a process that has just started has threads and files for a moment.
  def picture_at_rest(target)
    last = nil
    wait_until("it is at rest") { sleep 0.05 and last == (last = picture_of(target)) }
    last
  end

  def json_of(result)
    assert_exit 0, result
    JSON.parse(result.stdout)
  end

  # --- What it prints

  test "the result's inspect" do
    target = start("console")
    assert_eval "2\n", target, "1 + 1"
    assert_eval "\"a\\nb\"\n", target, '"a\nb"'
    assert_eval "nil\n", target, ""
    assert_eval "\"\u00e9\u4e2d\"\n", target, "\"\u00e9\u4e2d\""
  end

  test "a process that has never loaded the extension" do
    only_where_loading_is_possible
    target = start("console", load: false)
    result = eval_in(target, "-q", "$$")
    assert_equal ["#{target.pid}\n", 0], [result.stdout, result.status]
    assert_eval "6\n", target, "--main", "2 * 3"
  end

  test "at top level: self, file, line, and the application's local variables, which stay its own" do
    target = start("console")
    target.run("outer = 5")
    assert_eval "[main, \"(rbprobe)\", 2, 5]\n", target, "\n[self, __FILE__, __LINE__, outer]"
    assert_eval "7\n", target, "inner = outer + 2"
    refute_eval(/undefined local variable or method [`']inner'/, target, "inner")
    assert_equal "[:outer]", target.run("binding.local_variables & %i[outer inner]")
    assert_eval ":later\n", target, "def defined_now; :later; end; defined_now"
    assert_equal ":later", target.run("defined_now")
  end

  test "code from a file and from standard input" do
    target = start("console")
    path = "#{directory}/code.rb"
    File.write(path, "# frozen_string_literal: true\n[__FILE__, __LINE__, 'x'.frozen?]\n__END__\nnot Ruby at all (")
    assert_eval "[#{path.inspect}, 2, true]\n", target, "-f", path
    assert_eval "[\"(rbprobe)\", 2, true]\n", target, "-", stdin: path
    assert_refused 2, /cannot open.*No such file/, "eval", "-p", target.pid.to_s, "-f", "#{path}.not"
    assert_refused 2, /needs -p PID.*either the code or -f FILE/, "eval", "-p", target.pid.to_s
  end

  test "-e CODE is CODE, wherever the PID stands" do
    target = start("console")
    assert_eval "3\n", target, "-e", "1 + 2"
    assert_eval "\"-\"\n", target, "--main", "-e", "'-'"
    pid = target.pid.to_s
    [[pid, "-e", "4"], ["-e", "4", pid], ["-p", pid, "--code=4"]].each do |words|
      assert_equal ["4\n", 0], rbprobe("eval", *words).then { |result| [result.stdout, result.status] }, words.inspect
    end
    refute_eval(/syntax error|unexpected/i, target, "-e", "-")
    assert_refused 2, /one piece of code/, "eval", "-p", pid, "-e", "1", "-e", "2"
    assert_refused 2, /one piece of code/, "eval", "-p", pid, "-e", "1", "2"
    assert_refused 2, /either the code or -f FILE/, "eval", "-p", pid, "-e", "1", "-f", "x.rb"
  end

  test "code of several megabytes, sent for longer than attaching may take" do
    target = start("console")
    path = "#{directory}/large.rb"
    File.write(path, "x = [\n#{"  \"a line of a large array\",\n" * 60_000}]\n# #{"x" * 6_000_000}\nx.size\n")
    assert_eval "60000\n", target, "-f", path, "--timeout", "20"
  end

  test "--value-size cuts a long result and says so" do
    target = start("console")
    result = eval_in(target, "--value-size", "5", '"abcdefgh"')
    assert_equal ["\"abcd...\n", 0], [result.stdout, result.status]
    assert_match(/the result has 10 bytes and was cut after 5 /, result.stderr)
    assert_equal "\"\u00e9...\n", eval_in(target, "--value-size", "4", "\"\u00e9\u00e9\"").stdout
    assert_equal 65_540, eval_in(target, '"a" * 100_000').stdout.bytesize
    assert_equal 400_003, eval_in(target, "--value-size", "524288", '"a" * 400_000').stdout.bytesize
    assert_refused 2, /--value-size takes a whole number from 1 to 524288/, "eval", "-p", target.pid.to_s,
                   "--value-size", "0", "1"
  end

  test "--raw prints a String as it is, of any size and any bytes" do
    target = start("console")
    assert_eval "a\nb", target, "--raw", '"a\nb"'
    assert_eval "[1]\n", target, "--raw", "[1]"
    result = eval_in(target, "--raw", '"\xff\x00\xfe".b * 2_000_000')
    assert_equal [6_000_000, 255, 0, 254], [result.stdout.bytesize, *result.stdout.bytes.first(3)]
  end

  test "--format json has everything in one object" do
    target = start("console")
    answer = json_of(eval_in(target, "--format", "json", "puts 'out'; warn 'err'; { 'a' => 1 }.keys"))
    assert_equal ["returned", "Array", '["a"]', 5, "out\n", "err\n", target.pid],
                 answer.values_at("outcome", "class", "inspect", "size", "stdout", "stderr", "pid")
    assert_kind_of Float, answer["duration"]
    result = eval_in(target, "--format", "json", "raise ArgumentError, 'no'")
    assert_exit 1, result
    answer = JSON.parse(result.stdout)
    assert_equal ["raised", "ArgumentError", "no", 1],
                 [*answer.values_at("outcome", "class", "message"), answer["backtrace"].size]
    assert_equal "", result.stderr
    assert_equal "x\u0001y", json_of(eval_in(target, "--format", "json", "--raw", '"x\u0001y"'))["result"]
  end

  test "results that do not want to be shown" do
    target = start("console")
    assert_match(/\A#<BasicObject:0x\h+>\n\z/, eval_in(target, "BasicObject.new").stdout)
    assert_eval "#<Object: its inspect raised RuntimeError: I am shy>\n", target,
                "o = Object.new; def o.inspect; raise 'I am shy'; end; o"
    assert_eval "#<Object: its inspect returned no String but a NilClass>\n", target, "o = Object.new; def o.inspect; nil; end; o"
    refute_eval(/took longer than #{LIMIT} s/, target, "--timeout", LIMIT, "o = Object.new; def o.inspect; sleep; end; o")
    # A terminal must not be made to do anything by what comes from the process.
    assert_eval "\\x1b[31mred\n", target, "o = Object.new; def o.inspect; \"\\e[31mred\"; end; o"
  end

  # --- What the code writes

  test "what the code writes comes to the client, as it is written; the application's own output stays where it is" do
    target = start("console")
    code = 'puts "one"; print "two", "\n"; p :three; printf("%s\n", "four"); putc "5"; $stdout << 6 << "\n"; ' \
           '$stdout.write("7\n", 8, "\n"); ' \
           'display; STDERR.equal?($stderr); $stderr.puts "error"; warn "warning"; $stdout.syswrite("9\n"); $stdout.flush.sync'
    result = eval_in(target, code)
    assert_equal "one\ntwo\n:three\nfour\n56\n7\n8\nmain9\ntrue\n", result.stdout
    assert_equal "error\nwarning\n", result.stderr
    # Nothing has come between what the application itself prints.
    assert_equal "1", target.run("1")
  end

  test "output is there before the code has ended" do
    target = start("console")
    client = eval_waiting(target)
    target.run("$go << :gone; nil")
    assert_equal "waiting\n:gone\n", client.wait.stdout
  end

  test "other threads' output is untouched while the code runs" do
    target = start("console")
    client = eval_waiting(target, "; puts 'done'")
    target.run_in_background("puts 'of the application'; $stdout.print('and ', 'more', \"\\n\"); " \
                             "[$stdout.class, $stdout.is_a?(IO), $stdout == STDOUT, $stdout.fileno, $stdout.sync]")
    target.expect("of the application")
    target.expect("and more")
    assert_equal "[IO, true, true, 1, true]", target.answer
    target.run("$go << 1; nil")
    assert_equal "waiting\ndone\nnil\n", client.wait.stdout
    assert_equal "true", target.run("$stdout.equal?(STDOUT)")
  end

  test "a thread that the code starts writes to the client, too, as long as the code runs" do
    target = start("console")
    assert_eval "child\n[1, true]\n", target,
                "[Thread.new { puts 'child'; 1 }.value, Thread.current.group != ThreadGroup::Default]"
    eval_in(target, "$late = Thread.new { $go2 = Queue.new; $go2.pop; puts 'late' }; Thread.pass until $go2; nil")
    assert_equal "true", target.run("$late.group == ThreadGroup::Default")
    target.run_in_background("$go2 << 1; $late.join; 2")
    target.expect("late")
    assert_equal "2", target.answer
  end

  test "what the application does with $stdout meanwhile is respected" do
    target = start("console")
    target.run("require 'stringio'; nil")
    client = eval_waiting(target, "; puts 'done'")
    # A reference to what stands in $stdout now, kept for good; and another object in its place.
    target.run("$kept = $stdout; $log = $stdout.method(:write); $stderr = StringIO.new; nil")
    target.run("$go << 1; nil")
    assert_equal "waiting\ndone\nnil\n", client.wait.stdout
    assert_equal "StringIO", target.run("$stderr.class.tap { $stderr = STDERR }")
    target.run_in_background("$log.call(\"logged\\n\"); $kept.puts 'kept'; $stdout.equal?(STDOUT)")
    target.expect("logged")
    target.expect("kept")
    assert_equal "true", target.answer
    assert_eval "once more\nnil\n", target, "puts 'once more'"
  end

  test "the code may put something else into $stdout" do
    target = start("console")
    assert_eval "\"caught\\n\"\n", target,
                "require 'stringio'; before = $stdout; $stdout = StringIO.new; puts 'caught'; text = $stdout.string; " \
                "$stdout = before; text"
    assert_equal "[true, true]", picture_of(target).last
  end

  test "warnings of the parser come to the client" do
    target = start("console", ruby_options: ["-w"])
    result = eval_in(target, "if (x = 1) then x end; def foo_twice; end; def foo_twice; end; 5")
    assert_equal "5\n", result.stdout
    assert_match(/method redefined|found `?= literal/, result.stderr)
  end

  test "a child that the code forks writes where the application writes" do
    target = start("console")
    target.run_in_background("sleep 0.005 until $forked; 1")
    assert_eval "before\n0\n", target,
                "puts 'before'; pid = fork { puts 'from the child' }; Process.wait(pid); $forked = true; $?.exitstatus"
    target.expect("from the child")
    assert_equal "1", target.answer
    assert_equal "[true, true]", picture_of(target).last
  end

  test "a client that does not read makes only the code wait" do
    target = start("console")
    reader, writer = IO.pipe
    client = launch("eval", "-p", target.pid.to_s, "--timeout", "0", "$lines = 0; loop { puts 'x' * 1000; $lines += 1 }",
                    stdout: writer)
    writer.close
    before = 0
    wait_until("the code waits") do
      (now = target.run("$lines.to_i").to_i).positive? && now == before || (before = now) && sleep(0.3) && false
    end
    assert_eval "3\n", target, "1 + 2"
    # Who closes the pipe does not want the rest.
    reader.close
    client.wait
    wait_until("the code has ended") { target.run("Thread.list.map(&:name).include?('rbprobe eval')") == "false" }
  end

  # --- How it fails

  test "an exception is shown with message, class, frames and causes, and status 1" do
    target = start("console")
    result = refute_eval(/second \(RuntimeError\)/, target,
                         "def inner\n  raise ArgumentError, 'first'\nrescue\n  raise 'second'\nend\ninner")
    assert_equal "", result.stdout
    lines = result.stderr.lines
    assert_match(/\A\(rbprobe\):4:in .*inner': second \(RuntimeError\)\n\z/, lines.first)
    cause = lines.index { |line| line.match?(/\A\(rbprobe\):2:in .*inner': first \(ArgumentError\)\n\z/) }
    assert_match(/\A\tfrom \(rbprobe\):6:in [`']<main>'\n\z/, lines[cause - 1])
    # None of our own frames.
    assert(lines.all? { |line| line.match?(/\A(\tfrom )?\(rbprobe\):/) }, result.stderr)
  end

  test "whatever ends the code does not end the process" do
    target = start("console")
    refute_eval(/exit \(SystemExit\)/, target, "exit")
    refute_eval(/bye \(SystemExit\)/, target, "abort 'bye'")
    refute_eval(/uncaught throw :x \(UncaughtThrowError\)/, target, "throw :x")
    refute_eval(/unexpected return \(LocalJumpError\)/, target, "return 1")
    refute_eval(/break/i, target, "break")
    refute_eval(/the thread that ran the code was killed/, target, "Thread.exit")
    refute_eval(/the thread that ran the code was killed/, target, "Thread.current.kill")
    refute_eval(/stack level too deep \(SystemStackError\)/, target, "def deeper; deeper; end; deeper")
    # A sanitizer ends the process then.
    refute_eval(/\(NoMemoryError\)|\(ArgumentError\)/, target, "'x' * (2**62)") if Processes::TARGET_ENV.empty?
    refute_eval(/\(FiberError\)/, target, "Fiber.yield")
    refute_eval(/no message here/, target, "raise Class.new(StandardError), 'no message here'")
    refute_eval(/\(RuntimeError\)|RuntimeError/, target, "e = RuntimeError.new; def e.message; raise 'no'; end; raise e")
    assert_eval "[1, 2]\n", target, "f = Fiber.new { Fiber.yield 1; 2 }; [f.resume, f.resume]"
    assert_equal "1", target.run("1")
  end

  test "Thread.abort_on_exception of the application" do
    target = start("console")
    target.run("Thread.abort_on_exception = true")
    refute_eval(/boom \(RuntimeError\)/, target, "raise 'boom'")
    refute_eval(/exit \(SystemExit\)/, target, "exit 3")
    assert_equal "1", target.run("1")
  end

  test "syntax errors are shown with line and caret, and nothing has run" do
    target = start("console")
    result = refute_eval(/^\(rbprobe\):\d: syntax errors? ?/, target, "$ran = 1\nfoo bar)\n2")
    assert_match(/foo bar\)\n.* {7}\^/, result.stderr)
    assert_equal "nil", target.run("$ran")
    assert_match(/1 \+\n.*   \^/, refute_eval(/unexpected end-of-input/, target, "1 +").stderr)
    assert_match(/break\n.*\^~+/,
                 refute_eval(/break/, target, "$ran = 1; break").stderr.gsub("$ran = 1; ", "").gsub(/\n +\|? *\^/, "\n^"))
    assert_equal "nil", target.run("$ran")
    answer = JSON.parse(eval_in(target, "--format", "json", "1\nfoo bar)\n2").stdout)
    assert_equal ["syntax_error", "SyntaxError", 2, 8], answer.values_at("outcome", "class", "line", "column")
    # One in code that the code itself has parsed is an exception like any other.
    assert_equal "raised", JSON.parse(eval_in(target, "--format", "json", "eval('1 +')").stdout)["outcome"]
    refute_eval(/syntax error|invalid multibyte/, target, "-",
                stdin: File.join(directory, "x").tap { |path| File.binwrite(path, "x = \xff\xff") })
    assert_equal "[]", target.run('$LOADED_FEATURES.grep(/syntax_suggest\/(?!core_ext)/)'),
                 "Ruby's own help with syntax errors is not loaded into the process"
    # The top level's local variables count: this is a division.
    target.run("width = 6")
    assert_eval "3\n", target, "width /2 #/"
  end

  # --- How it is stopped

  test "--timeout cancels the code, says where it was, and its ensure runs" do
    target = start("console")
    result = refute_eval(/took longer than #{LIMIT} s and was cancelled.*it was here:\n\tfrom \(rbprobe\):2:in .*sleep/m,
                         target, "--timeout", LIMIT, "begin\n  sleep\nensure\n  $cleaned = true\nend")
    assert_equal "", result.stdout
    wait_until("ensure has run") { target.run("$cleaned") == "true" }
    refute_eval(/took longer than #{LIMIT} s/, target, "--timeout", LIMIT, "nil while true")
    assert_equal "timeout", JSON.parse(eval_in(target, "--timeout", LIMIT, "--format", "json", "sleep").stdout)["outcome"]
  end

  test "code that rescues everything is killed" do
    target = start("console")
    refute_eval(/took longer than #{LIMIT} s/, target, "--timeout", LIMIT,
                "begin; sleep; rescue Exception; retry; ensure; $ended = true; end")
    assert_equal "true", target.run("$ended")
    refute_eval(/took longer than #{LIMIT} s/, target, "--timeout", LIMIT,
                "loop { begin; nil while true; rescue Exception; end }")
  end

  test "Ctrl-C cancels the code" do
    target = start("console")
    client = launch("eval", "-p", target.pid.to_s, "--timeout", "0", "begin; puts 'in it'; sleep; ensure; $cleaned = true; end")
    client.wait_for(/in it/)
    result = client.stop
    assert_exit 1, result
    assert_match(/cancelled; the code was here:/, result.stderr)
    assert_equal "true", target.run("$cleaned")
  end

  test "the code ends when its client is killed" do
    target = start("console")
    before = picture_at_rest(target)
    clients = Array.new(3) do |i|
      launch("eval", "-p", target.pid.to_s, "--timeout", "0",
             "puts 'in it'; #{["sleep", "nil while true", "loop { begin; sleep; rescue Exception; end }"][i]}")
    end
    clients.each { |client| client.wait_for(/in it/) }.each(&:kill)
    wait_until(-> { "all is as before: #{picture_of(target)} #{before}" }) { picture_of(target) == before }
  end

  test "code that cannot be interrupted: the client leaves, and the process cleans up when it can" do
    target = start("console")
    before = picture_at_rest(target)
    client = launch("eval", "-p", target.pid.to_s, "--timeout", LIMIT,
                    "puts 'in it'; $stdout.flush; " \
                    "Thread.handle_interrupt(Object => :never) { sleep #{4 + 2 * LIMIT.to_f}; $over = true }")
    result = client.wait
    assert_exit 1, result
    assert_match(/did not end the request when asked to/, result.stderr)
    wait_until("it is over") { target.run("$over") == "true" }
    wait_until(-> { "all is as before: #{picture_of(target)} #{before}" }) { picture_of(target) == before }
  end

  test "a cancelled evaluation does not touch the application" do
    target = start("console")
    target.run("$seen = []; $worker = Thread.new { begin; loop { $count = $count.to_i + 1; sleep 0.001 }; " \
               "rescue Exception => e; $seen << e; end }; nil")
    5.times { refute_eval(/took longer/, target, "--timeout", LIMIT, "sleep") }
    5.times { refute_eval(/took longer/, target, "--timeout", LIMIT, "--main", "sleep") }
    assert_equal "[[], true]", target.run("[$seen, $worker.alive?]")
  end

  # --- The main thread

  test "--main runs the code in the main thread, whatever that waits for" do
    target = start("console")
    assert_eval "out\ntrue\n", target, "--main", "puts 'out'; Thread.current == Thread.main"
    refute_eval(/no \(RuntimeError\)/, target, "--main", "raise 'no'")
    refute_eval(/exit \(SystemExit\)/, target, "--main", "exit")
    refute_eval(/\(ThreadError\)/, target, "--main", "Mutex.new.lock")
    refute_eval(/end-of-input/, target, "--main", "1 +")
    refute_eval(/took longer than #{LIMIT} s/, target, "--timeout", LIMIT, "--main", "begin; sleep; ensure; $ended = true; end")
    assert_equal "true", target.run("$ended")
  end

  test "--main: in every state of the main thread it comes to its turn, and the state stays" do
    ["sleep", "join", "queue", "mutex", "blocking read", "busy", "join with eight busy threads"].each do |state|
      target = start("states", state)
      2.times { assert_eval "true\n", target, "--main", "--timeout", "30", "Thread.current == Thread.main" }
      refute_eval(/took longer than #{LIMIT} s/, target, "--main", "--timeout", LIMIT, "sleep") unless state.include?("eight")
      assert_eval "true\n", target, "--timeout", "30", "Thread.main.alive?"
      assert target.alive?, state
    end
  end

  test "--main: what others send to the main thread meanwhile reaches the application afterwards" do
    target = start("console")
    target.run("$go = Queue.new; nil")
    target.run_in_background("begin; sleep; rescue ArgumentError => e; e.message; end")
    client = launch("eval", "-p", target.pid.to_s,
                    "--main", "$inside = true; sleep 0.01 until $sent; begin; sleep 0.1; :undisturbed; rescue Exception; " \
                              ":disturbed; end")
    assert_eval "nil\n", target,
                "sleep 0.01 until $inside; Thread.main.raise(ArgumentError, 'for the application'); $sent = true; nil"
    assert_equal ":undisturbed\n", client.wait.stdout
    assert_equal '"for the application"', target.answer
  end

  test "--main keeps nobody else waiting, and the next one waits for it" do
    target = start("states", "sleep")
    client = launch("eval", "-p", target.pid.to_s, "--main", "--timeout", "0", "puts 'in it'; sleep 0.01 until $go; :first")
    client.wait_for(/in it/)
    second = launch("eval", "-p", target.pid.to_s, "--main", "--timeout", "20", ":second")
    assert_eval "2\n", target, "1 + 1"
    refute_eval(/took longer than #{LIMIT} s/, target, "--main", "--timeout", LIMIT, ":never")
    assert_eval "true\n", target, "$go = true"
    assert_equal ["in it\n:first\n", ":second\n"], [client.wait.stdout, second.wait.stdout]
    assert_eval "[\"DEFAULT\", \"DEFAULT\"]\n", target,
                "%w[PWR XFSZ].map { |name| trap(name, 'DEFAULT').to_s.sub(/\\ASYSTEM_/, '').sub(/\\A\\z/, 'DEFAULT') }"
  end

  # --- The process around it

  test "the thread is recognisable, and none of Puma's business" do
    target = start("console")
    assert_eval "[\"rbprobe eval\", true, 0, false]\n", target,
                "t = Thread.current; [t.name, t.thread_variable_get(:fork_safe), t.priority, t.report_on_exception]"
  end

  test "ten at once, from ten clients, do not mix" do
    target = start("console")
    clients = Array.new(10) do |i|
      launch("eval", "-p", target.pid.to_s, "--timeout", "60", "20.times { puts #{i}; $stderr.puts 'e#{i}'; sleep 0.005 }; #{i}")
    end
    clients.each_with_index do |client, i|
      result = client.wait
      assert_equal ["#{i}\n" * 21, "e#{i}\n" * 20, 0], [result.stdout, result.stderr, result.status]
    end
    assert_equal "[true, true]", picture_of(target).last
  end

  test "200 leave nothing behind" do
    target = start("console")
    5.times { eval_in(target, "puts 1; raise 'x'") }
    before = picture_at_rest(target)
    objects = target.run("GC.start; GC.start; ObjectSpace.count_objects.then { |c| c[:TOTAL] - c[:FREE] }").to_i
    100.times { eval_in(target, "x = Array.new(100) { 'y' * 100 }; puts 1; raise 'x'") }
    100.times { eval_in(target, "x = Array.new(100) { 'y' * 100 }; warn 'a'; x.size") }
    wait_until(-> { "all is as before: #{picture_of(target)} #{before}" }) { picture_of(target) == before }
    after = target.run("GC.start; GC.start; ObjectSpace.count_objects.then { |c| c[:TOTAL] - c[:FREE] }").to_i
    assert_operator after - objects, :<, 2000
  end

  test "among busy threads, and many" do
    target = start("states", "busy among busy threads")
    assert_eval "3\n", target, "--timeout", "60", "1 + 2"
    target = start("console")
    target.run("$threads = Array.new(300) { Thread.new { sleep } }; nil")
    assert_eval "true\n", target, "Thread.list.size > 300"
  end

  test "under GC.stress and GC.compact" do
    target = start("console")
    target.run("GC.stress = true")
    assert_eval "out\n[1, \"x\"]\n", target, "-q", "--timeout", "100", "puts 'out'; [1, 'x']"
    refute_eval(/no \(RuntimeError\)/, target, "-q", "--timeout", "100", "begin; raise 'first'; rescue; raise 'no'; end")
    target.run("GC.stress = false")
    unless target.run("GC.respond_to?(:compact) && (begin; GC.compact; true; rescue NotImplementedError; false; end)") == "true"
      skip "this Ruby cannot compact here"
    end
    target.run("$go = Queue.new; nil")
    client = launch("eval", "-p", target.pid.to_s, "puts 'waiting'; x = ['a', :b]; $go.pop; puts 'still here'; x")
    client.wait_for(/waiting/)
    target.run("3.times { GC.compact }; $go << 1; nil")
    assert_equal "waiting\nstill here\n[\"a\", :b]\n", client.wait.stdout
  end

  test "a deadlock of the application is still found" do
    target = start("console")
    target.expects_stderr = true
    assert_eval "2\n", target, "1 + 1"
    target.run_in_background("Thread.report_on_exception = false; begin; Queue.new.pop; rescue Exception => e; e.class; end")
    assert_equal "fatal", target.answer
  end

  test "a process that is just exiting" do
    target = start("console")
    target.run("at_exit { sleep 0.005 until $may_exit }; nil")
    target.run_in_background("exit")
    assert_eval "2\n", target, "1 + 1"
    client = launch("eval", "-p", target.pid.to_s, "--timeout", "0", "puts 'in it'; $may_exit = true; sleep")
    result = client.wait
    assert_exit 1, result
    assert_match(/the thread that ran the code was killed/, result.stderr)
    assert target.wait.success?
  end

  test "a process that the code ends" do
    target = start("console")
    result = eval_in(target, "exit! 7")
    assert_exit 4, result
    assert_match(/left without its exit handlers \(exit!.*\) before it had answered/, result.stderr)
    assert_equal 7, target.wait.exitstatus
  end

  test "the code may call rbprobe on its own process" do
    skip "rbprobe cannot run in the target's root" unless Processes::TARGET_ROOT == "/"
    skip "the sanitizers in the target's environment are not for rbprobe" unless Processes::TARGET_ENV.empty?
    target = start("console")
    assert_eval "\"inner\\n4\\n\"\n", target, "`#{Processes::RBPROBE} eval -p \#{$$} 'puts :inner; 2 + 2'`"
  end

  test "a process in other namespaces" do
    only_root
    skip "the target's Ruby is in a chroot" if Processes::RUBY.first == "chroot"
    target = start("console", wrapper: %w[unshare -m -p -i -n -u -f --mount-proc])
    pid = wait_until("it has a child") { File.read("/proc/#{target.pid}/task/#{target.pid}/children").split.first }
    target.adopt(pid)
    result = rbprobe("eval", "-p", pid, "puts $$; :done")
    assert_equal ["1\n:done\n", "", 0], [result.stdout, result.stderr, result.status]
  end

  test "Puma with Sinatra" do
    skip "no Puma for this Ruby" unless Processes::RUBY == ["ruby"] && system("command -v puma >/dev/null")
    log = "#{directory}/puma.log"
    pid = start_beside(Processes::TARGET_ENV, "ruby", "-I", "#{BUILD}/tracee", "-rrbprobe", "-S", "puma",
                       "--threads", "2:2", "--bind", "tcp://127.0.0.1:0", "#{Processes::ROOT}/tests/apps/demo/config.ru",
                       out: log)
    port = wait_until(-> { "Puma listens: #{File.read(log)}" }) { File.read(log)[/Listening on .*:(\d+)/, 1] }.to_i
    result = rbprobe("eval", "-p", pid.to_s, "puts 'to the client'; [defined?(Puma), Shop.superclass.name]")
    assert_equal "to the client\n[\"expression\", \"Sinatra::Base\"]\n".sub("expression", "constant"), result.stdout
    assert_equal "404", Net::HTTP.get_response("127.0.0.1", "/nothing", port).code
    refute_includes File.read(log), "to the client"
  end
end
