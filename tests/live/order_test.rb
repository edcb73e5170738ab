# --order: whether the lines of threads are shown as they come, or each outermost call in one piece.

require_relative "helper"
require_relative "interleaved"
require_relative "terminal"

class OrderTest < LiveTest
  include Interleaved

  def tree_of(*options)
    target = start("shop")
    tracer = trace(target, *options, "Shop#each_item", "Shop#price")
    target.run(INTERLEAVED)
    tracer.stop.tree
  end

  test "in a pipe lines come in order of time; with --order thread each outermost call is in one piece" do
    tree = tree_of
    refute_equal ONE_PIECE * 2, without_headers(tree)
    assert_equal (ONE_PIECE * 2).lines.sort, without_headers(tree).lines.sort
    assert_equal ONE_PIECE * 2, without_headers(tree_of("--order", "thread"))
  end

  def shown_on_a_terminal(*options)
    target = start("shop")
    terminal = Terminal.new(["trace", "-v", "-p", target.pid.to_s, *options, "Shop#each_item", "Shop#price"], columns: 200)
    @tracers << terminal
    terminal.expect(/tracing 2 methods/)
    target.run(INTERLEAVED)
    2.times { terminal.expect(/Shop#each_item </) }
    terminal.type("\u0003")
    assert_equal 0, terminal.wait
    without_headers(terminal.text.lines.grep(/^ *Shop#\S+(?: <[\d.]+>)?$/).join.gsub(/<[\d.]+>/, "<time>"))
  end

  test "on a terminal each outermost call is in one piece; with --order time lines come in order of time" do
    assert_equal ONE_PIECE * 2, shown_on_a_terminal
    refute_equal ONE_PIECE * 2, shown_on_a_terminal("--order", "time")
  end

  test "a call that goes on for ever holds nobody up, and what is open at the end is shown" do
    target = start("shop")
    tracer = trace(target, "--order", "thread", "Shop#")
    target.run("$waiting = Thread.new { $shop.wait }; Thread.pass until $waiting.stop?; nil")
    tracer.wait_for(/^Shop#wait$/)
    target.run("$shop.price(:tea)")
    tracer.wait_for(/^Shop#price <[\d.]+>$/)
    target.run("$waiting.kill.join; nil")
    tracer.wait_for(/^\[thread \d+, continued\]\nShop#wait ~ killed <[\d.]+>$/)
    target.run("$waiting = Thread.new { $shop.each_item { $shop.wait } }; Thread.pass until $waiting.stop?; nil")
    result = tracer.stop
    assert_match(/^Shop#each_item\n   Shop#wait\n\z/, result.tree)
    target.run("$waiting.kill.join; nil")
  end

  test "the thread of the first lines is named, unless it is the main one" do
    target = start("shop")
    %w[thread time auto].each do |order|
      tracer = trace(target, "--order", order, "Shop#price")
      target.run("Thread.new { Thread.current.name = 'clerk'; $shop.price(:tea) }.join; nil")
      assert_match(/\A\[thread \d+ "clerk"\]\nShop#price <[\d.]+>\n\z/, tracer.stop.stdout)
      tracer = trace(target, "--order", order, "Shop#price")
      target.run("$shop.price(:tea)")
      assert_match(/\AShop#price <[\d.]+>\n\z/, tracer.stop.stdout)
    end
  end

  test "where another thread follows the main one, all after it are named" do
    target = start("shop")
    tracer = trace(target, "Shop#price")
    target.run("$shop.price(:tea); Thread.new { Thread.current.name = 'clerk'; $shop.price(:tea) }.join; $shop.price(:cup)")
    assert_equal <<~TREE, tracer.stop.stdout.gsub(/<[\d.]+>/, "<time>").sub(/thread \d+ "/, 'thread T "')
      Shop#price <time>
      [thread T "clerk"]
      Shop#price <time>
      [thread #{target.pid}]
      Shop#price <time>
    TREE
  end

  test "wrong usage" do
    assert_refused 2, /--order takes auto, thread or time, not "call"/, "trace", "-p", "1", "--order", "call", "Shop#"
    assert_refused 2, /--order thread goes with --format text/, "trace", "-p", "1", "--order", "thread", "--format", "json",
                   "Shop#"
  end
end
