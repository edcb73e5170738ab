# `rbprobe profile --native`: native frames of C functions, between and below Ruby's.

require_relative "helper"

class ProfileNativeTest < LiveTest
  NATIVE = " (native.so)".freeze

  # One thread computes in static functions that a block of Ruby's has called, which a static function has called.
  def computing
    start("profiled").tap do |target|
      target.run("require '#{compile_extension("native")}/native.so'")
      target.run("def deep; Hot.each(1 << 40) { Hot.spin(200_000) }; end; 1")
      target.run("def waits; Hot.wait; end; 1")
      target.run("Thread.new { deep }.name = 'hot'; Thread.new { waits }.name = 'waits'; 1")
    end
  end

  def profile(target, *arguments)
    rbprobe("profile", "-p", target.pid.to_s, "--native", "--duration", "1", "-q", *arguments)
  end

  def objects(target, *arguments)
    result = profile(target, "--format", "json", *arguments)
    assert_exit 0, result
    assert_empty result.stderr
    result.stdout.lines.map { |line| JSON.parse(line) }.group_by { |object| object.fetch("type") }
  end

  # From the outermost frame on, of the thread's stacks, those with the most samples first.
  def stacks_of(found, name)
    number = found.fetch("thread").find { |thread| thread["name"] == name }&.fetch("thread") or flunk found["thread"].inspect
    found.fetch("stack").select { |stack| stack["thread"] == number }.sort_by { |stack| -stack["samples"] }
         .map { |stack| stack["frames"].map { |frame| frame["label"] }.reverse }
  end

  # Whether the labels come in that order, with nothing of the extension's in between.
  def assert_within(labels, stack)
    shown = stack.select { |label| label.end_with?(NATIVE) || label.match?(/deep|Hot|spin|each|waits/) }
    assert_equal labels.size, shown.size, shown.inspect
    labels.zip(shown).each { |pattern, label| assert_match pattern, label, shown.inspect }
  end

  test "static functions of a C extension stand below the method that called them, and above the block that they call" do
    target = computing
    found = objects(target)
    assert_within [/deep\z/, /each\z/, /\Ahot_each#{Regexp.escape(NATIVE)}\z/, /\Ayield_each/, /deep\z/, /spin\z/,
                   /\Ahot_spin/, /\Aouter_loop/, /\Ainnermost_loop#{Regexp.escape(NATIVE)}\z/],
                  stacks_of(found, "hot").find { |stack| stack.last.start_with?("innermost_loop") } || []
    natives = found.fetch("native").map { |function| function.fetch("label") }
    assert_includes natives, "innermost_loop#{NATIVE}"
    native = found.fetch("process")[0].fetch("native")
    assert_operator native.fetch("stops"), :>, 0
    assert_operator native.fetch("pause_median"), :>, 0
    assert_operator native.fetch("pause_longest"), :>=, native.fetch("pause_median")
  end

  test "a thread that waits in C without the GVL has its native frames, and is left alone while it waits" do
    target = computing
    found = objects(target)
    stacks = stacks_of(found, "waits")
    assert_within [/waits\z/, /wait\z/, /\Ahot_wait#{Regexp.escape(NATIVE)}\z/, /\Await_for_ever#{Regexp.escape(NATIVE)}\z/],
                  stacks.first
    assert_match(/ \((?:libc|ld-musl)/, stacks.first.last)
  end

  test "the table marks native functions by their library, and says what that took" do
    result = profile(computing)
    assert_exit 0, result
    assert_match(/^process \d+: [\d.]+ s, \d+ threads(?:, 50 samples a second)?; rbprobe used \d+\.\d\d % CPU outside of it$/,
                 result.stdout)
    assert_match(/^  threads stopped \d+ times, \d+\.\d\d % of all time: median \d+ us, at most \d+ us$/, result.stdout)
    assert_match(/^  of all threads' time: running [\d.]+ %, idle [\d.]+ %\n  --native does not tell garbage collections apart$/,
                 result.stdout)
    assert_match(/^ +[\d.]+s +[\d.]+% +[\d.]+% +[\d.]+s  innermost_loop \(native\.so\)$/, result.stdout)
    assert_match(/^ *[\d.]+% +[\d.]+%  +innermost_loop \(native\.so\)$/, result.stdout)
  end

  test "what is kept has native frames in every format, and the process goes on" do
    target = computing
    file = "#{directory}/native.prof"
    assert_exit 0, profile(target, "-o", file)
    assert_match(/innermost_loop \(native\.so\)/, rbprobe("report", file).stdout)
    collapsed = rbprobe("export", "--to", "collapsed", file).stdout
    assert_match(/yield_each \(native\.so\);[^;]*;.*;innermost_loop \(native\.so\) \d+$/, collapsed)
    assert_match(/innermost_loop \(native\.so\)/, rbprobe("export", "--to", "speedscope", file).stdout)
    assert_equal "2", target.run("1 + 1")
  end

  test "a client that is killed leaves no thread stopped or traced" do
    target = computing
    5.times do
      tracer = launch("profile", "-p", target.pid.to_s, "--native", "--rate", "1000", "--duration", "60", "-q")
      wait_until("it samples") { Processes.threads_of(tracer.pid) > 1 }
      tracer.kill
      # A thread of ours may just be ending.
      statuses = -> { Dir["/proc/#{target.pid}/task/*/status"].map { |path| File.read(path) rescue "" } - [""] }
      wait_until("nothing is traced") { statuses.call.all? { |status| status.match?(/^TracerPid:\t0$/) } }
      wait_until("nothing is stopped") { statuses.call.none? { |status| status.match?(/^State:\t[tT]/) } }
      assert_equal "3", target.run("1 + 2")
    end
  end

  # Native threads are used again by other threads of Ruby's (Ruby 3.1), or end with theirs.
  test "threads that have ended are not sampled any more, and the CPU time of those that were not seen is counted" do
    target = start("profiled")
    target.run("def work(s) e = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + s; " \
               "nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < e; end; 1")
    target.run("$longest = 0; $all = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID); 1")
    target.run("Thread.new { loop { t = Process.clock_gettime(Process::CLOCK_MONOTONIC); Thread.new { work(0.03) }.join; " \
               "$longest = [$longest, Process.clock_gettime(Process::CLOCK_MONOTONIC) - t].max } }.name = 'starter'; 1")
    # On an emulated processor much is used before and after the profile, and by it.
    emulated = Processes::PATIENCE >= 10
    found = objects(target, "--duration", emulated ? "20" : "5")
    used, longest = target.run("[Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - $all, $longest].inspect")
                          .delete("[]\"").split(",").map(&:to_f)
    found.fetch("thread").reject { |thread| thread["main"] || thread["name"] }.each do |thread|
      assert_operator thread.fetch("wall"), :<, longest + 0.2, thread.inspect
    end
    seen = found.fetch("thread").sum { |thread| thread.fetch("cpu") }
    unseen = found.fetch("process")[0].fetch("unseen_cpu")
    assert_in_delta used, seen + unseen, used * (emulated ? 0.75 : 1 / 3.0), found.fetch("process").inspect
    assert_operator unseen, :>, seen
    file = "#{directory}/short.prof"
    assert_exit 0, profile(target, "-o", file)
    assert_match(/^  \d+\.\d{3} s of CPU time are in no sample: of threads that were gone soon, of other Ractors, or not Ruby's$/,
                 rbprobe("report", file).stdout)
  end

  test "several processes are sampled side by side" do
    targets = [computing, computing]
    result = rbprobe("profile", "-p", targets.map(&:pid).join(","), "--native", "--duration", "1", "-q", "--format", "json")
    assert_exit 0, result
    processes = result.objects.select { |object| object["type"] == "process" }
    assert_equal targets.map(&:pid).sort, processes.map { |process| process["pid"] }.sort
    # More than its threads: that of each that computes, again and again.
    processes.each { |process| assert_operator process["native"]["stops"], :>, 4, process.inspect }
  end

  test "where the process may not be traced, that is one line" do
    target = start("profiled")
    assert_exit 0, rbprobe("load", "-p", target.pid.to_s)
    strace = trace_by_strace(target)
    result = profile(target)
    end_beside(strace)
    assert_exit 1, result
    assert_empty result.stdout
    assert_match(/\A[^\n]* is being traced by strace \(process \d+\) already[^\n]*\n\z/, result.stderr)
    assert_exit 0, profile(target)
  end

  test "where no process can be sampled it ends at once, and of several the others are sampled" do
    none = Process.spawn("true").tap { |pid| Process.wait(pid) }.to_s
    result = rbprobe("profile", "-p", none, "--native", "--duration", "60")
    assert_exit 3, result
    assert_match(/no process has the PID #{none}/, result.stderr)
    target = computing
    result = rbprobe("profile", "-p", "#{none},#{target.pid}", "--native", "--duration", "1", "--format", "json")
    assert_exit 3, result
    assert_match(/"pid":#{target.pid}/, result.stdout)
  end

  test "what samples no time is refused" do
    target = start("profiled")
    %w[--gvl --alloc --retained].each do |option|
      result = rbprobe("profile", "-p", target.pid.to_s, "--native", option)
      assert_exit 2, result
      assert_match(/\A[^\n]*--native samples time; it does not go with --gvl, --alloc or --retained\n\z/, result.stderr)
    end
  end
end
