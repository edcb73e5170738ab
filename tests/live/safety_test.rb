# The first promise: whatever happens to the client, the target goes on, undisturbed, and nothing of ours stays in it.

require_relative "helper"

class SafetyTest < LiveTest
  # How often something is done to see whether it leaves anything behind.
  CYCLES = Integer(ENV.fetch("RBPROBE_CYCLES", "1000"))

  # What a session takes from a process, and must give back.
  def possessions_of(target)
    { descriptors: Processes.descriptors_of(target.pid), threads: Processes.threads_of(target.pid) }
  end

  def wait_until_disarmed(target, before, seconds = 1)
    wait_until(-> { "#{possessions_of(target)} is #{before} again" }, seconds) do
      possessions_of(target).all? { |what, count| count <= before[what] }
    end
    wait_until("its queue is gone", 6) { Leftovers.queues_of([target]).empty? }
  end

  test "a client that is killed at full rate: disarmed within a second, and the next attach works at once" do
    target = start("busy", 2)
    before = possessions_of(target)
    target.run("go")
    tracer = trace(target, "--args", "Work#step")
    tracer.wait_for(/^Work#step/)
    threads = before[:threads] + 2
    tracer.kill
    wait_until_disarmed(target, before.merge(threads: threads))
    again = trace(target, "Work#step")
    again.wait_for(/^Work#step/)
    assert_exit 0, again.stop
    wait_until_disarmed(target, before.merge(threads: threads))
    target.run("halt")
  end

  test "a client that is killed while the target sleeps" do
    target = start("states", "sleep")
    before = possessions_of(target)
    tracer = trace(target, "Kernel#sleep")
    tracer.kill
    wait_until_disarmed(target, before)
    assert_attachable(target)
  end

  test "a client that is killed at any moment of attaching leaves no queue, no directory, no descriptor" do
    target = start("console")
    assert_attachable(target)
    before = possessions_of(target)
    random = Random.new(1)
    50.times do
      tracer = launch("trace", "-p", target.pid.to_s, "Kernel#puts")
      # Not waited for but cut short: any moment of its few milliseconds is wanted.
      IO.select(nil, nil, nil, random.rand(0.02))
      tracer.kill
    end
    assert_attachable(target) # takes dead clients' directories away
    wait_until_disarmed(target, before, 2)
  end

  test "a client that is stopped: the target's speed stays, and every call was sent or counted as lost" do
    target = start("busy")
    tracer = trace(target, "Work#step")
    target.run("go")
    tracer.wait_for(/^Work#step/)
    running = rate_of(target)
    tracer.signal(:STOP)
    before = target.run("steps").to_i
    stopped = 0
    # More than the ring and the buffers after it hold, which are 10 MiB.
    wait_until("some have been lost", 60) do
      stopped = [stopped, rate_of(target)].max
      target.run("steps").to_i > before + 1_000_000
    end
    happened = target.run("halt").to_i
    tracer.signal(:CONT)
    result = tracer.stop
    assert_equal happened, result.summary("calls") + result.summary("lost")
    assert_operator result.summary("lost"), :>, 0
    assert_equal result.summary("calls"), result.stdout.scan(/^Work#step <\d\.\d{6}>$/).size
    assert_equal result.summary("lost"), result.stdout.scan(/^\.\.\. (\d+) calls? lost/).flatten.sum(&:to_i)
    # One that waited for its client would come to a stop. Other work on the machine makes it slower, too.
    assert_operator stopped, :>, running / 4, "calls a second with a client that is stopped; it was #{running}"
  end

  test "eight threads and a slow client: sent + lost = happened" do
    target = start("busy", 8)
    reader, writer = IO.pipe
    tracer = trace(target, "--format", "json", "Work#step", stdout: writer)
    writer.close
    target.run("go")
    wait_until("some have been lost or many sent") { target.run("steps").to_i > 400_000 }
    happened = target.run("halt").to_i
    # Not kept: root's spawns are forks, which take longer the more memory there is.
    calls = lost = 0
    output = Thread.new do
      reader.each_line do |line|
        object = JSON.parse(line)
        calls += 1 if object["type"] == "call"
        lost += object["calls"] if object["type"] == "lost"
      end
    end
    result = tracer.stop
    assert_exit 0, result
    output.value
    assert_equal happened, calls + lost
    assert_equal [calls, lost], [result.summary("calls"), result.summary("lost")]
  end

  test "a target that is killed: status 4, and its queue is taken away" do
    target = start("busy")
    tracer = trace(target, "Work#step")
    target.run("go")
    tracer.wait_for(/^Work#step/)
    target.signal(:KILL)
    result = tracer.wait
    assert_exit 4, result
    assert_match(/process #{target.pid} was killed by signal 9 \(Killed\) while it was traced/, result.stderr)
    assert_match(/ended: the process was killed, unconfirmed: calls may be missing that nobody counted$/, result.stderr)
    target.wait
    wait_until("its queue is gone") { Leftovers.queues_of([target]).empty? }
  end

  test "a target that exits ends the session in order" do
    target = start("shop")
    tracer = trace(target, "Shop#price")
    target.run_in_background("at_exit { $shop.price(:late) }; $shop.price(:a); exit 5")
    result = tracer.wait
    assert_exit 0, result
    assert_equal "Shop#price <time>\n" * 2, result.tree
    assert_match(/ended: the process exited/, result.stderr)
    assert_equal 5, target.wait.exitstatus
  end

  test "a target that leaves with exit! or a signal takes its queue with it or leaves it to the client" do
    { "exit!(3)" => 0, "Process.kill(:KILL, $$)" => 4, "Process.kill(:SEGV, $$)" => 4 }.each do |way, status|
      target = start("shop", env: { "RUBYOPT" => nil })
      tracer = trace(target, "Shop#price")
      target.run_in_background(way)
      assert_exit status, tracer.wait
      target.wait
      target.expects_stderr = way.include?("SEGV")
      wait_until("its queue is gone") { Leftovers.queues_of([target]).empty? }
    end
  end

  test "a target that calls exec" do
    target = start("shop")
    tracer = trace(target, "Shop#price")
    # What is called within the last milliseconds may go with the process image: the call has to be on its way first.
    target.run_in_background("$shop.price(:a); sleep 0.2; exec('sleep', '600')")
    result = tracer.wait
    assert_exit 0, result
    assert_equal "Shop#price <time>\n", result.tree
    assert_match(/ended: the process called exec/, result.stderr)
    assert_empty Leftovers.queues_of([target])
    assert target.alive?
  end

  test "a forked child is none of the parent's session and can be attached to itself" do
    target = start("shop")
    tracer = trace(target, "Shop#price")
    child = target.adopt(target.run("$child = fork { 5.times { $shop.price(:child) }; trap('TERM') { exit! }; " \
                                    "loop { $shop.price(:child); sleep 0.01 } }"))
    target.run("$shop.price(:parent)")
    wait_until("the child has started") { Processes.status_of(child, "SigCgt") }
    in_child = launch("trace", "-v", "-p", child.to_s, "Shop#price(item)").wait_until_armed
    in_child.wait_for(/Shop#price\(item=:child\)/)
    assert_exit 0, in_child.stop
    # A bell that rings late gets a queue for 2 s, which nobody would take away from a dead child.
    wait_until("the child's queue is gone", 6) { Leftovers.queues.none? { |queue| queue.key == Leftovers.queue_key(child) } }
    target.run("Process.kill(:TERM, $child); Process.wait($child); $shop.price(:parent)")
    assert_equal "Shop#price <time>\n" * 2, tracer.stop.tree
  end

  test "a child that is forked while a traced call is under way" do
    target = start("shop")
    target.run("class Shop; def branch; pid = fork { exit!(0) }; Process.wait(pid); $?.exitstatus; end; end; nil")
    tracer = trace(target, "--return", "Shop#branch")
    assert_equal "0", target.run("$shop.branch")
    # Where the fork takes long, the call is shown as it runs, too.
    assert_equal "Shop#branch => 0 <time>\n", tracer.stop.tree.delete_prefix("Shop#branch\n")
  end

  test "fork in the midst of full rate, again and again" do
    target = start("busy", 2)
    tracer = trace(target, "Work#step", stdout: File::NULL)
    target.run("go")
    assert_equal "[0]", target.run("Array.new(30) { Process.wait(fork { exit!(0) }); $?.exitstatus }.uniq")
    target.run("halt")
    result = tracer.stop
    assert_exit 0, result
    assert_equal target.run("steps").to_i, result.summary("calls") + result.summary("lost")
  end

  test "a thousand sessions leave nothing behind" do
    target = start("busy")
    target.run("go")
    assert_attachable(target)
    cycle = lambda do |number|
      arguments = number.even? ? ["--count", "1", "Work#step(self)"] : ["--duration", "0.001", "Work#step"]
      assert_exit 0, rbprobe("trace", "-q", "-p", target.pid.to_s, *arguments, stdout: File::NULL)
      @tracers.clear
    end
    # The first ones are for what is allocated once.
    (CYCLES / 10).times(&cycle)
    target.run("GC.start")
    before = possessions_of(target)
    resident = Processes.resident_kib_of(target.pid)
    CYCLES.times(&cycle)
    target.run("GC.start")
    wait_until_disarmed(target, before)
    # A sanitizer keeps what was freed.
    if Processes::TARGET_ENV.empty?
      assert_in_delta resident, Processes.resident_kib_of(target.pid), 2048, "KiB resident after #{CYCLES} sessions"
    end
    target.run("halt")
  end

  # What is tried on the VM is tried on top of the method that the main thread is just in. On 3.1 a closure that was made
  # there took that method's variables away, and the next block crashed the process.
  BUSY_IN_A_METHOD = <<~'RUBY'.freeze
    class Jar; attr_reader :lid; def open(count); count + 1; end; end
    def fill(jar)
      count = 0
      until $full
        jar.lid
        [count].each { |before| count = jar.open(before) }
      end
      count.positive?
    end
  RUBY

  test "a main thread that computes in a method is interrupted for everything that is tried and armed" do
    target = start("console")
    target.run(BUSY_IN_A_METHOD)
    target.run_in_background("fill(Jar.new)")
    assert_exit 0, rbprobe("methods", "-p", target.pid.to_s, "Jar#", "String#upcase")
    2.times do
      [["Jar#lid", "Jar#open"], ["Jar#", "Array#each"], ["--engine", "hook", "Jar#open"]].each do |arguments|
        assert_exit 0, rbprobe("trace", "--yes", "-p", target.pid.to_s, "--count", "50", *arguments)
      end
      # After a whole hook not everything can be tried any more.
      assert_match(/^ok +patch\.calls /, rbprobe("selftest", "-p", target.pid.to_s).stdout)
    end
    assert_exit 0, rbprobe("eval", "-p", target.pid.to_s, "$full = true")
    assert_equal "true", target.answer
  end

  test "every command on a process that collects garbage at every allocation" do
    target = start("console", ruby_options: ["--disable-gems"])
    target.run("class Jar; attr_reader :lid; def open(count); [count].reject { |one| one > 9 }; end; end; $jar = Jar.new; " \
               "GC.stress = true; 1")
    on = ["--timeout", "60", "-p", target.pid.to_s]
    assert_equal "[1, \"a\"]\n", rbprobe("eval", *on, '[1, "a"]').stdout
    assert_exit 0, rbprobe("selftest", *on)
    tracer = trace(target, "--timeout", "60", "--args", "--return", "Jar#", "Array#reject", "Jar#nothing(self, @lid)")
    target.run("$jar.open(7)")
    # A call that takes long is shown as it runs, too.
    tree = tracer.stop.tree.sub(/^( +Array#reject\(.*\))\n +Array#reject => /, "\\1 => ")
    assert_equal <<~TREE, tree
      Jar#open(count=7)
         Array#reject(&block=#<Proc>) => [7] <time>
      Jar#open => [7] <time>
    TREE
    assert_match(/ in <main>$/, rbprobe("bt", *on).stdout)
    assert_match(/^slots /, rbprobe("memory", *on).stdout)
    script = "#{directory}/script"
    File.write(script, "x = 1\n[x,\n2]\n")
    assert_equal "=> 1\n=> [1, 2]\n", rbprobe("console", *on, stdin: script).stdout
    assert_exit 0, rbprobe("heap", "dump", *on, "-o", "#{directory}/dump.json")
    assert_equal "3", target.run("1 + 2")
  end

  test "while ten thousand methods are armed and let go other threads run, and may fork" do
    skip "YJIT drops its code for each method: so many are refused" if Processes.yjit?
    target = start("console")
    target.run("$many = 100.times.map { Class.new { 100.times { |i| class_eval %(def m\#{i}(a, b = 1); [a, b].map { |x| x }; " \
               "end) } } }; " \
               "$many.each_with_index { |c, i| Object.const_set(%(Many\#{i}), c) }; nil")
    assert_attachable(target)
    target.run("$forker = Thread.new { $children = 20.times.map { sleep 0.003; fork { sleep } } }; nil")
    tracer = trace(target, "Many*#", "--timeout", "60")
    # Not one of them has a job of its parent's that never ends.
    children = target.run("$forker.join; $children.join(' ')").scan(/\d+/).map(&:to_i)
    assert_equal 20, children.size
    children.each { |pid| assert_equal "3\n", rbprobe("eval", "-p", pid.to_s, "1 + 2").stdout }
    target.run("100.times { |i| $many.each { |c| c.new.send(%(m\#{i}), 1) } }; nil")
    assert_equal 10_000, tracer.stop.tree.scan(/^Many\d+#m\d+/).uniq.size
    children.each { |pid| Process.kill(:KILL, pid) }
  end

  # Work that takes long lets other threads run in between, on the thread that sleeps.
  test "the main thread sleeps on while rbprobe works beside a thread that computes" do
    target = start("console")
    target.run("40.times { |i| Object.const_set(%(Many\#{i}), Class.new { 100.times { |j| define_method(%(m\#{j})) { } } }) }; " \
               "Thread.new { loop { } }; nil")
    target.run_in_background("slept = -Process.clock_gettime(1); sleep(#{2 * Processes::PATIENCE}); " \
                             "slept + Process.clock_gettime(1) >= #{2 * Processes::PATIENCE}")
    3.times { assert_exit 0, rbprobe("methods", "-p", target.pid.to_s, "Many*#") }
    assert_exit 0, rbprobe("eval", "-p", target.pid.to_s, "1 + 2")
    assert_equal "true", target.answer
  end

  test "what an application counts is as if nobody had been there: object ids" do
    count = "Object.new.object_id - $last.tap { $last = Object.new.object_id }"
    target = start("console")
    target.run("$last = Object.new.object_id; #{count}")
    alone = target.run(count)
    tracer = trace(target, "--args", "String#upcase", "Work*#")
    target.run('"a".upcase')
    tracer.stop
    assert_exit 0, rbprobe("bt", "-p", target.pid.to_s)
    assert_exit 0, rbprobe("eval", "-p", target.pid.to_s, "1 + 2")
    target.run("1")
    assert_equal alone, target.run(count)
  end

  test "methods that were traced are as fast as before" do
    target = start("busy")
    target.run("go")
    rate_of(target)
    before = rate_of(target)
    tracer = trace(target, "Work#step", stdout: File::NULL)
    rate_of(target)
    tracer.stop
    # On a busy machine one look may be at a slow moment; what stays slow stays so.
    wait_until("it is as fast as before") { rate_of(target) > before * 0.6 }
    target.run("halt")
  end

  private

  # Calls a second that happen in a target; measured where they happen.
  def rate_of(target)
    target.run("s, t = steps, Process.clock_gettime(1); sleep 0.4; (steps - s) / (Process.clock_gettime(1) - t)").to_f
  end
end
