# rbprobe replay with conditions: what a trace with these conditions would have shown, from a recording without.

require_relative "helper"
require_relative "recorded"

class ReplayFilterTest < LiveTest
  include Recorded

  # A condition, and the selectors that a trace has with it.
  CONDITIONS = {
    ["Shop#price"] => ["Shop#price"],
    ["Shop#s*", "Shop.new"] => ["Shop#s*"],
    ["price"] => ["Shop#price"],
    ["--depth", "1"] => ["--depth", "1", "Shop#"],
    ["--depth", "2", "Shop#sell*"] => ["--depth", "2", "Shop#sell*"],
    ["--within", "Shop#sell_all"] => ["--within", "Shop#sell_all", "Shop#"],
    ["--within", "Shop#sell", "Shop#price"] => ["--within", "Shop#sell", "Shop#price"],
    ["--outside", "Shop#sell_all"] => ["--outside", "Shop#sell_all", "Shop#"],
    ["--raised"] => ["--raised", "Shop#"],
    ["--raised=Shop::*"] => ["--raised=Shop::*", "Shop#"],
    ["--raised=Other"] => ["--raised=Other", "Shop#"],
  }.freeze

  test "each condition means what it means in a trace" do
    code = "$shop.sell_all([:tea, :cup]); $shop.try(:cup)"
    target = start("shop")
    record(target, code, "--args", "--return", "Shop#")
    CONDITIONS.each do |condition, arguments|
      assert_equal traced(target, code, "--args", "--return", *arguments).tree, replay(*condition).tree, condition.inspect
    end
  end

  test "calls that do not meet the conditions are counted" do
    record(start("shop"), "$shop.sell(:tea)", "Shop#")
    result = replay("--raised")
    assert_equal "", result.stdout
    assert_match(/^rbprobe: 0 calls, 0 lost, 2 others do not meet the conditions, .* ended: interrupted\n\z/, result.stderr)
    assert_match(/^rbprobe: 1 call, 0 lost, \d+\.\d s; ended: interrupted\n\z/, replay("Shop#price").stderr)
    assert_equal 1, replay("--format", "json", "Shop#price").events("call").size
  end

  test "a selector of which nothing was recorded is named" do
    record(start("shop"), "$shop.sell(:tea)", "Shop#")
    unknown = lambda do |name|
      "rbprobe: #{file_of}: nothing that was recorded is #{name}; `rbprobe report` lists the methods by their names\n"
    end
    result = replay("Shop#price", "Shop#prise", "--within", "Shop#sel")
    assert_equal "", result.stdout
    assert_equal unknown["Shop#sel"] + unknown["Shop#prise"], result.stderr.lines.grep(/nothing/).join
    refute_includes replay("Shop#price", "--within", "Shop#sell", "--raised").stderr, "nothing"
    report = rbprobe("report", file_of, "-m", "Shop#prise", "-m", "Shop#price")
    assert_equal unknown["Shop#prise"], report.stderr.lines.grep(/nothing/).join
    assert_equal "", rbprobe("replay", "-q", file_of, "Shop#prise").stderr
  end

  test "slow calls, with the values of their beginning" do
    target = start("shop")
    target.run("class Shop; def wait(what, seconds); sleep(seconds); what; end; end; nil")
    record(target, "$shop.wait(:long, 0.05); $shop.wait(:short, 0)", "--args", "--return", "Shop#wait")
    assert_match(/\AShop#wait\([^)]*what=:long[^)]*\) => :long <0\.\d+>\n\z/, replay("--slow", "50").stdout)
  end

  test "threads by name or id" do
    target = start("shop")
    record(target, "Thread.new { Thread.current.name = 'worker 1'; $shop.price(:tea) }.join; $shop.price(:cup)",
           "Shop#price(item)")
    assert_equal [":tea"], items(replay("--thread", "worker*"))
    assert_equal [], items(replay("--thread", "other"))
    assert_equal [":cup"], items(replay("--thread", "main"))
    id = replay("--format", "json").events("call").find { |call| call["thread_name"] == "worker 1" }["thread"]
    assert_equal [":tea"], items(replay("--thread", id.to_s))
  end

  test "a range of time" do
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "-o", file_of, "Shop#price(item)").wait_until_armed
    target.run("$shop.price(:tea); nil")
    wait_until("the clock has gone on") { (@middle ||= Time.now) + 0.01 < Time.now }
    target.run("$shop.price(:cup); nil")
    assert_exit 0, client.stop
    middle = @middle.strftime("%Y-%m-%d %H:%M:%S.%6N")
    assert_equal [":tea"], items(replay("--to", middle))
    assert_equal [":cup"], items(replay("--from", middle))
    assert_equal [":tea", ":cup"], items(replay("--from", "+0", "--to", "+86400"))
    assert_equal [], items(replay("--from", "+86400"))
  end

  def items(result)
    result.stdout.scan(/item=(:\w+)/).flatten
  end

  test "wrong usage" do
    record(start("shop"), "1", "Shop#")
    assert_refused 2, /selectors without expressions/, "replay", file_of, "Shop#price(item)"
    assert_refused 2, /--depth does not go with --slow/, "replay", file_of, "--slow", "1", "--depth", "1"
    assert_refused 2, /--from takes a time, such as .*, not "noon"/, "replay", file_of, "--from", "noon"
    assert_refused 2, /--from is after --to: no call begins between them/, "replay", file_of, "--from", "+2", "--to", "+1"
    assert_refused 2, /--from is after --to:/, "report", file_of, "--from", "2026-11-24 14:05", "--to", "2026-11-24 14:04"
    assert_refused 2, /--from is after --until:/, "export", file_of, "--to", "svg", "--from", "+2", "--until", "+1"
  end
end
