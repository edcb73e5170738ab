# `--timeline` of Rubies that do not tell what their threads do: what is shown of threads that are looked at is true.

require_relative "helper"

class TimelineSampledTest < LiveTest
  def setup
    super
    skip "this Ruby tells what its threads do" unless Processes.target_ruby?("< 3.2")
    @file = "#{directory}/calls.rec"
  end

  def record(pid, *arguments, file: @file)
    launch("record", "-v", "-p", pid.to_s, "--timeline", *arguments, "-o", file, "Shop#").wait_until_armed
  end

  def threads(file = @file)
    result = rbprobe("report", "--timeline", "--format", "json", file)
    assert_exit 0, result
    result.stdout.lines.map { |line| JSON.parse(line) }
  end

  DOINGS = %w[running_ns waiting_ns blocked_ns io_ns sleeping_ns thread_ns process_ns gc_ns].freeze

  def known_ns(thread)
    thread.values_at(*DOINGS).sum
  end

  test "a thread that is alone does not wait for the GVL, however often it lets go of it" do
    target = start("shop")
    client = record(target.pid)
    target.run("null = File.open(File::NULL, 'w'); $shop.price(:tea); " \
               "over = Process.clock_gettime(Process::CLOCK_MONOTONIC) + 3; " \
               "100.times { null.syswrite('x') } until Process.clock_gettime(Process::CLOCK_MONOTONIC) > over")
    assert_exit 0, client.stop
    main = threads.find { |thread| thread["name"] == "main" }
    outside_ns = main["io_ns"] + main["blocked_ns"]
    assert_operator outside_ns, :>, 0, main.inspect
    # It may lose its processor just then.
    assert_operator main["waits"], :<=, 2, main.inspect
  end

  test "a thread that C code makes while a client is there is known as soon as it runs" do
    target = start("shop")
    target.run("require '#{compile_extension("c_thread")}/c_thread'")
    client = record(target.pid)
    target.run("thread = CThread.start { Thread.current.name = 'c'; $shop.price(:tea); 1 until $over }; " \
               "sleep 1; $over = true; thread.join")
    assert_exit 0, client.stop
    thread = threads.find { |one| one["name"] == "c" }
    refute_nil thread
    assert_operator thread["running_ns"], :>, 0
  end

  test "in a container where the process is the first, threads are told apart by their numbers" do
    wrapper = %w[unshare -p -f -i -m --mount-proc --kill-child]
    target = start("shop", wrapper: wrapper)
    pid = target.adopt(File.read("/proc/#{target.pid}/task/#{target.pid}/children").to_i)
    target.run("$queue = Queue.new; %w[one two].each { |name| Thread.new { Thread.current.name = name; " \
               "loop { $queue.pop; $shop.price(:tea); sleep 0.05 } } }; sleep 0.1")
    client = record(pid)
    target.run("8.times { $queue << 1 }; sleep 0.5")
    assert_exit 0, client.stop
    assert_equal %w[main one two], threads.map { |thread| thread["name"] }.sort & %w[main one two]
    assert_equal 3, threads.map { |thread| thread["thread"] }.uniq.size
  end

  test "threads that are too many to look at so often are looked at less often, which is said" do
    target = start("shop")
    target.run("$threads = Array.new(600) { Thread.new { sleep } }.size")
    client = record(target.pid)
    target.run("sleep 1.5")
    result = client.stop
    assert_exit 0, result
    assert_match(/for some time the threads were looked at every [\d.]+ ms alone, as more would take more/, result.stderr)
    assert_operator threads.count { |thread| thread["thread_ns"] + thread["sleeping_ns"] > 0 }, :>=, 600
  end

  test "the last thing that a process's threads did before its end is told" do
    target = start("shop")
    client = record(target.pid, "--timeline-rate", "1")
    # One look in each second.
    target.run_in_background("sleep 1.05; exit")
    target.wait
    assert_exit 0, client.wait
    assert_operator threads.sum { |thread| known_ns(thread) }, :>, 0
  end

  test "who comes later is not told of what was missed before" do
    target = start("shop")
    first = record(target.pid, "--timeline-rate", "5")
    target.run("sleep 0.5")
    # More than four looks.
    target.halt
    sleep 1.5
    target.go_on
    target.run("sleep 0.5")
    other = record(target.pid, file: "#{@file}.other")
    target.run("1")
    refute_match(/nobody looked at the threads/, other.stop.stderr)
    assert_match(/ 1 times nobody looked at the threads for 20 ms or more, for 1\d{3} ms at most/, first.stop.stderr)
  end
end
