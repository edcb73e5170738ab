# rbprobe ps: which Ruby processes there are, and which can be attached to.

require_relative "helper"

class PsTest < LiveTest
  def line_of(target)
    result = rbprobe("ps")
    assert_exit 0, result
    result.stdout.lines.find { |line| line.split.first == target.pid.to_s }
  end

  test "a process that has loaded the extension is listed with its version and command" do
    target = start("shop")
    line = line_of(target)
    refute_nil line
    assert_includes line, "shop.rb"
    assert_includes line, Processes::RUBY_VERSION_OF_TARGET[/\A\d+\.\d+/]
    assert_match(/\byes\b/, line)
  end

  test "one that has not, and could, is listed as such" do
    other = start("shop", load: false)
    assert_match(/\bloadable\b/, line_of(other))
  end

  test "what is not Ruby is not listed" do
    pid = spawn("sleep", "60")
    refute_match(/^\s*#{pid}\b/, rbprobe("ps").stdout)
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  test "a command line cannot command the terminal" do
    target = start("console", "\e[31mred\nline")
    line = line_of(target)
    refute_includes rbprobe("ps").stdout, "\e"
    assert_includes line, "red"
  end
end
