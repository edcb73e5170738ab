# `rbprobe profile --cpu` beside what a program measures itself. CPU clocks do not depend on how busy the machine is.

require_relative "helper"
require "etc"

class ProfileCpuTest < LiveTest
  PARTS = %w[work more wait].freeze
  RATE = 1000

  # What each thread says, and what the profile says, by part.
  def told_and_true(target, seconds)
    tracer = launch("profile", "-p", target.pid.to_s, "--cpu", "--rate", RATE.to_s, "--duration", "600", "--format", "json", "-q")
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    before = truth(target)
    wait_until("each thread has worked enough", 60 * PATIENCE) do
      truth(target).all? { |name, spent| PARTS.sum { |part| spent[part] - before[name][part] } > seconds * 1e9 }
    end
    after = truth(target)
    result = tracer.stop
    assert_exit 0, result
    found = result.stdout.lines.map { |line| JSON.parse(line) }.group_by { |object| object["type"] }
    # On a busy machine there are fewer.
    @samples = found["process"].first.fetch("cpu_samples")
    after.to_h do |name, spent|
      [name, [told(found, name), PARTS.to_h { |part| [part, (spent[part] - before[name][part]) / 1e9] }]]
    end
  end

  # Of the main thread, or another.
  def cpu_seconds(pid, thread = pid)
    File.read("/proc/#{pid}/task/#{thread}/schedstat").to_i / 1e9
  end

  def busiest_other(pid)
    (Dir.children("/proc/#{pid}/task") - [pid.to_s]).max_by { |thread| cpu_seconds(pid, thread) }
  end

  def truth(target)
    JSON.parse(target.run("truth").undump)
  end

  def told(found, name)
    number = found["thread"].find { |thread| thread["name"] == name }.fetch("thread")
    stacks = found["stack"].select { |stack| stack["thread"] == number }
    PARTS.to_h do |part|
      of_part = stacks.select { |stack| stack["frames"].any? { |frame| frame["label"] == "Alternating##{part}" } }
      [part, of_part.sum { |stack| stack["cpu"] }]
    end
  end

  def assert_all_parts(threads, points: 0.05)
    all = threads.sum { |_, (_, real)| real.values.sum }
    threads.each { |name, (told, real)| assert_parts(name, told, real, points, @samples * real.values.sum / all) }
  end

  # Some points, and what chance may do with so many samples. They do not all weigh the same, so it does more.
  def assert_parts(name, told, real, points, samples)
    told_sum, real_sum = told.values.sum, real.values.sum
    assert_operator told_sum, :>, 0, name
    PARTS.each do |part|
      share = real[part] / real_sum
      chance = 3 * Math.sqrt(share * (1 - share) / (samples / 2.0))
      assert_in_delta share, told[part] / told_sum, points + chance, "#{part} of #{name}: #{told} and in truth #{real}"
    end
  end

  # Where other tests want the processors, ticks come late, and may meet what the thread did next.
  def points_by_load
    Float(File.read("/proc/loadavg")[/\S+/]) > Etc.nprocessors ? 0.15 : 0.05
  end

  test "a thread that waits for two milliseconds at a time has its CPU time where it works" do
    target = start("profiled_cpu")
    target.run("one(0.002)")
    assert_all_parts(told_and_true(target, 1.5), points: points_by_load)
  end

  # A kernel adds up the CPU time of a thread on another processor some milliseconds apart, and ticks come between.
  test "a thread that computes, and calls nobody, waits for no longer than it does not compute" do
    target = start("profiled_cpu")
    target.run_in_background("i = 0; i += 1 while true")
    before = Processes.now, cpu_seconds(target.pid)
    result = rbprobe("profile", "-p", target.pid.to_s, "--cpu", "--rate", RATE.to_s, "--duration", "3", "--format", "json", "-q")
    elapsed, used = [Processes.now, cpu_seconds(target.pid)].zip(before).map { |after, earlier| after - earlier }
    assert_exit 0, result
    thread = result.stdout.lines.map { |line| JSON.parse(line) }.find { |object| object["type"] == "thread" && object["main"] }
    assert_operator thread["cpu"], :>, 0, thread.inspect
    assert_operator thread["idle"], :<=, elapsed - used + 0.02, "#{thread}, and it used #{used} of #{elapsed} s"
  end

  # The same for one that computes in C without the GVL, while all others wait: it takes no sample itself.
  test "nor does a thread that computes without the GVL" do
    target = start("profiled_cpu")
    target.run("require 'zlib'; $text = Random.new.bytes(4_000_000); $thread = Thread.new { loop { Zlib.deflate($text, 9) } }; 1")
    target.run_in_background("sleep") # from which it may be woken
    wait_until("it computes") { cpu_seconds(target.pid, busiest_other(target.pid)) > 0.1 }
    id = busiest_other(target.pid)
    before = Processes.now, cpu_seconds(target.pid, id)
    result = rbprobe("profile", "-p", target.pid.to_s, "--cpu", "--rate", RATE.to_s, "--duration", "3", "--format", "json", "-q")
    elapsed, used = [Processes.now, cpu_seconds(target.pid, id)].zip(before).map { |after, earlier| after - earlier }
    assert_exit 0, result
    thread = result.stdout.lines.map { |line| JSON.parse(line) }.find { |object| object["type"] == "thread" && !object["main"] }
    assert_operator thread["idle"], :<=, elapsed - used + 0.03 * elapsed, "#{thread}, and it used #{used} of #{elapsed} s"
  end

  # Ticks are late there, and a thread that could run waits for a processor.
  test "so has one on a machine where others take the processors" do
    target = start("profiled_cpu")
    busy = Array.new(4 * Etc.nprocessors) { Process.spawn(RbConfig.ruby, "-e", "loop {}") }
    target.run("one(0.002)")
    assert_all_parts(told_and_true(target, 1.0), points: 0.1)
    assert_operator @samples, :>, 50
  ensure
    busy&.each { |pid| Process.kill(:KILL, pid) && Process.wait(pid) }
  end

  test "so do threads that sleep, pop, select, lock and wait for the GVL" do
    target = start("profiled_cpu")
    target.run("many(0.008)")
    assert_all_parts(told_and_true(target, 0.5))
  end

  SPIN = "def spin(s) e = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) + s; " \
         "nil while Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) < e; end; 1".freeze
  USED = "Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)".freeze

  # Of the whole process: the CPU time in the profile's samples, that which is in none, and what was used, at least.
  def seen_unseen_and_used(target)
    tracer = launch("profile", "-p", target.pid.to_s, "--cpu", "--duration", "600", "--format", "json", "-q")
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    before = target.run(USED).to_f
    wait_until("it has used enough", 60 * PATIENCE) { target.run(USED).to_f > before + 1.5 }
    used = target.run(USED).to_f - before
    found = tracer.stop.stdout.lines.map { |line| JSON.parse(line) }.group_by { |object| object["type"] }
    [found["stack"].sum { |stack| stack["cpu"] }, found["process"][0]["unseen_cpu"], used]
  end

  def only_where_threads_have_clocks
    skip "this Ruby hides threads' numbers" unless ruby_has?("Thread.method_defined?(:native_thread_id)")
  end

  def ruby_has?(what, **env)
    system({ **Processes::TARGET_ENV, **env }, *Processes::RUBY, "-e", "exit((#{what}) ? 0 : 1)")
  end

  test "what threads have used that began and ended between two samples is counted" do
    only_where_threads_have_clocks
    target = start("console")
    target.run(SPIN)
    target.run("Thread.new { loop { Thread.new { spin(0.004) }.join } }; 1")
    seen, unseen, used = seen_unseen_and_used(target)
    assert_in_delta used, seen + unseen, used / 3
    assert_operator unseen, :>, used / 5
  end

  # Also where it computes in C code before the first sample can be.
  test "of a process whose threads all live, no CPU time is missing" do
    only_where_threads_have_clocks
    target = start("console")
    # musl sorts in ten times the time.
    count = Processes.musl? ? 200_000 : 2_000_000
    target.run("sorted = Array.new(#{count}) { |i| (i * 7919) % 2_000_001 }; Thread.new { loop { sorted.sort } }; " \
               "require 'zlib'; text = 'abc' * 1_000_000; 2.times { Thread.new { loop { Zlib.deflate(text) } } }; sleep 0.1; 1")
    %w[0.3 1].each do |seconds|
      result = rbprobe("profile", "-p", target.pid.to_s, "--duration", seconds)
      assert_exit 0, result
      refute_match(/in no sample/, result.stdout)
    end
  end

  test "what an evaluation uses beside it, and who sends for somebody else, is not the application's" do
    only_where_threads_have_clocks
    target = start("shop")
    other = trace(target, "-q", "Shop#price")
    20.times { target.run("1000.times { $shop.price(:tea) }") }
    tracer = launch("profile", "-p", target.pid.to_s, "--cpu", "--duration", "600", "--format", "json", "-q")
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    other.stop
    assert_exit 0, rbprobe("eval", "-p", target.pid.to_s, "--timeout", "60", "#{SPIN}; spin(1)")
    unseen = tracer.stop.stdout.lines.map { |line| JSON.parse(line) }.find { |found| found["type"] == "process" }["unseen_cpu"]
    assert_operator unseen, :<, 0.3
  end

  test "of threads that share a native one, what they have used is counted once" do
    only_where_threads_have_clocks
    env = { "RUBY_MN_THREADS" => "1" }
    skip "this Ruby has no such threads" unless ruby_has?("RUBY_DESCRIPTION.include?('+MN')", **env)
    target = start("console", env: env)
    target.run(SPIN)
    # What the VM began with counts.
    target.run("ENV.delete('RUBY_MN_THREADS')")
    target.run("2.times { Thread.new { loop { spin(0.01); sleep 0.002 } } }; 1")
    seen, unseen, used = seen_unseen_and_used(target)
    assert_in_delta used, seen, used / 3
    assert_in_delta used, seen + unseen, used / 3
  end

  # Another thread gets the GVL where the main one looks for interrupts: now and then within a sample, whose work calls methods.
  test "what other threads raise in the main one is not lost in a sample" do
    target = start("console")
    target.run(<<~RUBY)
      class Sent < StandardError; end
      Thread.main.priority = -3 # so it gives the GVL up more often
      def raised(times)
        times.times.count do
          thread = Thread.new { Thread.main.raise(Sent, "it") }
          ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + #{5 * [Processes::PATIENCE, 1].max}
          begin
            [3, 1, 2].sort while Process.clock_gettime(Process::CLOCK_MONOTONIC) < ends
            false
          rescue Sent
            true
          ensure
            thread.join
          end
        end
      end
      nil
    RUBY
    profiler = launch("profile", "-p", target.pid.to_s, "--cpu", "--rate", "1000", "--duration", "600", "-q")
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    2.times { assert_equal "30", target.run("raised(30)") }
    profiler.signal("INT")
    assert_exit 0, profiler.wait
    assert_attachable target
  end
end
