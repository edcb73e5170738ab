# What replay shows in each format and order is what a trace in that format and order showed of the same calls.

require_relative "helper"
require_relative "interleaved"
require_relative "recorded"

class ReplayFormatsTest < LiveTest
  include Recorded
  include Interleaved

  CALLS = "$shop.sell_all([:tea, :cup]); $shop.try(:cup); $shop.let_through(:pot) rescue nil; nil".freeze
  VALUES = ["--args", "--return", "--raise", "Shop#"].freeze

  test "--format rbtrace, with and without times and values" do
    target = start("shop")
    record(target, CALLS, *VALUES)
    [[], ["-n"], ["-r", "1"]].each do |style|
      shown = replay("--format", "rbtrace", *style)
      assert_equal traced(target, CALLS, "--format", "rbtrace", *style, *VALUES).tree, shown.tree, style.inspect
      assert_match(/^Shop#sell_all\(items=\[:tea, :cup\]\)$/, shown.stdout)
      assert_equal "*** detached from process #{target.pid}\n", shown.stderr.lines.last
    end
    assert_match(/\A\d\d:\d\d:\d\d\.\d{6} Shop#sell_all/, replay("--format", "rbtrace", "-t").stdout)
    assert_equal 2, replay("--format", "rbtrace", "--within", "Shop#sell", "Shop#price").stdout.scan(/^ *Shop#price/).size
  end

  test "--order: lines as they came, or each outermost call in one piece" do
    record(start("shop"), INTERLEAVED, "Shop#each_item", "Shop#price")
    by_time = replay("--order", "time").tree
    refute_equal ONE_PIECE * 2, without_headers(by_time)
    assert_equal (ONE_PIECE * 2).lines.sort, without_headers(by_time).lines.sort
    assert_equal by_time, replay.tree
    by_thread = replay("--order", "thread").tree
    assert_equal ONE_PIECE * 2, without_headers(by_thread)
    assert_equal 2, by_thread.scan(/^\[thread T/).size
    assert_refused 2, /--order takes auto, thread or time, not "name"/, "replay", file_of, "--order", "name"
  end

  test "--order thread: a call that never ends is shown in the end, in one piece" do
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "-o", file_of, "Shop#wait", "Shop#price").wait_until_armed
    target.run("$waiting = Thread.new { $shop.price(:a); $shop.wait }; Thread.pass until $waiting.stop?; $shop.price(:tea); nil")
    assert_exit 0, client.stop
    assert_equal "Shop#price <time>\nShop#wait\nShop#price <time>\n".lines.sort,
                 without_headers(replay("--order", "thread").tree).lines.sort
    target.run("$waiting.kill.join; nil")
  end
end
