# rbprobe backtrace: where every thread is, and what it waits for, without the process noticing.

require_relative "helper"

class BacktraceTest < LiveTest
  APP = "#{Processes::ROOT}/tests/apps/threads.rb"

  # Ready, and asleep again after having said so.
  def start_idle(...)
    start(...).tap do |target|
      wait_until("it waits for its input") { Processes.status_of(target.pid, "State").start_with?("S") }
    end
  end

  def backtrace(target, *options, **others)
    rbprobe("backtrace", "-p", target.pid.to_s, *options, **others).tap { |result| assert_exit 0, result }
  end

  def objects(target, *options)
    backtrace(target, "--format", "json", *options).objects
  end

  def threads(target, *options)
    objects(target, *options).select { |object| object["type"] == "thread" }
  end

  # The thread of that name.
  def thread(target, name)
    threads(target, "--thread", name).then { |found| assert_equal(1, found.size, "threads called #{name}") && found.first }
  end

  # Its methods from the innermost to the outermost, without classes, which not every Ruby tells.
  def labels(thread)
    thread["frames"].map { |frame| frame["label"].sub(/\A(block (?:\(\d+ levels\) )?in )?.*[#.](?=\w)/, "\\1") }
  end

  test "an idle process" do
    target = start_idle("threads")
    result = backtrace(target)
    lines = result.stdout.lines
    assert_match(/\Aprocess #{target.pid}, ruby #{Processes::RUBY_VERSION_OF_TARGET}, 1 thread, at \d\d:\d\d:\d\d\.\d{3}: .*threads\.rb/, lines[0])
    assert_match(/\Athread .*main, sleeping in .*gets/, lines[1])
    assert_match(%r{\A   .*/console\.rb:\d+ in .*gets$}, lines[2])
    assert_match(/ in (Object#)?console$/, result.stdout)
    assert_match(/ in <main>$/, lines.last)
    refute_match(/bind_call|backtrace_locations|handle_interrupt/, result.stdout)
    assert_equal "", result.stderr
  end

  test "what each thread waits for" do
    target = start("threads")
    target.run("waiting_threads")
    { "sleeper" => "sleep", "popper" => "pop", "reader" => "read", "joiner" => "join", "valuer" => "value", "selector" => "select",
      "stopped" => "stop", "conditional" => "wait", "pusher" => "push" }.each do |name, method|
      assert_match(/\Asleeping in (.*[#.])?#{method}\z/, thread(target, name)["state"], name)
    end
    assert_equal ["sleep", "block in nap", "each", "nap"], labels(thread(target, "sleeper")).first(4)
  end

  test "a thread that computes, and the one that does not get its turn" do
    target = start("threads")
    target.run("busy_threads(2)")
    states = threads(target, "--thread", "busy *").map { |thread| thread["state"] }
    assert_equal 2, states.size
    states.each { |state| assert_match(/\A(running|ready, waiting for the GVL)\z/, state) }
  end

  test "what is told of a thread: name, native id, CPU time, priority, group, labels" do
    target = start("threads")
    target.run("described_thread")
    found = thread(target, "described")
    assert_equal 2, found["priority"]
    assert_kind_of Integer, found["group"]
    assert_equal({ "job" => '"invoice 7"', "attempt" => "3", "@server" => "#<Server>" }, found["labels"])
    if Processes.target_ruby?(">= 3.1")
      assert_includes Dir.children("/proc/#{target.pid}/task"), found["native_id"].to_s
      assert_kind_of Integer, found["cpu_ns"]
    end
    assert_match(/^thread .*"described", sleeping in .*, priority 2, group 0x\h+\n   .*job="invoice 7"/, backtrace(target, "-t", "described").stdout)
  end

  test "100 threads" do
    target = start("threads")
    target.run("many_threads(100)")
    assert_equal 100, threads(target, "--thread", "many *").size
    # Together in one group.
    result = backtrace(target, "--group", "--thread", "many *")
    assert_equal 100, result.stdout.scan(/^thread .*"many \d+"/).size
    assert_equal 1, result.stdout.scan(/ in .*pop$/).size
  end

  test "a deep stack whole, and its innermost frames" do
    target = start("threads")
    target.run("deep_thread(8000)")
    # In pieces: it does not fit a record.
    pieces = objects(target, "--thread", "deep").select { |object| object["frames"] }
    assert_operator pieces.size, :>, 1
    assert_operator pieces.sum { |piece| piece["frames"].size }, :>=, 8000
    limited = thread_limited(target, 3)
    assert_equal 3, limited["frames"].size
    assert_equal true, limited["more"]
    assert_match(/\n   \.\.\.\n\z/, backtrace(target, "--thread", "deep", "--limit", "3").stdout)
  end

  def thread_limited(target, limit)
    threads(target, "--thread", "deep", "--limit", limit.to_s).first
  end

  test "fibers that do not run" do
    target = start("threads")
    target.run("waiting_fiber")
    fiber = objects(target, "--fibers").find { |object| object["type"] == "fiber" && object["status"] == "suspended" }
    assert_match(/threads\.rb:\d+/, fiber["created_at"])
    assert_equal %w[yield block\ in\ waiting_fiber], labels(fiber) if Processes.target_ruby?(">= 3.0")
  end

  test "again and again, with what is different" do
    target = start("threads")
    target.run("waiting_threads")
    tracer = launch("bt", "-p", target.pid.to_s, "--every", "0.05")
    tracer.wait_for(/as before/)
    target.run("release_popper")
    tracer.wait_for(/^gone: thread .*"popper"/)
    assert_exit 0, tracer.stop
    result = rbprobe("bt", "-p", target.pid.to_s, "--every", "0.01", "--count", "3")
    assert_exit 0, result
    assert_equal 3, result.stdout.scan(/^process #{target.pid}, /).size
  end

  test "an application that has its own Thread#name, Thread.list and inspect" do
    target = start("threads")
    target.run("class Thread; def self.list; raise 'no'; end; def name; raise 'no'; end; def inspect; raise 'no'; end; def to_s; raise 'no'; end; end")
    assert_match(/main, sleeping/, backtrace(target).stdout)
    assert_equal "3", target.run("1 + 2")
  end

  test "a process that never loaded the extension" do
    target = start_idle("threads", load: false)
    assert_match(/main, sleeping in .*gets/, backtrace(target).stdout)
  end

  test "several processes" do
    targets = Array.new(2) { start_idle("threads") }
    result = rbprobe("bt", "-p", targets.map(&:pid).join(","))
    assert_exit 0, result
    targets.each { |target| assert_match(/^process #{target.pid}, .*\nthread .*main, sleeping/, result.stdout) }
  end

  test "wrong usage" do
    assert_refused 2, /backtrace needs -p PID/, "backtrace"
    assert_refused 2, /--limit takes a whole number/, "bt", "-p", "1", "--limit", "0"
    assert_refused 2, /--every takes seconds/, "bt", "-p", "1", "--every", "never"
    assert_refused 2, /--count says how often --every looks/, "bt", "-p", "1", "--count", "3"
    assert_refused 2, /--format takes text or json/, "bt", "-p", "1", "--format", "xml"
  end
end
