# What people have complained about in rbtrace, a story each: it does not happen here.

require_relative "helper"

class ComplaintsTest < LiveTest
  # How many of a kind rbtrace can take, and how long a command may be.
  RBTRACE_SELECTORS = 100
  RBTRACE_COMMAND = 1024

  def eval_in(target, code, *options)
    rbprobe("eval", *options, "-p", target.pid.to_s, code)
  end

  # The process looked for a message when the signal came, found none, and nobody rang again: attaching failed now and then.
  # strace takes one signal away after the other: as if it had come too early, before what it was to announce.
  test "the signal arrived before the message" do
    skip "needs strace" unless system("command -v strace >/dev/null")
    target = start("console")
    log = "#{directory}/strace"
    after_message = [1, 2, 3].count do |which|
      result = launch("eval", "-p", target.pid.to_s, "#{which} + 1",
                      command: ["strace", "-f", "-o", log, "-e", "trace=msgsnd,pidfd_send_signal",
                                "-e", "inject=pidfd_send_signal:retval=0:when=#{which}"]).wait
      assert_equal "#{which + 1}\n", result.stdout, result.stderr
      # A client of which one ring was enough for two messages has none of that number.
      File.read(log)[/.*INJECTED/m].to_s.include?("msgsnd")
    end
    assert_operator after_message, :>, 0
  end

  test "signals arrive for which there is no message" do
    target = start("console")
    ringer = Thread.new do
      loop do
        target.signal(:URG)
        sleep 0.0005
      end
    end
    20.times { |i| assert_equal "#{i}\n", eval_in(target, i.to_s).stdout }
  ensure
    ringer&.kill&.join
  end

  # The process still believed in its last client, and told every other one that it was already being traced.
  test "already being traced, though the client that traced has died" do
    target = start("console")
    3.times do
      tracer = trace(target, "Kernel#sleep")
      tracer.kill
      again = trace(target, "Kernel#sleep", "--format", "rbtrace")
      target.run("sleep 0.001")
      assert_match(/\AKernel#sleep <0\.\d{6}>\n\z/, again.wait_for(/>/).stop.stdout)
    end
  end

  test "already being traced, though the client was killed at any moment" do
    target = start("console")
    commands = [%w[trace Kernel#* --args], %w[eval sleep(0.2)], %w[stat Kernel#], %w[backtrace], %w[methods *#*], %w[profile]]
    (0..40).each do |i|
      client = launch(*commands[i % commands.size], "-p", target.pid.to_s)
      sleep i * 0.002
      client.kill
      assert_equal "#{i}\n", eval_in(target, i.to_s).stdout
    end
  end

  test "already being traced, by somebody else" do
    target = start("console")
    tracers = Array.new(3) { trace(target, "Kernel#sleep") }
    target.run("sleep 0.001")
    tracers.each { |tracer| assert_equal 1, tracer.stop.summary("calls?") }
  end

  # Its threads slept in C code, and looked for messages when they had something to do: when a request came.
  test "Puma answers only when a request comes" do
    only_with_gems("puma", "rack")
    target = start("puma")
    idle = Processes.clock_ticks_of(target.pid)
    assert_equal "2\n", eval_in(target, "1 + 1").stdout
    result = rbprobe("backtrace", "-p", target.pid.to_s)
    assert_exit 0, result
    tracer = trace(target, "Kernel#sleep", "Array#join")
    assert_exit 0, tracer.stop
    assert_operator Processes.clock_ticks_of(target.pid) - idle, :<, 100
  end

  # A message had room for 1,024 bytes: a long expression, or the 101st selector, was refused or forgotten.
  test "the command was too long" do
    target = start("console")
    target.run("class Wide; def call(number) number end end; nil")
    sum = Array.new(RBTRACE_COMMAND) { |i| "number + #{i}" }.join(" - number + ")
    assert_operator sum.bytesize, :>, 10 * RBTRACE_COMMAND
    tracer = trace(target, "Wide#call([#{sum}].size)")
    target.run("Wide.new.call(1)")
    assert_match(/=1\) <time>$/, tracer.stop.tree)
    code = "'#{"x" * 100 * RBTRACE_COMMAND}'.size"
    assert_equal "#{100 * RBTRACE_COMMAND}\n", eval_in(target, code).stdout
  end

  test "only a hundred methods at a time" do
    count = 3 * RBTRACE_SELECTORS
    target = start("console")
    target.run("class Many; #{count}.times { |i| define_method(\"m#{"\#{i}"}\") { i } }; end; nil")
    selectors = Array.new(count) { |i| "Many#m#{i}" }
    tracer = trace(target, *selectors)
    target.run("many = Many.new; #{count}.times { |i| many.send(\"m#{"\#{i}"}\") }")
    assert_equal selectors.map { |selector| "#{selector} <time>\n" }.join, tracer.stop.tree
  end

  # Code ran inside a signal handler, where Ruby allows no Mutex: no logger, no ActiveRecord, no Thread#join with a lock.
  test "ThreadError in eval: can't be called from trap context" do
    target = start("console")
    only_with_library("logger")
    code = "require 'logger'; require 'monitor'; Logger.new(STDERR.class.new(IO.sysopen('/dev/null', 'w'), 'w')).info('x'); " \
           "Monitor.new.synchronize { Mutex.new.synchronize { Thread.new { Queue.new.tap { |q| q << 42 }.pop }.value } }"
    assert_equal "42\n", eval_in(target, code).stdout
    # Only who wants the main thread itself gets what Ruby allows there.
    assert_match(/trap context.*\nrbprobe: with --main .* allows no Mutex; without it/m,
                 eval_in(target, "Mutex.new.lock", "--main").stderr)
    target.run("$lock = Mutex.new; $holder = Thread.new { $lock.synchronize { sleep } }; Thread.pass until $holder.stop?; nil")
    result = eval_in(target, "$lock.lock", "--timeout", "1")
    assert_exit 1, result
    assert_match(/took longer than 1 s and was cancelled/, result.stderr)
    assert_equal "true", target.run("$lock.locked? && $holder.wakeup && $holder.join && !$lock.locked?")
  end

  # --gc said nothing, or something when the next call was shown.
  test "--gc is silent" do
    target = start("console")
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "--gc").wait_until_armed
    3.times do |i|
      target.run("GC.start")
      wait_until("the collection is shown") { tracer.stdout.scan(/^# gc major .* \d\.\d{6} s/).size > i }
    end
    assert_operator tracer.stop.summary("collections?"), :>=, 3
  end

  # Classes were remembered by their address alone: one that was collected, or had moved, was looked at all the same.
  test "a traced class is removed, and the collector comes" do
    target = start("console")
    tracer = trace(target, "Passing#*", "Passing.", "Kernel#sleep", "--args")
    code = <<~RUBY
      20.times do |i|
        Object.const_set(:Passing, Class.new { def self.make() new end; def call(number) number end })
        Passing.make.call(i)
        Object.send(:remove_const, :Passing)
        GC.start
        GC.compact if GC.respond_to?(:compact) && i % 5 == 0
      end
      GC.stress = true
      Object.const_set(:Passing, Class.new { def call(number) number end })
      Passing.new.call(20)
      Object.send(:remove_const, :Passing)
      GC.stress = false
      GC.start
      sleep 0.001
    RUBY
    target.run(code)
    result = tracer.stop
    assert_exit 0, result
    shown = result.stdout.scan(/^(?: *)Passing#call\(number=(\d+)\)/).flatten.map(&:to_i)
    assert_equal shown.uniq.sort, shown
    assert_includes result.stdout, "Kernel#sleep(arg1=0.001)"
    # What the stack may still point to does not count.
    left = 'GC.start; ObjectSpace.each_object(Class).count { |one| one.name == "Passing" }'
    wait_until("the classes are collected") { target.run(left).to_i < 5 }
  end

  # There was one stack of calls for all threads: an end was taken for that of whichever call had begun last.
  test "durations of threads are mixed up" do
    target = start("console")
    target.run("class Clerk; def slow() sleep(0.4) end; def quick() sleep(0.02) end end; nil")
    tracer = trace(target, "Clerk#", "--format", "json")
    target.run("[Thread.new { Clerk.new.slow }, Thread.new { 8.times { Clerk.new.quick } }, " \
               "Thread.new { Clerk.new.slow }].each(&:join).size")
    calls = tracer.stop.events("call").group_by { |call| call["name"] }
    assert_equal [8, 2], calls.values_at("quick", "slow").map(&:size)
    assert_operator calls["slow"].map { |call| call["duration_ns"] }.min, :>=, 400_000_000
    assert_operator calls["quick"].map { |call| call["duration_ns"] }.min, :>=, 20_000_000
    assert_operator calls["quick"].map { |call| call["duration_ns"] }.min, :<, 300_000_000
    assert_equal [1], calls.values.flatten.group_by { |call| call["thread"] }.values
                           .map { |own| own.map { |call| call["name"] }.uniq.size }.uniq
  end

  # The queue was everybody's to write to: any local user could have code evaluated in any process that had the gem.
  test "another user sends commands" do
    only_root_with_a_nobody
    target = start("console")
    tracer = trace(target, "Kernel#sleep")
    queue = File.readlines("/proc/sysvipc/msg").map(&:split)
                .find { |fields| fields[0].to_i & 0xffffffff == Leftovers.queue_key(target.pid) }
    assert_equal "600", queue[2]
    attacker = "require 'fiddle'; send = Fiddle::Function.new(Fiddle.dlopen(nil)['msgsnd'], [Fiddle::TYPE_INT, " \
               "Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_INT], Fiddle::TYPE_INT); " \
               "exit send.call(#{queue[1]}, [1, 'eval'].pack('qa*'), 4, 2048) == -1 && Fiddle.last_error == Errno::EACCES::Errno"
    assert system(*NOBODY, "ruby", "-e", attacker)
    result = launch("eval", "-p", target.pid.to_s, "$taken = 1", command: NOBODY).wait
    assert_exit 3, result
    assert_equal "nil", target.run("$taken")
    target.run("sleep 0.001")
    assert_equal 1, tracer.stop.summary("calls?")
  end

  # What could not be sent was a line on the application's own standard error, and nobody counted it.
  test "events are lost, and the application's log says so" do
    target = start("console")
    tracer = trace(target, "String#swapcase", "--format", "rbtrace")
    tracer.signal(:STOP)
    target.run("a = \"a\"; 300_000.times { a.swapcase }")
    tracer.signal(:CONT)
    result = tracer.stop
    shown = result.stdout.scan(/^String#swapcase <\d/).size
    lost = result.stdout.scan(/^\.\.\. (\d+) calls? lost/).flatten.sum(&:to_i)
    assert_equal 300_000, shown + lost
    assert_equal "", target.stderr
  end
end
