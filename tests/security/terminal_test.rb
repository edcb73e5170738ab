# What code in a process prints cannot command the terminal of who asked; where there is no terminal it comes as it was printed.

require_relative "helper"
require_relative "../live/terminal"

class TerminalTest < SecurityTest
  ORDERS = '"\\e[2J\\e]0;title\\a" + "\\u009b31m" + "ä\\n"'.freeze

  { "eval" => ["eval", "$stdout.print(#{ORDERS}); $stderr.print(#{ORDERS}); nil"],
    "eval --raw" => ["eval", "--raw", ORDERS] }.each do |name, arguments|
    test "#{name} on a terminal shows orders as text" do
      target = start("shop", user: user)
      terminal = Processes::Terminal.new([*arguments, "-p", target.pid.to_s])
      @tracers << terminal
      wait_until("all is there") { terminal.raw.include?("31mä") && !terminal.running? }
      refute_match(/\e\[2J|\e\]0|\a|\u009b/, terminal.raw)
      assert_includes terminal.raw, '\x1b[2J\x1b]0;title\x07\xc2\x9b31mä'
    end
  end

  test "a pipe gets every byte" do
    target = start("shop", user: user)
    result = rbprobe("eval", "-p", target.pid.to_s, "--raw", ORDERS)
    assert_equal "\e[2J\e]0;title\a\u009b31mä\n", result.stdout
  end
end
