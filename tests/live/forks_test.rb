# --follow-forks: processes that a traced one forks are traced from the fork on.

require "json"
require_relative "helper"

class ForksTest < LiveTest
  JOB = <<~'RUBY'.freeze
    class Job
      def perform(n); step(n); step(n + 1); end
      def step(n); n * 2; end
      def leave; fork; end
      def leave_slowly; pid = fork; nap; pid; end
      def nap; sleep 0.02; end
      def run_in_child; fork { perform(1) }; end
    end
    $job = Job.new
    1
  RUBY

  def with_job(*arguments, command: "trace")
    @target = start("console")
    @target.run(JOB)
    tracer = launch(command, "-v", "-p", @target.pid.to_s, "--follow-forks", *arguments)
    wait_until("it is armed") { tracer.stderr.match?(/^rbprobe: process #{@target.pid}: tracing \d/) }
    yield @target, tracer
  end

  # Runs code that forks and returns the PID; returns that when the child is gone.
  def child_of(target, code)
    pid = target.run("$pid = (#{code}); Process.wait($pid); $pid").to_i
    refute_equal 0, pid
    pid
  end

  def lines_of(tracer, pid)
    tracer.stdout.lines.grep(/^#{pid}: /).map { |line| line.sub("#{pid}: ", "").gsub(/<[\d.]+>/, "<t>").chomp }
  end

  def summary_of(tracer, pid)
    wait_until(-> { "process #{pid} is told of: #{tracer.stderr}" }) do
      tracer.stderr[/^rbprobe: #{pid}: (\d+ calls?, \d+ lost)/, 1]
    end
  end

  test "no call of a child is missed, however short it lives" do
    with_job("Job#") do |target, tracer|
      children = Array.new(5) { |n| child_of(target, "fork { $job.perform(#{n}) }") }
      children.each do |pid|
        assert_equal "3 calls, 0 lost", summary_of(tracer, pid)
        assert_equal ["Job#perform", "   Job#step <t>", "   Job#step <t>", "Job#perform <t>"], lines_of(tracer, pid)
        assert_match(/^rbprobe: process #{pid} \(forked(?: by #{target.pid})?\) joined$/, tracer.stderr)
      end
      target.run("$job.perform(1)")
      result = tracer.stop
      assert_exit 0, result
      assert_match(/^rbprobe: #{target.pid}: 3 calls, 0 lost/, result.stderr)
    end
  end

  test "children that are traced are no hint for a parent that makes no call" do
    with_job("Job#") do |target, tracer|
      pid = target.adopt(target.run("fork { loop { $job.perform(1); sleep 0.05 } }").to_i)
      wait_until("it is traced") { lines_of(tracer, pid).any? }
      result = tracer.stop
      refute_match(/made no such call|workers/, result.stderr)
      assert_match(/^rbprobe: #{target.pid}: 0 calls/, result.stderr)
    ensure
      target.run("Process.kill(:TERM, #{pid}); Process.wait(#{pid}); nil")
    end
  end

  test "arguments, results and conditions are those of the parent" do
    with_job("--args", "--return", "--if", "n > 6", "Job#step") do |target, tracer|
      pid = child_of(target, "fork { $job.perform(6) }")
      assert_equal "1 call, 0 lost", summary_of(tracer, pid)
      assert_equal ["Job#step(n=7) => 14 <t>"], lines_of(tracer, pid)
      assert_exit 0, tracer.stop
    end
  end

  test "of what was recorded, a child's main thread is that of the child" do
    file = "#{directory}/jobs.rec"
    with_job("-o", file, "Job#", command: "record") do |target, recorder|
      pid = child_of(target, "fork { Thread.new { $job.step(1) }.join; $job.perform(1) }")
      assert_equal "4 calls, 0 lost", summary_of(recorder, pid)
      assert_exit 0, recorder.stop
      main = rbprobe("replay", "-n", "--thread", "main", file)
      assert_exit 0, main
      assert_equal ["Job#perform", "   Job#step", "   Job#step", "Job#perform <end>"],
                   main.stdout.lines.map { |line| line.chomp.delete_prefix("#{pid}: ") }.reject { |line| line.start_with?("[") }
    end
  end

  test "a call that is under way at the fork is the parent's; the child's own follow" do
    with_job("Job#") do |target, tracer|
      pid = child_of(target, "child = $job.leave; unless child; $job.step(1); exit; end; child")
      assert_equal "1 call, 0 lost", summary_of(tracer, pid)
      assert_equal ["Job#step <t>"], lines_of(tracer, pid)
      inner = child_of(target, "$job.run_in_child")
      assert_equal "3 calls, 0 lost", summary_of(tracer, inner)
      result = tracer.stop
      assert_exit 0, result
      assert_match(/^rbprobe: #{target.pid}: 2 calls, 0 lost/, result.stderr)
      refute_match(/report this/, result.stderr)
    end
  end

  test "a fork in a fork, in a thread, and a daemon's" do
    with_job("Job#") do |target, tracer|
      outer = child_of(target, "fork { $job.step(1); Process.wait(fork { $job.perform(1); sleep 0.3 }) }")
      assert_equal "1 call, 0 lost", summary_of(tracer, outer)
      inner = tracer.stderr[/^rbprobe: process (\d+) \(forked by #{outer}\) joined$/, 1]
      assert_equal "3 calls, 0 lost", summary_of(tracer, inner)
      thread = child_of(target, "Thread.new { fork { $job.perform(1) } }.value")
      assert_equal "3 calls, 0 lost", summary_of(tracer, thread)
      %w[fork{fork{Process.setsid;$job.perform(1)};exit!} fork{Process.daemon;$job.perform(1)}].each do |code|
        before = tracer.stdout.scan("Job#perform <").size
        child_of(target, code)
        wait_until(-> { "the daemon is traced: #{tracer.stderr}" }) { tracer.stdout.scan("Job#perform <").size == before + 1 }
      end
      assert_exit 0, tracer.stop
    end
  end

  test "a child that becomes another program is let go" do
    with_job("Job#") do |target, tracer|
      child_of(target, "fork { exec('true') }")
      child_of(target, "fork { $job.step(1); exec('sleep', '0.3') }")
      assert_equal "true", target.run("system('true')")
      assert_equal "3", target.run("`echo 3`.to_i")
      pid = child_of(target, "fork { $job.step(1) }")
      assert_equal "1 call, 0 lost", summary_of(tracer, pid)
      result = tracer.stop
      assert_exit 0, result
    end
  end

  test "one that leaves by exit! is told of, and is no failure" do
    with_job("Job#") do |target, tracer|
      pid = child_of(target, "fork { $job.perform(1); exit! }")
      wait_until("it is told of") do
        tracer.stderr.match?(/^rbprobe: process #{pid} \(forked.*\) (left without its exit handlers|went without a word)/)
      end
      slow = child_of(target, "fork { $job.perform(1); sleep 0.3; exit! }")
      wait_until("its calls are shown") { lines_of(tracer, slow).size == 4 }
      killed = child_of(target, "fork { $job.perform(1); sleep 0.3; Process.kill(:KILL, $$); sleep }")
      wait_until("its calls are shown") { lines_of(tracer, killed).size == 4 }
      assert_exit 0, tracer.stop
    end
  end

  test "stat counts each child from its fork on" do
    with_job("Job#", command: "stat") do |target, tracer|
      target.run("5.times { $job.step(1) }")
      pid = child_of(target, "fork { $job.perform(1) }")
      summary_of(tracer, pid)
      result = tracer.stop
      assert_exit 0, result
      assert_match(/^process #{pid}, .* 3 calls of 2 methods$/, result.stdout)
      assert_match(/^process #{target.pid}, .* 5 calls of \d methods?$/, result.stdout)
    end
  end

  test "stat counts the end of a call in the process alone where it began, also in a child's child" do
    with_job("--histogram", "--format", "json", "Job#", command: "stat") do |target, tracer|
      generation = "$job.nap; 100.times { $job.step(1) }"
      children = 3.times.inject("exit") do |inner, _|
        "pid = $job.leave_slowly; if pid; Process.wait(pid); else; #{generation}; #{inner}; end; " \
          "exit if Process.pid != #{target.pid}"
      end
      target.run("#{children}; 1")
      wait_until("all have ended") { tracer.stderr.scan(/ended: the process exited/).size == 3 }
      rows = tracer.stop.stdout.lines.map { |line| JSON.parse(line) }.select { |row| row["type"] == "method" }
      assert_equal({ "Job#leave_slowly" => 3, "Job#nap" => 4, "Job#step" => 3 }, rows.map { |row| row["method"] }.tally)
      rows.each { |row| assert_equal row["calls"], row["histogram"].sum { |_, _, count| count }, row["method"] }
    end
  end

  test "stat by class and as a tree" do
    [%w[--by class], %w[--tree]].each do |how|
      with_job(*how, "Job#", command: "stat") do |target, tracer|
        target.run("$job.perform(1)")
        pid = child_of(target, "fork { $job.perform(1) }")
        summary_of(tracer, pid)
        result = tracer.stop
        assert_exit 0, result
        assert_match(/^process #{pid}, .* 3 calls of 2 methods$/, result.stdout)
      end
    end
  end

  test "with %p each has a file; several methods that are defined in a child are its own" do
    place = directory
    with_job("-o", "#{place}/%p", "Job#") do |target, tracer|
      pid = child_of(target, "fork { class Job; def later; end; end; $job.later; Process.wait(fork { $job.later; sleep 0.3 }) }")
      inner = wait_until("both are traced") { tracer.stderr[/^rbprobe: process (\d+) \(forked by #{pid}\) joined$/, 1] }
      [pid, inner].each do |one|
        assert_equal "1 call, 0 lost", summary_of(tracer, one)
        assert_match(/^#{one}: Job#later <[\d.]+>$/, File.read("#{place}/#{one}"))
      end
      assert_exit 0, tracer.stop
    end
  end

  test "without --follow-forks, and where the client is gone, children are left alone" do
    target = start("console")
    target.run(JOB)
    tracer = trace(target, "Job#")
    child_of(target, "fork { $job.perform(1) }")
    assert_equal "", tracer.stop.stdout
    with_job("Job#") do |followed, other|
      code = "fork { $go = true; trap(:TERM) { $go = false }; ($job.step(1); sleep 0.01) while $go }"
      pid = followed.adopt(followed.run(code).to_i)
      wait_until("it is traced") { other.stdout.include?("#{pid}: Job#step") }
      other.signal(:KILL)
      other.wait
      sockets = -> { Dir.glob("/proc/#{pid}/fd/*").map { |path| File.readlink(path) rescue "" }.grep(/\Asocket/) }
      wait_until("its socket is gone") { sockets.().empty? }
      wait_until("its writer is gone") { Processes.threads_of(pid) <= 3 }
      assert_equal pid, followed.run("fork { $job.perform(1) }; #{pid}").to_i
      assert_match(/Job#step/, rbprobe("trace", "-p", pid.to_s, "--count", "1", "Job#step").stdout)
      Process.kill(:TERM, pid)
      assert_equal "0", followed.run("Process.wait2(#{pid})[1].exitstatus")
    end
  end

  test "what has sums over a process is refused" do
    target = start("console")
    whole = /\Arbprobe: --follow-forks cannot go with --gc, --gvl and --allocations, which are about one process$/
    assert_refused 2, whole, "trace", "-p", target.pid.to_s, "--follow-forks", "--gc", "String#upcase"
    assert_refused 2, whole, "record", "-p", target.pid.to_s, "--follow-forks", "--gvl", "-o", "x.rec", "String#upcase"
    assert_refused 2, /\Arbprobe: top shows the processes that are there; --follow-forks is an option of trace, stat and exec$/,
                   "top", "-p", target.pid.to_s, "--follow-forks", "String#upcase"
  end

  # Others hand the GVL around while it forks.
  PREFORK = <<~'RUBY'.freeze
    $over = false
    $busy = Array.new(3) { Thread.new { sleep 0.0001 until $over } }
    class Worker
      def serve
        hog = Thread.new { Thread.current.name = "hog"; hold until $done }
        web = Thread.new { Thread.current.name = "web"; 5.times { request } }
        web.join
        $done = true
        hog.join
      end
      def hold; x = 0; 300_000.times { |i| x += i }; x; end
      def request; sleep 0.01; end
    end
    1
  RUBY

  test "the timeline of a preforking server goes on in its workers" do
    file = "#{directory}/calls.rec"
    target = start("console")
    target.run(PREFORK)
    tracer = launch("record", "-v", "-p", target.pid.to_s, "--follow-forks", "--timeline", "-o", file, "Worker#")
    tracer.wait_until_armed
    children = Array.new(6) { target.run("fork { Worker.new.serve }").to_i }
    children.each { |pid| assert_equal "0", target.run("Process.wait2(#{pid})[1].exitstatus") }
    children.each { |pid| summary_of(tracer, pid) }
    target.run("$over = true; $busy.each(&:join)")
    assert_exit 0, tracer.stop
    threads = rbprobe("report", "-q", "--timeline", "--format", "json", file).stdout.lines.map { |line| JSON.parse(line) }
    children.each do |pid|
      own = threads.select { |thread| thread["pid"] == pid }.to_h { |thread| [thread["name"], thread] }
      assert_operator own.fetch("hog")["running_ns"], :>, 0, threads.inspect
      assert_operator own.fetch("web").values_at("waiting_ns", "sleeping_ns", "blocked_ns").sum, :>, 0
    end
  end

  test "a worker that was forked in the middle of a timeline is attached to, and let go, like any other" do
    target = start("console")
    target.run(PREFORK)
    tracer = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", "#{directory}/calls.rec", "Worker#")
    tracer.wait_until_armed
    4.times do
      pid = target.run("fork { sleep }").to_i
      2.times do
        own = launch("trace", "-v", "-p", pid.to_s, "--timeline", "--format", "json", "String#upcase").wait_until_armed
        assert_exit 0, own.stop
      end
      Process.kill(:TERM, pid)
      target.run("Process.wait(#{pid}); 1")
    end
    target.run("$over = true; $busy.each(&:join)")
    assert_exit 0, tracer.stop
  end

  # The parent's thread is in the middle of Ractor.new, and the child does not have it.
  test "collections are shown in a process that was forked while a thread made a Ractor" do
    target = start("console")
    skip "Ruby #{target.run("RUBY_VERSION")} looks on" unless target.run("RUBY_VERSION.start_with?('3.0', '3.1')") == "true"
    tracer = trace(target, "--gc", "--format", "json")
    target.run("$VERBOSE = nil; class Slow; def to_str; $there = true; sleep; end; end; " \
               "$maker = Thread.new { Ractor.new(name: Slow.new) { 1 } }; Thread.pass until $there; 1")
    child = target.adopt(target.run("fork { loop { GC.start; sleep 0.05 } }").to_i)
    target.run("$maker.kill.join; 1")
    tracer.stop
    in_child = launch("trace", "-p", child.to_s, "--gc", "--format", "json", "--duration", "2").wait
    assert_operator in_child.events("gc").size, :>, 0, in_child.stderr
  end

  test "with YJIT, a child that is not traced has its code compiled again where it lives on" do
    counts = "exit RubyVM::YJIT.runtime_stats.key?(:compiled_block_count)"
    skip "needs a YJIT that counts what it compiles" unless system(*Processes::RUBY, "--yjit", "-e", counts, err: File::NULL)
    target = start("console", ruby_options: ["--yjit"])
    target.run("class Hot; def step(n); n + 1; end; end; $hot = Hot.new; 200.times { $hot.step(1) }; nil")
    tracer = trace(target, "--quiet", "Hot#step")
    target.run("def compiled; RubyVM::YJIT.runtime_stats[:compiled_block_count]; end; nil")
    target.run("def grown; before = compiled; 9.times { 1000.times { $hot.step(1) } }; compiled - before; end; nil")
    target.run("$r, $w = IO.pipe; $child = fork { 99.times { grown }; $w.puts grown; sleep 6.5; $w.puts grown; exit! }; nil")
    settled, later = [1, 2].map { Integer(target.run("$r.gets.to_i")) }
    tracer.stop
    assert_equal 0, settled
    assert_operator later, :>, 0
    target.run("Process.wait($child); nil")
  end
end
