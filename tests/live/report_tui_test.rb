# rbprobe report --tui, on a terminal that shows what it draws.

require_relative "helper"
require_relative "screen"
require_relative "terminal"

class ReportTuiTest < LiveTest
  include OnScreen

  def recording
    @recording ||= "#{directory}/rec".tap do |file|
      target = start("shop")
      client = launch("record", "-v", "--yes", "-p", target.pid.to_s, "-o", file, "Shop#").wait_until_armed
      target.run("$shop.sell_all([:tea, :cup]); $shop.try(:cup); 3.times { $shop.price(:tea) }")
      assert_exit 0, client.stop
    end
  end

  def browse(*arguments, **options)
    draw("report", "-q", *arguments, **options)
  end

  # Of each row: its depth, mark and method.
  def rows
    screen.scan(/^ *[\d.]+ \ws? +[\d.]+  +[\d.]+ \ws? +\d+ +\d+  (.*)$/).flatten
  end

  test "a tree that is unfolded and folded, and says what is in it" do
    browse("--tui", recording)
    await(/^.*rec: 10 calls, by total$/)
    await(/^ +total +% +self +calls +errors +method$/)
    type("c")
    wait_until(-> { screen }) { rows.none? { |row| row.start_with?("-") } }
    assert_equal ["+ Shop#sell_all", "+ Shop#try", "  Shop#price"].sort, rows.sort
    type("g/sell_all\r")
    await(/\+ Shop#sell_all/)
    type("\r")
    await(/^.*- Shop#sell_all\n.*  \+ Shop#sell$/)
    type("+")
    await(/- Shop#sell_all\n.*  - Shop#sell\n.*      Shop#price$/)
    type("-")
    wait_until(-> { screen }) { rows.include?("+ Shop#sell_all") }
    type("q")
    assert_left
  end

  test "search unfolds what it finds, keys sort, help, another size" do
    browse("--tui", recording)
    await(/by total$/)
    type("c/REFUSE\r")
    await(/- Shop#try\n.*   Shop#refuse$/)
    type("/nothing")
    await(%r{^/nothing$})
    type("\r")
    await(/^no such method$/)
    type("s")
    await(/by self$/)
    type("s")
    await(/by calls$/)
    type("c")
    wait_until(-> { screen }) { rows.first == "  Shop#price" }
    type("?")
    await(/^n, N +the next one, the one before$/)
    type("x")
    await(/^ +total +% /)
    @terminal.resize(8, 60)
    @screen.resize(8, 60)
    await(/^Enter unfold  .* s$/)
    type("\e")
    assert_left
  end

  test "a profile, too" do
    file = "#{directory}/prof"
    target = start("profiled")
    target.run("Thread.new { loop { 1000.times { [1].map { 2 } } } }; nil")
    assert_exit 0, rbprobe("profile", "-p", target.pid.to_s, "--duration", "1", "-q", "-o", file)
    browse("--tui", file)
    await(/prof: wall time of samples, by total$/)
    await(/^ +total +% +self  method$/)
    await(/ 100\.00 |\d\d\.\d\d /)
    Process.kill(:TERM, @terminal.pid)
    assert_left
  end

  test "a profile by what it counts: CPU time, waits for the GVL, bytes" do
    target = start("profiled")
    target.run("go; $waits = Thread.new { Work.new.busy }; $makes = Thread.new { Work.new.make(10) while $going }; 1")
    time = /^ +\d+\.\d .?s +\d+\.\d\d /
    { [] => [%w[--cpu], /: CPU time, by total$/, time],
      %w[--gvl] => [[], /: time that was waited for the GVL, by total$/, time],
      %w[--alloc] => [[], /: bytes of objects, by total$/, /^ +\d+\.\d [KMG]iB +\d+\.\d\d /] }
      .each do |options, (shown, title, row)|
      file = "#{directory}/prof"
      assert_exit 0, rbprobe("profile", "-p", target.pid.to_s, "--duration", "0.5", "-q", "-o", file, *options)
      browse("--tui", *shown, file)
      await(title)
      await(row)
      Process.kill(:TERM, @terminal.pid)
      assert_left
    end
  end

  test "refused where it cannot be" do
    assert_refused 1, /--tui needs a terminal; `rbprobe report --tree` shows/, "report", "-q", "--tui", recording
    assert_refused 2, /--tui shows the tree of one file/, "report", "--tui", recording, recording
    assert_refused 2, /--tui shows the tree of one file/, "report", "--tui", "--sort", "calls", recording
  end
end
