# Timeout, Thread#raise and Thread#kill that hit a thread while rbprobe works in it: they end what they were meant for.

require_relative "helper"

class InterruptedTest < LiveTest
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

  test "a kill is not lost, whatever rbprobe asks Ruby for meanwhile" do
    target = start("console")
    tracer = trace(target, "-f", "--engine", "hook", "--args", "--return")
    assert_equal "0", target.run(SURVIVORS)
    assert_exit 0, tracer.stop
  end

  TIMEOUTS = <<~'RUBY'.freeze
    require "timeout"
    ended = 8.times.count { Timeout.timeout(0.02) { loop { "x".upcase } } rescue $!.is_a?(Timeout::Error) }
    killed = 4.times.count { thread = Thread.new { loop { "x".upcase } }; sleep 0.005; thread.kill; thread.join(5) }
    [ended, killed, $!]
  RUBY

  %w[patch hook].each do |engine|
    test "a timeout or kill that comes while an expression runs ends the method, engine #{engine}" do
      target = start("console")
      tracer = trace(target, "--engine", engine, "--return", "--inspect", "String#upcase((n = 0; n += 1 while n < 100_000; n))")
      assert_equal "[8, 4, nil]", target.run(TIMEOUTS)
      assert_exit 0, tracer.stop
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
    target = start("console")
    tracer = trace(target, "--engine", "hook", "--inspect", "--args", "map", "each_slice", "sort_by", "gsub", "inject",
                   "times", "sum")
    assert_equal "1040", target.run(BLOCKS)
    assert_exit 0, tracer.stop
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
      target = start("console")
      tracer = trace(target, "--engine", engine, "--args", "--return", "--inspect", "Array#map", "String#upcase(self + 'x')")
      assert_equal "false", target.run(TWO_AT_ONCE)
      assert_exit 0, tracer.stop
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

  %w[target hook].each do |engine|
    test "a thread that an expression has made can be killed, engine #{engine}" do
      target = start("console")
      target.run(MAKER)
      tracer = trace(target, "--engine", engine, "Maker#hit(self.look)")
      assert_equal "[false, false]", target.run(MADE)
      assert_exit 0, tracer.stop
    end
  end

  test "an overflow of the stack in the midst of rbprobe's work is no interrupt" do
    target = start("console")
    tracer = trace(target, "--engine", "hook", "--args", "--return", "--inspect", "Deep#", "each")
    assert_equal "24", target.run(DEEP)
    assert_exit 0, tracer.stop
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
end
