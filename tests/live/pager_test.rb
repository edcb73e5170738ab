# What a terminal gets of long text: a pager, no line that is too wide, and colours.

require_relative "helper"
require_relative "terminal"

class PagerTest < LiveTest
  def on_terminal(*arguments, **options)
    Terminal.new(arguments, **options).tap { |terminal| @tracers << terminal }
  end

  # A pager that keeps what it was given. Yields its variables; returns what it was given, or nil.
  def paged
    file = "#{directory}/paged"
    yield({ "RBPROBE_PAGER" => "cat >#{file}", "PAGER" => "false", "LESS" => nil })
    File.exist?(file) ? File.read(file) : nil
  end

  test "long help and long reports go through the pager, with colours; short ones do not" do
    target = start("threads")
    target.run("waiting_threads")
    help = paged { |env| assert_equal 0, on_terminal("trace", "--help", env: env).wait }
    assert_match(/\AUsage: rbprobe trace /, help)
    assert_equal rbprobe("trace", "--help").stdout, help
    report = paged { |env| assert_equal 0, on_terminal("bt", target.pid.to_s, env: env).wait }
    assert_match(/^\e\[1;35mthread (?:\d+ )?"popper"\e\[0m, sleeping/, report)
    assert_match(/^\e\[2m   .*:\d+\e\[0m in \e\[1;36m.*#nap\e\[0m$/, report)
    assert_nil(paged { |env| assert_equal 0, on_terminal("bt", target.pid.to_s, env: env, rows: 500).wait })
    assert_nil(paged { |env| on_terminal("fork", "--usage", env: env).wait })
  end

  test "no pager: --no-pager, an empty one, cat, a dumb terminal, a pipe, what comes again and again" do
    target = start("shop")
    help = ["trace", "--help"]
    [[["--no-pager", *help], {}], [["trace", "--no-pager", "--help"], {}], [help, { "RBPROBE_PAGER" => "" }],
     [help, { "RBPROBE_PAGER" => " " }],
     [help, { "RBPROBE_PAGER" => "cat" }], [help, { "TERM" => "dumb" }],
     [["bt", target.pid.to_s, "--every", "0.1", "--count", "2"], {}]].each do |arguments, more|
      shown = nil
      assert_nil(paged do |env|
        terminal = on_terminal(*arguments, env: env.merge(more), rows: 3)
        assert_equal 0, terminal.wait
        shown = terminal.text
      end)
      assert_operator shown.lines.size, :>, 3, arguments.inspect
    end
    assert_nil(paged { |env| assert_exit 0, rbprobe(*help, env: env) })
  end

  test "PAGER is asked where RBPROBE_PAGER is not set, and less gets FRX" do
    file = "#{directory}/less"
    terminal = on_terminal("trace", "--help", env: { "PAGER" => "echo $LESS >#{file}; cat >/dev/null", "LESS" => nil })
    assert_equal 0, terminal.wait
    assert_equal "FRX\n", File.read(file)
  end

  test "a pager that is left early is no error, and the exit status is rbprobe's own" do
    target = start("shop")
    env = { "RBPROBE_PAGER" => "head -1; exit 7" }
    terminal = on_terminal("methods", "-p", target.pid.to_s, "Kernel#", env: env)
    assert_equal 0, terminal.wait
    assert_equal 1, terminal.text.lines.size
    gone = spawn("true").tap { |pid| Process.wait(pid) }
    env = { "RBPROBE_PAGER" => "cat >&2" }
    terminal = on_terminal("methods", "-p", "#{target.pid},#{gone}", "Array#", env: env)
    assert_equal 3, terminal.wait
    assert_match(/^.*: Array#push /, terminal.text)
  end

  test "Ctrl-C is the pager's" do
    skip "needs less" unless system("command -v less >/dev/null")
    terminal = on_terminal("trace", "--help", env: { "PAGER" => "less", "LESS" => nil })
    terminal.expect(/^Follow method calls/)
    terminal.type("\u0003")
    terminal.expect(/^Follow method calls/) # once more
    terminal.type("G")
    terminal.expect(/Exit status: 0 done/)
    terminal.type("q")
    assert_equal 0, terminal.wait
  end

  test "a pager that is not there: the text comes without, and the reason" do
    # A directory is there, and does not run.
    ["no-such-pager", "/tmp"].each do |pager|
      terminal = on_terminal("trace", "--help", env: { "RBPROBE_PAGER" => pager })
      assert_equal 0, terminal.wait
      assert_match(/there is no pager "#{pager}"; set RBPROBE_PAGER, or use --no-pager/, terminal.text)
      assert_match(/^Usage: rbprobe trace/, terminal.text)
    end
  end

  test "nothing is wider than a terminal of 80 columns" do
    only_without_yjit
    target = start("threads")
    target.run("waiting_threads; Thread.new { Thread.current.name = 'a name ' * 20; sleep }; nil")
    pid = target.pid.to_s
    [[], ["ps"], ["bt", pid], ["bt", "--group", pid], ["methods", "-p", pid, "Struct#", "Proc#"], ["memory", pid], ["tracers"],
     ["tracers", "-p", pid], ["selftest", "-p", pid], ["heap", "--help"],
     ["stat", "-q", "-p", pid, "Thread#", "--duration", "0.1"]].each do |arguments|
      terminal = on_terminal("--no-pager", *arguments)
      terminal.wait
      assert_empty terminal.text.lines(chomp: true).select { |line| line.size > 80 }, arguments.inspect
    end
    rbprobe.stdout.scan(/^  (\w[\w-]*)/).flatten.each do |subcommand|
      help = on_terminal("--no-pager", subcommand, "--help")
      assert_equal 0, help.wait
      assert_empty help.text.lines(chomp: true).select { |line| line.size > 80 }, subcommand
    end
  end

  test "--color of bt, and NO_COLOR" do
    pid = start("shop").pid.to_s
    assert_includes rbprobe("bt", "--color", "always", pid).stdout, "\e["
    refute_includes rbprobe("bt", pid).stdout, "\e["
    refute_includes rbprobe("bt", "--color", "always", "--format", "json", pid).stdout, "\e["
    terminal = on_terminal("--no-pager", "bt", pid, env: { "NO_COLOR" => "1" })
    assert_equal 0, terminal.wait
    refute_includes terminal.raw, "\e["
  end

  test "no line of a trace, and no message, is wider than the terminal, also when that has become narrower" do
    target = start("shop")
    terminal = on_terminal("trace", "-v", "-p", target.pid.to_s, "--args", "Shop#price", "Shop#no_such_method_that_anybody_has")
    terminal.expect(/no method matches Shop#no_such_method_that_anybody_has yet \(waiting for it\)$.*tracing 1 method/m)
    target.run("$shop.price('word ' * 40); nil")
    wide = terminal.expect(/<\d\.\d{6}>\n/)
    assert_equal ["Shop#price", "      ", "      "], wide.lines.grep(/word/).map { |line| line[/\A(?: +|[^(]+)/] }
    terminal.resize(24, 40)
    target.run("$shop.price('word ' * 40); nil")
    narrow = terminal.expect(/<\d\.\d{6}>\n/)
    terminal.type("\u0003")
    assert_equal 0, terminal.wait
    shown = terminal.lines_as_shown
    assert_match(/Shop#no_such_method_that_anybody_has(?: yet)?\n   \S/, shown)
    assert_operator shown.lines.map { |line| line.chomp.size }.max, :<=, 80
    assert_operator narrow.lines.map { |line| line.chomp.size }.max, :<=, 40
    assert_equal 2, (wide + narrow).gsub(/\n +/, " ").scan(/^Shop#price\(item="#{"word " * 40}"\) <[\d.]+>$/).size
  end
end
