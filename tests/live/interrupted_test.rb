# Timeout, Thread#raise and Thread#kill that hit a thread while rbprobe works in it: they end what they were meant for.

require_relative "helper"

class InterruptedTest < LiveTest
  def self.test_each_engine(sentence, &story)
    %w[target hook].each { |engine| test("#{sentence}, engine #{engine}") { instance_exec(engine, &story) } }
  end

  # Threads that call a traced method all the time, killed one after the other: how many were not gone at once.
  SURVIVORS = <<~RUBY.freeze
    class Victim; def hit(number) @hits = number; end; end
    $victim = Victim.new
    12.times.count do
      thread = Thread.new { loop { $victim.hit(1) } }
      sleep 0.001
      thread.kill
      thread.join(5).nil?
    end
  RUBY

  # What this code answers while it is traced; before: code that runs before the trace. Returns the target.
  def assert_traced(answer, code, *arguments, before: "nil")
    start("console").tap do |target|
      target.run(before)
      tracer = trace(target, *arguments)
      assert_equal answer, target.run(code)
      assert_exit 0, tracer.stop
    end
  end

  test "a kill is not lost, whatever rbprobe asks Ruby for meanwhile" do
    assert_traced("0", SURVIVORS, "-f", "--engine", "hook", "--args", "--return")
  end

  TIMEOUTS = <<~'RUBY'.freeze
    require "timeout"
    ended = 8.times.count { Timeout.timeout(0.02) { loop { "x".upcase } } rescue $!.is_a?(Timeout::Error) }
    killed = 4.times.count { thread = Thread.new { loop { "x".upcase } }; sleep 0.005; thread.kill; thread.join(5) }
    [ended, killed, $!]
  RUBY

  %w[patch hook].each do |engine|
    test "a timeout or kill that comes while an expression runs ends the method, engine #{engine}" do
      assert_traced("[8, 4, nil]", TIMEOUTS,
                    "--engine", engine, "--return", "--inspect", "String#upcase((n = 0; n += 1 while n < 100_000; n))")
    end
  end

  BLOCKS = <<~RUBY.freeze
    20.times.sum do |i|
      [1, 2, 3].map { |x| x + i }.each_slice(2).sum { |pair| pair.sum } +
        {i => 1}.map { |k, v| k + v }.sum + [3, 1].sort_by { |x| -x }.first +
        "abc".gsub(/b/) { |match| match * 2 }.size
    end
  RUBY

  test "a method in C gets its own block while its values are made by Ruby code, engine hook" do
    assert_traced("1040", BLOCKS,
                  "--engine", "hook", "--inspect", "--args", "map", "each_slice", "sort_by", "gsub", "inject", "times", "sum")
  end

  # Where an interrupt waits, Thread.handle_interrupt runs jobs before its block: ours run inside our own.
  WAITING = <<~RUBY.freeze
    class Victim; def hit(number) @hits = number; end; end
    $victim = Victim.new
    $thread = Thread.new { Thread.handle_interrupt(RuntimeError => :never) { 100.times { $victim.hit(1) } until $done } }
    $thread.report_on_exception = false
    sleep 0.01
    $thread.raise("later")
    $thread.pending_interrupt?
  RUBY

  test "a job that comes while values are made in a thread for which an interrupt waits" do
    target = start("console")
    assert_equal "true", target.run(WAITING)
    tracer = trace(target, "--args", "--inspect", "Victim#hit(number + 1)")
    60.times do |i|
      assert_equal ["#{i}\n", 0], rbprobe("eval", "-p", target.pid.to_s, i.to_s).then { |result| [result.stdout, result.status] }
    end
    assert_exit 0, tracer.stop
    assert_equal '"later"', target.run("$done = true; ($thread.join && 0 rescue $!.message)")
  end

  # Each thread is sent two exceptions, and rescues both. Ruby alone may leave the second one waiting, or raise it while the
  # first is rescued.
  TWO_AT_ONCE = <<~RUBY.freeze
    class Shown; def inspect; "shown".upcase; end; end
    shown = Shown.new
    (1..12).any? do
      step = nil
      thread = Thread.new do
        begin
          step = 1
          loop { [shown, 1].map { |value| value.to_s.upcase } }
        rescue ArgumentError
          loop { [shown, 2].map { |value| value.to_s.upcase } } rescue ArgumentError
        end
      end
      thread.report_on_exception = false
      Thread.pass until step
      sleep 0.001
      2.times { thread.raise(ArgumentError) }
      arrived = (thread.join(0.05) || thread.pending_interrupt? || thread.join(5) rescue true)
      thread.kill
      !arrived
    end
  RUBY

  %w[patch hook].each do |engine|
    test "two exceptions that come while values are made both arrive, engine #{engine}" do
      assert_traced("false", TWO_AT_ONCE,
                    "--engine", engine, "--args", "--return", "--inspect", "Array#map", "String#upcase(self + 'x')")
    end
  end

  # The limit of an expression may pass while a job runs in its thread. That job lets others run when it starts an evaluation:
  # these keep the thread waiting that interrupts the expression, and a job is where the VM delivers what that one sends. Every
  # other expression ends by itself a little later.
  OVERDUE = <<~RUBY.freeze
    class Victim
      8.times { |i| define_method("hit\#{i}") { |number| @hits = number } }

      def linger(from = Process.clock_gettime(Process::CLOCK_MONOTONIC))
        1 while Process.clock_gettime(Process::CLOCK_MONOTONIC) - from < 1.2
      end
    end
    $strays, $calls = [], 0
    $others = Array.new(3) { Thread.new { 1 until $done } }
    $worker = Thread.new do
      victim = Victim.new
      until $done
        begin
          8.times { |i| victim.public_send("hit\#{i}", $calls += 1) }
          sleep 0.001
        rescue Exception
          $strays << $!.message
        end
      end
    end
    nil
  RUBY

  test "the time limit of an expression that the VM delivers in a job does not reach the application" do
    target = start("console")
    target.run(OVERDUE)
    expressions = Array.new(8) { |i| "Victim#hit#{i}(#{i.odd? ? "linger" : "(1 while true)"})" }
    tracer = trace(target, "--inspect", "--timeout", "1", *expressions)
    wait_until("each expression has been shown", 60) do
      assert_equal "1\n", rbprobe("eval", "-p", target.pid.to_s, "1").stdout
      tracer.stdout.scan(/hit\d/).uniq.size == 8
    end
    result = tracer.stop
    assert_exit 0, result
    assert_includes result.stdout, "timed out after 1000 ms"
    assert_equal "[]", target.run("$done = true; $worker.join; $others.each { |one| one.join }; $strays")
  end

  # Recursion through C and Ruby until the stack is full. What overflows while rbprobe works there is rbprobe's; nothing
  # comes later.
  DEEP = <<~RUBY.freeze
    class Deep; def down(pad, &block) [1].each { down(pad, &block) }; end; end
    24.times.count do |pad|
      begin
        pad.times.inject(-> { Deep.new.down(0) { } }) { |block, _| -> { [1].map { block.call } } }.call
      rescue SystemStackError
        ended = true
      end
      Array.new(2000) { |i| i.to_s }.size + 10.times { Thread.pass }
      ended
    end
  RUBY

  # It inherits what its maker holds back.
  MAKER = "class Maker; def hit(number); @hits = number; end; def look; $made ||= Thread.new { sleep }; 1; end; end; 1".freeze
  MADE = <<~'RUBY'.freeze
    Maker.new.hit(1)
    sleep 0.01 until $made.stop?
    $made.kill
    [$made.join(5).nil?, $made.alive?]
  RUBY

  test_each_engine "a thread that an expression has made can be killed" do |engine|
    assert_traced("[false, false]", MADE, "--engine", engine, "Maker#hit(self.look)", before: MAKER)
  end

  # Up to Ruby 3.1 Timeout makes a thread, kills it, and waits for it.
  ENDING_THREADS = <<~'RUBY'.freeze
    require "timeout"
    class Ending
      def work(number); @number = number; end
      def long; Timeout.timeout(3600) { :in_time }; end
      def killed; Thread.new { sleep }.tap { |thread| thread.kill; thread.join(10) }.alive?; end
    end
    $ending = Ending.new
    nil
  RUBY

  test_each_engine "a thread that an expression makes and kills is gone at once" do |engine|
    target = start("console")
    target.run(ENDING_THREADS)
    tracer = trace(target, "--engine", engine, "Ending#work(self.long, self.killed)")
    target.run("3.times { $ending.work(1) }")
    result = tracer.stop
    assert_equal 3, result.stdout.scan("self.long=:in_time, self.killed=false").size, result.stdout
  end

  test "an overflow of the stack in the midst of rbprobe's work is no interrupt" do
    assert_traced("24", DEEP, "--engine", "hook", "--args", "--return", "--inspect", "Deep#", "each")
  end

  # A program that counts in a thread, and keeps what goes astray: it goes on after each of so many commands.
  def goes_on(program, counter, times, *command)
    target = start("console")
    target.run(program)
    times.times do
      assert_exit 0, rbprobe(*command, "-p", target.pid.to_s)
      before = Integer(target.run(counter))
      wait_until("#{counter} has gone on") { Integer(target.run(counter)) > before }
    end
    assert_equal "[]", target.run("$done = true; $thread.join; $astray")
  end

  # Up to Ruby 3.1 a Timeout is no exception when it arrives: it throws.
  ENDLESS = <<~'RUBY'.freeze
    require "timeout"
    $ended = 0
    $astray = []
    $thread = Thread.new do
      until $done
        begin
          Timeout.timeout(0.002) { loop { "x".upcase } } rescue $!.is_a?(Timeout::Error) ? $ended += 1 : $astray << $!
          50.times { "x".upcase }
        rescue Exception
          $astray << $!
        end
      end
    end
    nil
  RUBY

  test "a Timeout that comes while a job runs ends its block, and nothing else" do
    goes_on(ENDLESS, "$ended", 12, "trace", "--no-hook", "--duration", "0.05", "-f")
  end

  # Threads that are killed and joined, one after the other, as Timeout does it up to Ruby 3.1.
  KILLED = <<~RUBY.freeze
    $killed = 0
    $astray = []
    $thread = Thread.new do
      until $done
        victim = Thread.new { loop { "x".upcase } }
        sleep 0.002
        victim.kill
        begin
          victim.join(5) ? $killed += 1 : $astray << :alive
        rescue Exception
          $astray << $!
        end
      end
    end
    nil
  RUBY

  COMMANDS = ["bt", "eval 1", "memory", "stat -f --duration 0.2", "trace --no-hook -f --duration 0.2 -o /dev/null"].freeze

  COMMANDS.map(&:split).each do |command|
    test "a kill that comes while #{command.first} runs on the thread is a kill, and no exception" do
      goes_on(KILLED, "$killed", 8, *command)
    end
  end

  # A thread that lets exceptions in at one place, and is sent several at a time.
  STORM = <<~'RUBY'.freeze
    class Sum; def add(number); @sum = number; end; end
    $arrived = []
    $sum = Sum.new
    $thread = Thread.new do
      Thread.handle_interrupt(RuntimeError => :never) do
        until $done
          begin
            Thread.handle_interrupt(RuntimeError => :immediate) { loop { [1, 2].each { |x| $sum.add(x) }; $computes = true } }
          rescue RuntimeError
            $arrived << Integer($!.message)
          end
        end
      end
    end
    $sent = 0
    sleep 0.01 until $computes
  RUBY
  ROUNDS = <<~'RUBY'.freeze
    40.times do
      3.times { $thread.raise(RuntimeError, ($sent += 1).to_s) }
      200.times { sleep 0.005 if $arrived.size < $sent }
    end
    $arrived == [*1..$sent] || [$sent, $arrived]
  RUBY
  END_OF_STORM = "$done = true; $thread.raise(RuntimeError, '0'); $thread.join; nil".freeze

  test_each_engine "exceptions that are sent several at a time all arrive, in their order, beside values" do |engine|
    assert_traced("true", ROUNDS, "--engine", engine, "Sum#add(number + 1)", before: STORM).run(END_OF_STORM)
  end

  test "so they do beside an expression that raises a NameError each time" do
    assert_traced("true", ROUNDS, "Sum#add(nil.nosuch)", before: STORM).run(END_OF_STORM)
  end

  # They run in jobs of the VM's own, which lets in what waits when they are over.
  FINALIZERS = <<~'RUBY'.freeze
    $finalizers = Thread.new do
      nothing = proc { }
      until $done
        50.times { ObjectSpace.define_finalizer(Object.new, nothing) }
        GC.start(full_mark: false)
      end
    end
    nil
  RUBY

  test "so they do beside values, and finalizers" do
    assert_traced("true", ROUNDS, "Sum#add(number + 1)", before: STORM + FINALIZERS).run(END_OF_STORM)
  end

  test "exceptions that are sent several at a time all arrive, in their order, beside samples and jobs" do
    target = start("console")
    target.run(STORM)
    profile = launch("profile", "--cpu", "--rate", "1000", "-o", "#{directory}/profile", "-p", target.pid.to_s)
    target.run_in_background(ROUNDS)
    6.times { assert_equal "2\n", rbprobe("eval", "-p", target.pid.to_s, "1 + 1").stdout }
    assert_equal "true", target.answer
    assert_exit 0, profile.stop
    target.run(END_OF_STORM)
  end

  # As connection_pool does: what waits is let in, whoever has held it back.
  LETTING_IN = <<~'RUBY'.freeze
    require "timeout"
    class Pool
      def work(number); @number = number; end
      def look
        Thread.handle_interrupt(Exception => :never) do
          Thread.handle_interrupt(Exception => :immediate) { n = 0; n += 1 while n < 20_000; n }
        end
      end
    end
    $pool = Pool.new
    def timeouts
      6.times.count { Timeout.timeout(0.03) { $pool.work(1) while true } rescue $!.is_a?(Timeout::Error) }
    end
    nil
  RUBY

  test_each_engine "a Timeout around an expression that lets interrupts in ends its block" do |engine|
    assert_traced("6", "timeouts", "--engine", engine, "Pool#work(self.look)", before: LETTING_IN)
  end

  # Timeouts around the calls, which end them, and within the expression, which are over before it is.
  BOTH = <<~'RUBY'.freeze
    require "timeout"
    class Both
      def work(number); @number = number; end
      def look; Timeout.timeout(0.01) { n = 0; n += 1 while n < 1_000_000 }; rescue Timeout::Error; 0; end
    end
    class OwnFiber < Fiber; end
    $both = Both.new
    $ended = 0
    $astray = []
    $thread = Thread.new do
      until $done
        begin
          2.times { $both.work(1) }
          sleep 0.001
          Timeout.timeout(0.03) { $both.work(1) while true } rescue $!.is_a?(Timeout::Error) ? $ended += 1 : $astray << $!
          # In another fiber than the Timeout.
          calls = Enumerator.new { |all| all << $both.work(1) while true }
          Timeout.timeout(0.03) { calls.next while true } rescue $!.is_a?(Timeout::Error) ? $ended += 1 : $astray << $!
          calls = OwnFiber.new { loop { 100.times { $both.work(1) }; Fiber.yield } }
          Timeout.timeout(0.03) { calls.resume while true } rescue $!.is_a?(Timeout::Error) ? $ended += 1 : $astray << $!
        rescue Exception
          $astray << $!
        end
      end
    end
    nil
  RUBY

  test_each_engine "a Timeout within an expression does not reach the application, whose own do" do |engine|
    target = start("console")
    target.run(BOTH)
    tracer = trace(target, "--engine", engine, "Both#work(self.look)")
    before = Integer(target.run("$ended"))
    wait_until("six of them have ended", 60) { Integer(target.run("$ended")) > before + 6 }
    assert_exit 0, tracer.stop
    assert_equal "[]", target.run("$done = true; $thread.join; $astray")
  end

  RACTOR = <<~'RUBY'.freeze
    require "timeout"
    class Both
      def work(number); @number = number; end
      def look; n = 0; n += 1 while n < 10_000; end
    end
    def timeouts
      6.times.count do
        calls = Enumerator.new { |all| all << $both.work(1) while true }
        Timeout.timeout(0.03) { calls.next while true } rescue $!.is_a?(Timeout::Error)
      end
    end
    $both = Both.new
    Warning[:experimental] = false
    one = Ractor.new { }
    one.respond_to?(:take) ? one.take : one.join
    nil
  RUBY

  # ObjectSpace shows no fibers then.
  test "a Timeout ends its block in another fiber than the expression's, after there has been a Ractor" do
    skip "this Ruby has no Ractors" if Processes.target_ruby?("< 3.0")
    only_where_ractors_can_be_traced
    assert_traced("6", "timeouts", "Both#work(self.look)", before: RACTOR)
  end

  # What wakes a thread of the expression's before it sleeps.
  WAKING = <<~'RUBY'.freeze
    class Waker
      def initialize; @mutex = Mutex.new; @signal = ConditionVariable.new; end
      def work(number); @number = number; end
      def look
        @mutex.synchronize do
          Thread.new { @mutex.synchronize { @signal.signal } }
          from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          @signal.wait(@mutex, 3)
          $late += 1 if Process.clock_gettime(Process::CLOCK_MONOTONIC) - from > 2.5
        end
      end
    end
    $late = 0
    $waker = Waker.new
    nil
  RUBY

  test "an expression that waits is woken" do
    assert_traced("0", "100.times { $waker.work(1) if $late == 0 }; $late", "Waker#work(self.look)", before: WAKING)
  end

  THROWING = <<~'RUBY'.freeze
    class Thrower; def inspect; throw :halt; end; end
    class Catcher; def catch_it(thing); @thing = thing; end; end
    $catcher = Catcher.new
    nil
  RUBY

  test "what an expression throws does not reach a catch of the application" do
    assert_traced(":whole", "catch(:halt) { 5.times { $catcher.catch_it(Thrower.new) }; :whole }",
                  "--args", "--inspect", "Catcher#catch_it", "Catcher#catch_it(thing.inspect)", before: THROWING)
  end

  # It drains what is under way.
  DRAINING = <<~'RUBY'.freeze
    class Drain; def work(number); @number = number; end; def look; n = 0; n += 1 while n < 100_000; n; end; end
    $drain = Drain.new
    $drained = 0
    trap("TERM") { sleep 1.6; $drained += 1 }
    def drained
      Thread.new { sleep 0.1; Process.kill(:TERM, $$) }
      from = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      $drain.work(1) while $drained == 0 && Process.clock_gettime(Process::CLOCK_MONOTONIC) - from < 10
      $drained
    end
    nil
  RUBY

  test "the time limit of an expression does not cut short a trap that runs meanwhile" do
    assert_traced("1", "drained", "--timeout", "1", "Drain#work(self.look)", before: DRAINING)
  end

  # As most programs are stopped: by a trap that raises, or without one, as by Ctrl-C.
  STOPPED = <<~'RUBY'.freeze
    class Slow; def work(number); @number = number; end; def look; n = 0; n += 1 while n < 100_000; n; end; end
    $slow = Slow.new
    $late = 0
    trap("TERM") { exit }
    def until_stopped(signal)
      sender = Thread.new { sleep 0.1; Process.kill(signal, $$) }
      $slow.work(1) while sender.alive? || ($late += 1) < 1000
      false
    rescue SystemExit, Interrupt
      $!.class
    ensure
      sender.join
    end
    nil
  RUBY

  test_each_engine "a signal that ends the process does so while an expression runs" do |engine|
    assert_traced("[SystemExit, Interrupt, SystemExit, Interrupt]",
                  "%i[TERM INT TERM INT].map { |signal| until_stopped(signal) }",
                  "--engine", engine, "Slow#work(self.look)", before: STOPPED)
  end
end
