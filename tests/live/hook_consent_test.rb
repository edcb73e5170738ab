# Engine hook leaves the process slower: it is used only where the user has agreed to it.

require_relative "helper"
require_relative "terminal"

class HookConsentTest < LiveTest
  def terminal(*arguments)
    Terminal.new(arguments).tap { |terminal| @tracers << terminal }
  end

  # Integer#+ is an instruction of every Ruby's, which nothing but the hook sees.
  test "what needs the hook is refused with its name, the price and the remedies, and nothing is armed" do
    target = start("shop")
    result = assert_refused 1, /Integer#\+ \(.*\) needs engine hook, .* until it restarts; --yes .*, --no-hook/, "trace", "-p", target.pid.to_s,
                            "Integer#+", "Shop#price"
    refute_match(/armed/, result.stderr)
    assert_refused 1, /Integer#\+, Integer#-, Integer#\* and 1 more \(the first: .*\) needs/, "trace", "-p", target.pid.to_s, "Integer#+", "Integer#-",
                   "Integer#*", "Integer#%"
  end

  test "--firehose and --engine hook are refused, too" do
    target = start("shop")
    assert_refused 1, /--firehose needs engine hook, .*; --yes goes on all the same$/, "trace", "-p", target.pid.to_s, "-f"
    assert_refused 1, /--engine hook needs .*; --yes goes on all the same$/, "trace", "-p", target.pid.to_s, "--engine", "hook", "Shop#price"
  end

  test "exec refuses before it starts the command" do
    assert_refused 2, /--firehose makes .*; --yes goes/, "exec", "-f", "--", "false"
    assert_refused 2, /--engine hook makes .*; --yes goes/, "exec", "--engine", "hook", "Kernel#sleep", "--", "false"
  end

  test "a command whose trace is refused runs on without waiting" do
    result = rbprobe("exec", "Integer#+", "--", *Processes::RUBY, "-e", "puts 1")
    assert_exit 1, result
    assert_equal "1\n", result.stdout
    assert_match(/Integer#\+ .*needs engine hook/, result.stderr)
  end

  test "--yes uses it" do
    target = start("shop")
    tracer = launch("trace", "-v", "--yes", "-p", target.pid.to_s, "Integer#+").wait_until_armed
    target.run("a = 1; a + 2")
    assert_match(/^Integer#\+ <[\d.]+>$/, tracer.stop.stdout)
  end

  test "--no-hook leaves out what needs it" do
    target = start("shop")
    tracer = trace(target, "--no-hook", "Integer#+", "Shop#price")
    target.run("a = 1; a + 2; $shop.price(:tea)")
    result = tracer.stop
    assert_equal "Shop#price <time>\n", result.tree
    assert_match(/Integer#\+ left out: it needs engine hook/, result.stderr)
    assert_match(/1 method left out, which only engine hook could observe/, result.stderr)
  end

  test "a method that is defined later does not bring the hook in" do
    target = start("shop")
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "Late#name", "Shop#price").wait_until_armed
    target.run("class Late; attr_reader :name; end; Late.new.name; $shop.price(:tea)")
    result = tracer.stop
    assert_equal "Shop#price <time>\n", result.tree
    # 2.7 gives no events for attr_reader at all.
    assert_match(/Late#name (?:defined now, left out: it needs engine hook|cannot be traced)/, result.stderr)
  end

  test "options that contradict each other" do
    { ["-f"] => /leave out --no-hook/, ["--engine", "hook", "A#b"] => /contradict/, ["--yes", "A#b"] => /contradict/ }.each do |options, message|
      assert_refused 2, message, "trace", "-p", "1", "--no-hook", *options
    end
  end

  test "on a terminal it is asked for: no" do
    target = start("shop")
    terminal = terminal("trace", "-p", target.pid.to_s, "Integer#+")
    terminal.expect(/Integer#\+ .*needs engine hook.*Go on all the same\? \[y\/N\] /m)
    terminal.enter("")
    assert_equal 1, terminal.wait
  end

  test "on a terminal it is asked for: yes" do
    target = start("shop")
    terminal = terminal("trace", "-v", "-p", target.pid.to_s, "--count", "1", "Integer#+")
    terminal.expect(/Go on all the same\? \[y\/N\] /)
    terminal.enter("y")
    terminal.expect(/tracing 1 method/)
    target.run("a = 1; a + 2")
    terminal.expect(/Integer#\+ <[\d.]+>/)
    assert_equal 0, terminal.wait
  end
end
