# Engine hook leaves the process slower: it is used only where the user has agreed to it.

require_relative "helper"
require_relative "terminal"

class HookConsentTest < LiveTest
  # 2.7 and 3.0 give no events for Integer#+ and its like: there nothing observes them, and there is nothing to consent to.
  NO_EVENTS = Processes::RUBY_VERSION_OF_TARGET.start_with?("2.", "3.0")

  def terminal(*arguments)
    Terminal.new(arguments).tap { |terminal| @tracers << terminal }
  end

  # Integer#+ is an instruction of every Ruby's, which nothing but the hook sees.
  test "what needs the hook is refused with its name, the price and the remedies, and nothing is armed" do
    skip "2.7 gives no events for instructions" if NO_EVENTS
    target = start("shop")
    result = assert_refused 1, /Integer#\+ \(.*\) needs engine hook, .* until it restarts; --yes .*, --no-hook/, "trace",
                            "-p", target.pid.to_s, "Integer#+", "Shop#price"
    refute_match(/armed/, result.stderr)
    assert_refused 1, /Integer#\+, Integer#-, Integer#\* and 1 more \(the first: .*\) needs/, "trace",
                   "-p", target.pid.to_s, "Integer#+", "Integer#-", "Integer#*", "Integer#%"
  end

  test "--engine hook is refused, too, alone and with --firehose" do
    target = start("shop")
    assert_refused 1, /--firehose needs engine hook, .*; --yes goes on all the same$/, "trace", "-p", target.pid.to_s,
                   "-f", "--engine", "hook"
    assert_refused 1, /Shop#price needs .*; --yes goes on all the same$/, "trace", "-p", target.pid.to_s,
                   "--engine", "hook", "Shop#price"
  end

  test "exec refuses before it starts the command" do
    assert_refused 2, /--firehose --engine hook makes .*; --yes goes/, "exec", "-f", "--engine", "hook", "--", "false"
  end

  test "a command whose trace is refused runs on without waiting" do
    skip "2.7 gives no events for instructions" if NO_EVENTS
    result = rbprobe("exec", "Integer#+", "--", *Processes::RUBY, "-e", "puts 1", env: Processes::TARGET_ENV)
    assert_exit 1, result
    assert_equal "1\n", result.stdout
    assert_match(/Integer#\+ .*needs engine hook/, result.stderr)
  end

  test "--yes uses it" do
    skip "2.7 gives no events for instructions" if NO_EVENTS
    target = start("shop")
    tracer = launch("trace", "-v", "--yes", "-p", target.pid.to_s, "Integer#+").wait_until_armed
    target.run("a = 1; a + 2")
    assert_match(/^Integer#\+ <[\d.]+>$/, tracer.stop.stdout)
  end

  test "--no-hook leaves out what needs it" do
    skip "2.7 gives no events for instructions" if NO_EVENTS
    target = start("shop")
    tracer = trace(target, "--no-hook", "Integer#+", "Shop#price")
    target.run("a = 1; a + 2; $shop.price(:tea)")
    result = tracer.stop
    assert_equal "Shop#price <time>\n", result.tree
    assert_match(/Integer#\+ left out: only engine hook can observe it \(--no-hook\)/, result.stderr)
    assert_match(/1 method left out that only engine hook can observe \(--no-hook\): Integer#\+$/, result.stderr)
  end

  PRICE = "slow every C call in the process by about 60 ns until this trace ends".freeze

  test "a selector for many methods leaves attributes out, and says so; --attributes or their names bring them" do
    skip "2.7 gives no events for attributes" if NO_EVENTS
    target = start("console")
    target.run("class Tagged; attr_accessor :tag, :label; def use; self.tag = 1; tag; end; end; nil")
    [["Tagged#"], ["Tagged#*"]].each do |selectors|
      tracer = trace(target, *selectors)
      target.run("Tagged.new.use")
      result = tracer.stop
      assert_equal "Tagged#use <time>\n", result.tree
      assert_match(
        /4 attributes left out: Tagged#\S+, Tagged#\S+, Tagged#\S+ and 1 more \(-v names them\); name them or give --attributes/,
        result.stderr
      )
      refute_match(/slows? every C call/, result.stderr)
    end
    [["Tagged#", "--attributes"], ["Tagged#use", "Tagged#tag", "Tagged#tag="]].each do |arguments|
      tracer = trace(target, *arguments)
      target.run("Tagged.new.use")
      result = tracer.stop
      assert_equal "Tagged#use\n   Tagged#tag= <time>\n   Tagged#tag <time>\nTagged#use <time>\n", result.tree
      assert_match(/: \d attribute methods \(Tagged#\w+=?, \.\.\.\) #{PRICE}; --no-hook leaves them out$/, result.stderr)
      refute_match(/left out/, result.stderr)
    end
    result = trace(target, "--no-hook", "Tagged#tag", "Tagged#use").stop
    assert_match(/1 method left out that only engine hook can observe \(--no-hook\): Tagged#tag$/, result.stderr)
    refute_match(/slows? every C call/, result.stderr)
  end

  test "it leaves them out also where Coverage of methods makes the light hook impossible" do
    skip "2.7 gives no events for attributes" if NO_EVENTS
    target = start("console")
    target.run("require 'coverage'; Coverage.start(methods: true); nil")
    target.run("class Tagged; attr_accessor :tag; def use; self.tag = 1; tag; end; end; nil")
    tracer = trace(target, "Tagged#")
    target.run("Tagged.new.use")
    result = tracer.stop
    assert_equal "Tagged#use <time>\n", result.tree
    assert_match(/: 2 attributes left out: Tagged#/, result.stderr)
    assert_refused 1, /Tagged#tag .*hooks of the application's own are on .*Coverage.* needs engine hook/, "trace",
                   "-p", target.pid.to_s, "Tagged#tag"
  end

  test "a selector for many methods: what only the hook can observe is left out, and what nothing can is counted" do
    target = start("console")
    target.run("module Aliased; alias_method :kept, :puts; def use; end; end; " \
               "class Members < Struct.new(:a, :b, :c, :d); end; nil")
    result = trace(target, "Aliased#", "--firehose").stop
    refute_match(/slows? every C call/, result.stderr)
    assert_match(/\d+ methods? left out that only engine hook can observe: [^;]*; name them to trace them, which/, result.stderr)
    assert_operator result.stderr.lines.grep(/cannot be traced/).size, :<=, 1
    result = trace(target, "-v", "--engine", "target", "Array#").stop
    names = /Array#\S+, Array#\S+, Array#\S+ and \d+ more/
    assert_match(/^rbprobe: process \d+: \d+ methods cannot be traced: #{names} \(-v names them\); -v says why$/,
                 result.stderr)
    assert_match(/Array#push left out: no engine can observe it; not written in Ruby/, result.stderr)
  end

  test "a method that is defined later does not bring the hook in" do
    target = start("shop")
    tracer = launch("trace", "-v", "--engine", "hook", "-p", target.pid.to_s, "Late#name").wait_until_armed
    target.run("class Late; def name; end; end; Late.new.name")
    result = tracer.stop
    assert_equal "", result.tree
    assert_match(/Late#name defined now, left out: that would leave the process slower/, result.stderr)
  end

  # Of calls of Integer#+ in code that was there before.
  COUNT = <<~RUBY.freeze
    $add = ->(number) { number + 1 }
    def additions
      seen = 0
      plus = TracePoint.new(:c_call) { |event| seen += 1 if event.method_id == :+ && event.defined_class == Integer }
      plus.enable { 3.times { $add.call(1) } }
      seen
    end
  RUBY

  test "what the VM has no instruction for is traced without consent" do
    skip "2.7 gives no events for instructions" if NO_EVENTS
    target = start("shop")
    target.run(COUNT)
    tracer = launch("trace", "-v", "--engine", "hook", "-p", target.pid.to_s, "String#upcase", "String#tr").wait_until_armed
    target.run("'a'.upcase; 'a'.tr('a', 'b')")
    result = tracer.stop
    assert_equal "String#upcase <time>\nString#tr <time>\n", result.tree
    assert_match(/: 2 methods \(String#\w+, \.\.\.\) that only engine hook can observe #{PRICE}$/, result.stderr)
    # The application's own TracePoints miss nothing afterwards, ...
    assert_equal "3", target.run("additions")
    # ... nor meanwhile.
    tracer = launch("trace", "-v", "--engine", "hook", "-p", target.pid.to_s, "String#upcase").wait_until_armed
    assert_equal "3", target.run("additions")
    tracer.stop
  end

  test "what the VM has no instruction for goes on with the whole hook when that is needed, too" do
    skip "2.7 gives no events for instructions" if NO_EVENTS
    target = start("shop")
    tracer = trace(target, "--engine", "hook", "String#upcase", "Integer#+")
    target.run("a = 1; a + 2; 'a'.upcase")
    assert_equal "Integer#+ <time>\nString#upcase <time>\n", tracer.stop.tree
  end

  test "options that contradict each other" do
    { ["-f", "--engine", "hook"] => /contradict/, ["--yes", "A#b"] => /contradict/ }.each do |options, message|
      assert_refused 2, message, "trace", "-p", "1", "--no-hook", *options
    end
  end

  test "on a terminal it is asked for: no" do
    skip "2.7 gives no events for instructions" if NO_EVENTS
    target = start("shop")
    terminal = terminal("trace", "-p", target.pid.to_s, "Integer#+")
    terminal.expect(/Integer#\+ .*needs engine hook.*Trace these too\? \[y\]es \/ \[s\]kip them \/ \[N\]o, stop: /m)
    terminal.enter("")
    assert_equal 1, terminal.wait
  end

  test "on a terminal it is asked for: yes" do
    skip "2.7 gives no events for instructions" if NO_EVENTS
    target = start("shop")
    terminal = terminal("trace", "-v", "-p", target.pid.to_s, "--count", "1", "Integer#+")
    terminal.expect(/Trace these too\?/)
    terminal.enter("y")
    terminal.expect(/tracing 1 method/)
    target.run("a = 1; a + 2")
    terminal.expect(/Integer#\+ <[\d.]+>/)
    assert_equal 0, terminal.wait
  end

  test "on a terminal it is asked for: skip" do
    skip "2.7 gives no events for instructions" if NO_EVENTS
    target = start("shop")
    [%w[trace -v --count 1], %w[stat -v --duration 1]].each do |command|
      terminal = terminal(*command, "-p", target.pid.to_s, "Integer#+", "Shop#price")
      terminal.expect(/Trace these too\?/)
      terminal.enter("s")
      terminal.expect(/1 method left out that only engine hook can observe \(--no-hook\): Integer#\+/)
      terminal.expect(/tracing 1 method/)
      target.run("1 + 2; $shop.price(:tea)")
      terminal.expect(/Shop#price/)
      assert_equal 0, terminal.wait
    end
  end

  test "where only the hook is wanted there is nothing to skip to" do
    terminal = terminal("trace", "-p", start("shop").pid.to_s, "--engine", "hook", "Shop#price")
    terminal.expect(/Trace these too\? \[y\]es \/ \[N\]o, stop: /)
    terminal.enter("s")
    assert_equal 1, terminal.wait
  end
end
