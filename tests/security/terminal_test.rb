# What code in a process prints cannot command the terminal of who asked; where there is no terminal it comes as it was printed.

require_relative "helper"
require_relative "../live/terminal"
require "json"

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

  test "JSON is the same for programs, and commands no terminal" do
    target = start("shop", user: user)
    text = "\e[2J \u009b31m \u202e \x7f \u{e0041}"
    result = rbprobe("eval", "-p", target.pid.to_s, "--format", "json", "#{text.dump}.then { |text| puts text; text.to_sym }")
    assert_equal "#{text}\n", JSON.parse(result.stdout)["stdout"]
    refute_match(/[\e\u007f\u009b\u202e\u{e0041}]/, result.stdout)
    target.run("Shop.define_method(#{text.dump}) { |a| a }; " \
               "Thread.new { loop { Shop.new.public_send(#{text.dump}, #{text.dump}); sleep 0.01 } }; 0")
    result = rbprobe("trace", "-p", target.pid.to_s, "--format", "json", "--args", "--count", "1", "Shop#*31m*")
    assert_equal text, JSON.parse(result.stdout.lines.first)["name"]
    refute_match(/[\e\u007f\u009b\u202e\u{e0041}]/, result.stdout)
  end

  test "a pipe gets every byte" do
    target = start("shop", user: user)
    result = rbprobe("eval", "-p", target.pid.to_s, "--raw", ORDERS)
    assert_equal "\e[2J\e]0;title\a\u009b31mä\n", result.stdout
  end
end
