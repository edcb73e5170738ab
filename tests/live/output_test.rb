# Where the results go, when a run ends, and what it says about itself.

require "open3"
require_relative "helper"

class OutputTest < LiveTest
  SELLING = "$shop.sell(:tea); $shop.try(:cup); nil".freeze

  test "the summary names calls, losses, seconds and the reason" do
    target = start("shop")
    tracer = trace(target, "Shop#price")
    target.run("3.times { $shop.price(:a) }")
    assert_match(/^rbprobe: 3 calls, 0 lost, \d+\.\d s; ended: .+$/, tracer.stop.stderr)
  end

  test "--quiet says nothing on stderr" do
    target = start("shop")
    result = rbprobe("trace", "-q", "--duration", "0.1", "-p", target.pid.to_s, "Shop#price")
    assert_exit 0, result
    assert_equal ["", ""], [result.stdout, result.stderr]
  end

  test "JSON: one valid object a line with every field of a call" do
    target = start("shop")
    tracer = trace(target, "--format", "json", "--args", "--return", "Shop#")
    target.run(SELLING)
    calls = tracer.stop.events("call")
    assert_equal %w[Shop#price Shop#sell Shop#refuse Shop#try], calls.map { |call| call["method"] }
    price, sell, refuse, = calls
    assert_equal [1, 0], [price["depth"], sell["depth"]]
    assert_equal({ "item" => ":tea" }, price["values"])
    assert_equal "300", price["result"]
    assert_equal "returned", price["ended"]
    assert_equal({ "class" => "Shop::SoldOut", "message" => "no cup" }, refuse["exception"])
    assert_equal "raised", refuse["ended"]
    assert_equal target.pid, price["pid"]
    assert_operator price["start_ns"], :>=, sell["start_ns"]
    assert_operator price["duration_ns"], :<=, sell["duration_ns"]
    assert_in_delta Time.now.to_f, price["start_ns"] / 1e9, 600
    assert_match(/shop\.rb\z/, price["file"])
    assert_equal [Integer],
                 calls.flat_map { |call| call.values_at("line", "thread", "fiber", "depth", "start_ns") }.map(&:class).uniq
  end

  test "JSON stays valid whatever the values and names are made of" do
    target = start("shop")
    tracer = trace(target, "--format", "json", "--args", "Shop#", "--inspect")
    target.run('Thread.current.name = "\u2028\u00e9\n"; $shop.send(:secret, "\xff\xfe\0\u{1f600}" + "\e\"\\\\"); nil')
    target.run('class Shop; define_method("od\xffd\n".b.to_sym) { |a = "\xc3".b| a }; end; nil')
    target.run('$shop.send("od\xffd\n".b.to_sym); nil')
    stdout = tracer.stop.stdout
    assert stdout.valid_encoding?
    assert_operator stdout.lines.size, :>=, 1
    stdout.each_line { |line| assert_kind_of Hash, JSON.parse(line) }
  end

  test "JSON ends with a summary" do
    target = start("shop")
    tracer = trace(target, "--format", "json", "Shop#price")
    target.run("$shop.price(:a)")
    summary = tracer.stop.objects.last
    assert_equal ["summary", 1, 0], summary.values_at("type", "calls", "lost")
  end

  test "--count ends after that many calls, whole ones" do
    target = start("shop")
    tracer = trace(target, "--count", "3", "Shop#")
    target.run("10.times { $shop.sell(:tea) }")
    result = tracer.wait
    assert_exit 0, result
    assert_equal <<~TREE, result.tree
      Shop#sell
         Shop#price <time>
      Shop#sell <time>
      Shop#sell <time>
    TREE
    assert_match(/--count/, result.stderr)
  end

  test "--duration ends after that time" do
    target = start("shop")
    result = rbprobe("trace", "--duration", "0.3", "-p", target.pid.to_s, "Shop#price")
    assert_exit 0, result
    assert_operator result.seconds, :>=, 0.3
    assert_match(/--duration/, result.stderr)
  end

  test "SIGTERM ends in order, too" do
    target = start("shop")
    tracer = trace(target, "Shop#price")
    target.run("$shop.price(:a)")
    tracer.signal(:TERM)
    assert_equal "Shop#price <time>\n", tracer.wait.tree
  end

  test "-o writes to a file and -a appends to it" do
    target = start("shop")
    file = "#{directory}/calls"
    [[], ["-a"], []].zip([1, 2, 1]).each do |append, lines|
      tracer = trace(target, "-o", file, *append, "Shop#price")
      target.run("$shop.price(:a)")
      assert_equal "", tracer.stop.stdout
      assert_equal lines, File.readlines(file).size
    end
  end

  test "what -o makes shows values of the process, and is for its owner alone; a file that is there keeps its mode" do
    target = start("shop")
    calls, mine, recording, old = %w[calls mine recording old].map { |name| "#{@directory ||= directory}/#{name}" }
    File.write(old, "")
    File.chmod(0o644, old)
    File.umask(0o022).tap { |before| @umask = before }
    [["trace", calls], ["trace", old], ["stat", mine], ["record", recording]].each do |command, file|
      tracer = launch(command, "-v", "-p", target.pid.to_s, "-o", file, "Shop#price").wait_until_armed
      target.run("$shop.price(:a)")
      assert_exit 0, tracer.stop
    end
    assert_exit 0, rbprobe("export", "-q", recording, "--to", "chrome", "-o", "#{recording}.json")
    assert_equal({ calls => "600", mine => "600", recording => "600", "#{recording}.json" => "600", old => "644" },
                 [calls, mine, recording, "#{recording}.json", old]
                   .to_h { |file| [file, (File.stat(file).mode & 0o777).to_s(8)] })
  ensure
    File.umask(@umask) if @umask
  end

  # `COMMAND >&-`
  def closed(*arguments)
    Open3.capture2e("sh", "-c", 'exec "$@" >&-', "sh", "#{Processes::BUILD}/rbprobe", *arguments)
  end

  test "a result that nobody can get, as standard output is closed, is an error" do
    target = start("shop")
    pid = target.pid.to_s
    [%w[--version], %w[--help], %w[trace --help], ["methods", "-p", pid, "Shop#price"], ["bt", "-q", "-p", pid],
     ["stat", "-q", "-p", pid, "--duration", "0.1", "Shop#price"]].each do |arguments|
      output, status = closed(*arguments)
      assert_equal ["rbprobe: cannot write to standard output: it is closed\n", 1], [output, status.exitstatus], arguments.inspect
    end
    output, status = closed("stat", "-q", "-p", pid, "--duration", "0.1", "-o", "#{directory}/file", "Shop#price")
    assert_equal ["", 0], [output, status.exitstatus]
  end

  test "a full disk is an error, and the target is let go" do
    target = start("busy")
    tracer = trace(target, "-o", "/dev/full", "Work#step")
    target.run("go")
    result = tracer.wait
    target.run("halt")
    assert_exit 1, result
    assert_match(%r{/dev/full.*No space left}, result.stderr)
  end

  test "a file that cannot be opened is an error before anything is armed" do
    target = start("shop")
    assert_refused 1, %r{/nowhere/calls.*No such file}, "trace", "-o", "/nowhere/calls", "-p", target.pid.to_s, "Shop#price"
  end

  test "a reader that goes away, as head does, is no error" do
    target = start("busy")
    reader, writer = IO.pipe
    tracer = trace(target, "Work#step", stdout: writer)
    writer.close
    target.run("go")
    3.times { assert_match(/\A(Work#step|\[thread \d+\]$)/, reader.gets) }
    reader.close
    result = tracer.wait
    target.run("halt")
    assert_exit 0, result
  end

  test "nor is one that goes away while methods are being armed" do
    target = start("shop")
    reader, writer = IO.pipe
    pid = spawn(Processes::RBPROBE, "trace", "-v", "-f", "--no-hook", "-p", target.pid.to_s, out: writer, err: writer)
    writer.close
    assert_match(/attached to process/, reader.gets)
    reader.close
    Process.wait(pid)
    assert_equal 0, $?.exitstatus
  end

  # What a trace says while it begins goes into a pipe that is full, and nobody reads for longer than its --timeout. Yields the
  # process; returns what it has said in the end.
  def traced_into_a_full_pipe(*options)
    reader, writer = IO.pipe
    filled = fill(writer)
    pid = spawn(Processes::RBPROBE, "trace", "-v", "-f", "--no-hook", *options, out: File::NULL, err: writer)
    writer.close
    wait_until("it waits for a reader") { File.read("/proc/#{pid}/wchan").include?("pipe_write") }
    sleep 1.2
    text = yield(pid, reader, filled)
    text << reader.read
    Process.wait(pid)
    text
  rescue Minitest::Assertion
    Process.kill(:KILL, pid) && Process.wait(pid) if pid
    raise
  ensure
    reader.close
  end

  def fill(writer)
    filled = 0
    while (written = writer.write_nonblock("." * 4096, exception: false)) != :wait_writable
      filled += written
    end
    filled
  end

  test "a reader that waits while methods are being armed is waited for" do
    target = start("shop")
    text = traced_into_a_full_pipe("-p", target.pid.to_s, "--timeout", "1") do |pid, reader, filled|
      reader.read(filled)
      said = +""
      said << reader.gets until said.include?(": tracing ")
      Process.kill(:INT, pid)
      said
    end
    assert_match(/ended: interrupted\n\z/, text)
    refute_match(/gives that up/, text)
  end

  test "a trace that could not start because nobody reads says so" do
    target = start("shop")
    text = traced_into_a_full_pipe("-p", target.pid.to_s) do |pid, _, _|
      Process.kill(:INT, pid)
      +""
    end
    assert_match(/rbprobe: nothing reads the output \(a pager\?\), so the trace could not start; use -o FILE$/, text)
  end

  test "a reader that closes the pipe before the methods are armed is said to have done so" do
    target = start("shop")
    reader, writer = IO.pipe
    reader.close
    result = rbprobe("trace", "-p", target.pid.to_s, "Shop#price", stdout: writer)
    assert_exit 0, result
    assert_equal "rbprobe: the reader closed the pipe before the methods were armed\n", result.stderr
  ensure
    writer.close
  end

  test "a master that only forks: its workers are named, meanwhile and at the end" do
    target = start("threads")
    workers = Array.new(2) { target.adopt(target.run("start_worker")) }.sort
    words = /process #{target.pid} has made no such call so far; .* 2 child processes .*: --children, or -p #{workers.join(",")}$/
    tracer = trace(target, "Integer#pow")
    tracer.wait_for(words)
    assert_equal 1, tracer.stop.stderr.scan(words).size
    assert_match(words, trace(target, "Integer#pow").stop.stderr)
    tracer = trace(target, "Integer#pow")
    target.run("2.pow(3)")
    refute_match(/child process/, tracer.stop.stderr)
  end

  test "a process that forks a child for each job: --follow-forks is named, meanwhile and at the end" do
    target = start("threads")
    job = "Process.wait(fork { 2.pow(3); exit! })"
    words = /process #{target.pid} has made no such call so far; it forks child processes .*: --follow-forks traces these, too/
    target.run(job)
    tracer = trace(target, "Integer#pow")
    target.run(job)
    tracer.wait_for(words)
    assert_equal 1, tracer.stop.stderr.scan(words).size
    tracer = trace(target, "Integer#pow")
    target.run(job)
    assert_match(words, tracer.stop.stderr)
    refute_match(words, trace(target, "Integer#pow").stop.stderr)
    tracer = trace(target, "Integer#pow", "--follow-forks")
    target.run(job)
    refute_match(words, tracer.stop.stderr)
  end

  test "several processes at once, each line with its PID" do
    targets = [start("shop"), start("shop")]
    tracer = launch("trace", "-v", "-p", targets.map(&:pid).join(","), "Shop#price")
    targets.each { |target| tracer.wait_for(/process #{target.pid}: tracing/) }
    targets.each { |target| target.run("$shop.price(:a)") }
    result = tracer.stop
    assert_exit 0, result
    assert_equal targets.map { |target| "#{target.pid}: Shop#price <time>\n" }.sort, result.tree.lines.sort
    targets.each { |target| assert_match(/#{target.pid}: 1 call,/, result.stderr) }
  end

  test "one of several processes that ends leaves the others traced" do
    targets = [start("shop"), start("shop")]
    tracer = launch("trace", "-v", "-p", targets[0].pid.to_s, "-p", targets[1].pid.to_s, "Shop#price")
    targets.each { |target| tracer.wait_for(/process #{target.pid}: tracing/) }
    targets[0].run_in_background("exit")
    targets[0].wait
    targets[1].run("$shop.price(:a)")
    assert_includes tracer.stop.tree, "#{targets[1].pid}: Shop#price <time>\n"
  end

  test "two clients at once see each their own selection" do
    target = start("shop")
    prices = trace(target, "Shop#price")
    sales = trace(target, "--args", "Shop#sell")
    target.run("$shop.sell(:tea)")
    assert_equal "Shop#price <time>\n", prices.stop.tree
    target.run("$shop.sell(:cup)")
    assert_match(/\AShop#sell\(item=:tea.*\nShop#sell\(item=:cup.*\n\z/, sales.stop.tree)
  end

  test "two clients with the same selection" do
    target = start("shop")
    tracers = Array.new(2) { trace(target, "Shop#price") }
    target.run("$shop.price(:a)")
    assert_equal ["Shop#price <time>\n"] * 2, tracers.map { |tracer| tracer.stop.tree }
  end

  test "--overflow=block loses nothing" do
    target = start("busy")
    tracer = trace(target, "--overflow", "block", "Work#step")
    target.run("go")
    wait_until("100,000 calls") { target.run("steps").to_i > 100_000 }
    happened = target.run("halt").to_i
    result = tracer.stop
    assert_equal [happened, 0], [result.summary("calls"), result.summary("lost")]
    assert_equal happened, result.stdout.scan(/^Work#step <\d\.\d{6}>$/).size
  end

  test "--help, --version and wrong usage" do
    %w[trace methods ps exec].each do |subcommand|
      result = rbprobe(subcommand, "--help")
      assert_exit 0, result
      assert_match(/Usage: rbprobe #{subcommand}/, result.stdout)
      # No example is cut in two.
      refute_match(/^\S/, result.stdout[/(?<=^Output:\n).*?(?=^A call)/m].to_s)
    end
    assert_match(/\A(?:rbprobe )?\d+\.\d+\.\d+/, rbprobe("--version").stdout)
    [%w[trace -h], %w[trace -?], %w[heap report -h], %w[-h], %w[help]].each do |words|
      result = rbprobe(*words)
      assert_exit 0, result
      assert_match(/\AUsage: rbprobe/, result.stdout)
    end
    everything = rbprobe("--help")
    assert_exit 0, everything
    everything.stdout.scan(/^  (\w[\w-]*)/).flatten.each do |subcommand|
      help = rbprobe(subcommand, "-h").stdout
      assert_match(/\AUsage: rbprobe #{subcommand} /, help)
      assert_empty help.lines(chomp: true).select { |line| line.size > 80 }, subcommand
    end
    assert_refused 2, /./, "frobnicate"
    assert_exit 0, rbprobe
    assert_equal everything.stdout, rbprobe.stdout
    assert_refused 2, /there is no subcommand "trcae"; did you mean trace\?/, "trcae"
    assert_refused 2, /a subcommand comes first, as in `rbprobe trace -p PID SELECTOR...`/, "-p", "12", "Shop#price"
    assert_refused 2, /a subcommand comes first, as in `rbprobe eval -p PID CODE`/, "-p", "12", "--eval", "1"
    assert_refused 2, /trace has no option --nonsense; `rbprobe trace --help`/, "trace", "--nonsense"
    assert_refused 2, /heap dump has no option --gzipp; did you mean --gzip\?/, "heap", "dump", "--gzipp"
    assert_refused 2, /backtrace has no option --slow; `rbprobe trace` has it$/, "bt", "--slow"
    assert_refused 2, /stat has no option --slow-methods; `rbprobe trace` has it$/, "stat", "--slow-methods", "x"
    assert_refused 2, /backtrace has no option --slowcpu; `rbprobe trace` has --slow-cpu MS$/, "bt", "--slowcpu"
    assert_refused 2, /memory has no option --devmode; methods that are defined later are traced anyway$/, "memory", "--devmode"
    assert_refused 2, /trace has no option --until; `rbprobe record` has it$/, "trace", "--until", "Shop#price"
    assert_refused 2, /replay has no option --until; a part of the time ends with --to$/, "replay", "--until", "12:00", "f"
    assert_refused 2, /profile has no option --objects; --alloc samples/, "profile", "-p", "1", "--objects"
    assert_refused 2, /profile has no option --to; write it with -o FILE;/, "profile", "-p", "1", "--to", "svg"
    assert_refused 2, /eval has no option --dominators; `rbprobe heap report` has it$/, "eval", "--dominators"
    assert_refused 2, /stat has no option -w; `rbprobe stat --help`/, "stat", "-w", "x"
    assert_refused 2, /-p PID/, "trace", "Shop#price"
    assert_refused 2, /./, "trace", "-p", "twelve", "Shop#price"
    assert_refused 2, /./, "trace", "-p", Process.pid.to_s
  end

  test "--help and --version take no time" do
    assert_operator rbprobe("--version").seconds, :<, 1 * Processes::PATIENCE
  end
end
