# rbprobe report: figures of what was recorded, and what differs between two recordings.

require_relative "helper"

class ReportTest < LiveTest
  def file_of(name = "calls.rec")
    "#{@directory ||= directory}/#{name}"
  end

  def record(target, code, *arguments, file: file_of)
    client = launch("record", "-v", "--yes", "-p", target.pid.to_s, "-o", file, *arguments).wait_until_armed
    target.run(code)
    assert_exit 0, client.stop
  end

  def report(*arguments, file: file_of)
    rbprobe("report", "-q", *arguments, *file).tap { |result| assert_exit 0, result }
  end

  # [calls, errors, method] of each row.
  def rows(result)
    result.stdout.lines.drop(2).map { |line| line.split.values_at(0, 1, -1) }
  end

  CODE = "$shop.sell_all([:tea, :cup]); $shop.try(:cup); 3.times { $shop.price(:tea) }".freeze

  test "a row for each method, as stat shows it" do
    target = start("shop")
    record(target, CODE, "Shop#")
    result = report("--sort", "method")
    assert_match(/\Aprocess #{target.pid}, \d+\.\d s: 10 calls of 5 methods\n +calls +errors +total +self +mean /, result.stdout)
    assert_equal [%w[5 0 Shop#price], %w[1 1 Shop#refuse], %w[2 0 Shop#sell], %w[1 0 Shop#sell_all], %w[1 0 Shop#try]],
                 rows(result).sort_by(&:last)
    objects = report("--format", "json").objects
    assert_equal %w[method summary], objects.map { |object| object["type"] }.uniq
    assert_equal 10, objects.last["calls"]
    assert_equal 5, objects.find { |object| object["method"] == "Shop#price" }["calls"]
    sold = objects.find { |object| object["method"] == "Shop#sell_all" }
    inside = objects.find { |object| object["method"] == "Shop#sell" }
    assert_equal sold["total_ns"] - inside["total_ns"], sold["self_ns"]
  end

  test "by thread, as a tree, and with conditions" do
    target = start("shop")
    record(target, "#{CODE}; Thread.new { Thread.current.name = 'w 1'; $shop.price(:tea) }.join", "Shop#")
    by_thread = report("--by", "thread").stdout
    assert_match(/^ +1 .* Shop#price +\d+ w 1$/, by_thread)
    assert_match(/^ +5 .* Shop#price +\d+$/, by_thread)
    tree = report("--tree", "--sort", "calls").stdout.lines.drop(2).map { |line| line[/ {2}( *)(Shop\S+)\n\z/, 0][2..] }
    assert_includes tree.join, "Shop#sell_all\n   Shop#sell\n      Shop#price\n"
    assert_equal [%w[2 0 Shop#price]], rows(report("--within", "Shop#sell", "-m", "Shop#price"))
    paths = report("--tree", "--format", "json").events("node").map { |node| node["path"] }
    assert_includes paths, %w[Shop#sell_all Shop#sell Shop#price]
  end

  test "self is without the calls inside, also where conditions tell calls as they end" do
    target = start("shop")
    target.run("class Shop; def outer; inner; [1].each { inner }; raise 'outer'; end; def inner; sleep(0.01); raise 'inner'; " \
               "rescue StandardError; Fiber.new { 1 }.resume; sleep(0.01); end; end; nil")
    code = "begin; $shop.outer; rescue StandardError; 1; end"
    record(target, code, "--raise", "Shop#outer", "Shop#inner", file: file_of("all"))
    record(target, code, "--slow", "5", "Shop#outer", "Shop#inner", file: file_of("slow"))
    [[file_of("all")], [file_of("all"), "--slow", "5"], [file_of("slow")]].each do |file, *conditions|
      rows = report("--format", "json", *conditions, file: file).events("method").to_h { |row| [row["method"], row] }
      outer, inner = rows.values_at("Shop#outer", "Shop#inner")
      assert_equal [1, 2], [outer["calls"], inner["calls"]]
      assert_equal outer["total_ns"] - inner["total_ns"], outer["self_ns"], conditions.inspect
      assert_equal inner["total_ns"], inner["self_ns"]
    end
    assert_includes rbprobe("report", file_of("all")).stderr, " 0 lost, 3 raised, "
    assert_refused 2, /add up calls by the calls around them/, "report", file_of("all"), "--tree", "--slow", "5"
  end

  test "a process that is in the recording again is one process, for as long as both took" do
    target = start("shop")
    record(target, CODE, "Shop#")
    once = report("--format", "json").objects.last
    FileUtils.cp(file_of, file_of("twice"))
    record(target, CODE, "--append", "Shop#", file: file_of("twice"))
    assert_match(/\Aprocess #{target.pid}, \d+\.\d s: 20 calls of 5 methods\n/, report(file: file_of("twice")).stdout)
    twice = report("--format", "json", file: file_of("twice")).objects.last
    assert_equal [target.pid, 20], twice.values_at("pid", "calls")
    assert_operator twice["duration_ns"], :>, once["duration_ns"]
  end

  test "a recording is not overwritten by its report" do
    target = start("shop")
    record(target, CODE, "Shop#")
    FileUtils.cp(file_of, file_of("other"))
    File.link(file_of, file_of("same"))
    before = File.binread(file_of)
    [[file_of, file_of], [file_of, file_of("same")], [file_of("other"), file_of, file_of]].each do |*files, to|
      assert_refused 2, /#{to} is the recording itself/, "report", *files, "-o", to
    end
    assert_equal before, File.binread(file_of)
    system(RBPROBE, "report", "-", "-o", file_of, in: file_of, err: File::NULL)
    assert_equal before, File.binread(file_of)
    # Where /dev has little in it, as in some containers.
    bare = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /dev && exec "$@"', "sh"]
    system(*bare, RBPROBE, "report", "-", "-o", file_of, in: file_of, err: File::NULL) if Process.uid.zero?
    assert_equal before, File.binread(file_of)
  end

  test "who calls a method, and what it calls" do
    target = start("shop")
    record(target, CODE, "Shop#")
    callers = report("--callers", "Shop#price").stdout.lines.drop(1)
    assert_match(/ method +caller$/, callers.shift)
    assert_equal [["2", "Shop#price", "Shop#sell"], ["3", "Shop#price", "(no recorded call)"]],
                 callers.map { |line| [line.split.first, *line.strip.split(/ {2,}/).last(2)] }.sort
    assert_equal [%w[2 0 Shop#sell_all]], rows(report("--callees", "Shop#sell_all"))
    both = report("--callers", "Shop#sell", "--callees", "Shop#sell", "--format", "json").events("method")
    assert_equal [["Shop#price", "Shop#sell", 2], ["Shop#sell", "Shop#sell_all", 2]],
                 both.map { |row| row.values_at("method", "caller", "calls") }.sort
    top = report("--callers", "Shop#sell_all", "--format", "json").events("method")
    assert_equal [[1, nil]], top.map { |row| row.values_at("calls", "caller") }
    %w[--callers --callees].each do |option|
      assert_match(/nothing that was recorded has such calls/, rbprobe("report", option, "Shop#pric", file_of).stderr)
    end
  end

  test "the slowest calls, with their arguments" do
    target = start("shop")
    target.run("class Shop; def nap(seconds, why); sleep(seconds); end; end; nil")
    record(target, "$shop.nap(0.002, :a); $shop.nap(0.05, :b); $shop.nap(0.02, :c)", "--args", "Shop#nap")
    lines = report("--slowest", "2").stdout.lines
    slowest = lines.map { |line| line[/\A\d\d:\d\d:\d\d\.\d{6} \[\d+.*\] Shop#nap\(.*why=(:\w).*\) <0\.\d+>$/, 1] }
    calls = rbprobe("replay", "--format", "json", file_of).events("call").sort_by { |call| -call["duration_ns"] }
    assert_equal calls.first(2).map { |call| call["values"]["why"] }, slowest
    call = report("--slowest", "1", "--format", "json").objects.first
    assert_equal ["slow_call", "Shop#nap", slowest.first], [call["type"], call["method"], call["values"]["why"]]
    assert_equal calls.first["duration_ns"], call["duration_ns"]
  end

  test "two recordings are compared" do
    target = start("shop")
    record(target, "10.times { $shop.price(:tea) }; $shop.try(:cup)", "Shop#", file: file_of("a"))
    target.run("class Shop; def price(item); sleep(0.002); 1; end; end; nil")
    record(target, "10.times { $shop.price(:tea) }; $shop.countdown(1); sleep 0.3", "Shop#", file: file_of("b"))
    both = [file_of("a"), file_of("b")]
    text = report(file: both).stdout
    assert_match(/\Athen \d+\.\d s: 12 calls; now \d+\.\d s: 12 calls\n/, text)
    assert_match(/^ +[\d.]+ +[\d.]+ +(more often|less often|noise) +\S+ +\S+ +\+\d+\.\d% +slower +Shop#price$/, text)
    assert_match(/^ +0\.00 +[\d.]+ +- +- +\S+ +- +new +Shop#countdown$/, text)
    assert_match(/^ +[\d.]+ +0\.00 +- +\S+ +- +- +gone +Shop#try$/, text)
    changes = report("--format", "json", file: both).events("change").to_h { |change| [change["method"], change] }
    assert_equal "slower", changes["Shop#price"]["is"]
    assert_equal 10, changes["Shop#price"]["then"]["calls"]
    refute changes["Shop#try"].key?("now")
    same = report(file: [file_of("a"), file_of("a")]).stdout
    assert_match(/ noise +Shop#price$/, same)
    assert_match(/ too few +Shop#try$/, same)
    same = report("--format", "json", file: [file_of("a"), file_of("a")]).events("change")
    assert_equal %w[noise], same.map { |change| change["called"] }.uniq
    assert_match(/; now 0\.2 s: /, report("--to", "+0.2", file: both).stdout)
  end

  test "where two recordings were asked for different methods, that is said: such a method is not gone" do
    target = start("shop")
    record(target, CODE, "Shop#price", "Shop#try", file: file_of("a"))
    record(target, CODE, "Shop#try", "Shop#price", file: file_of("b"))
    record(target, CODE, "Shop#price", file: file_of("c"))
    said = ->(*names) { rbprobe("report", *names.map { |name| file_of(name) }).tap { |result| assert_exit 0, result }.stderr }
    refute_match(/other selectors/, said["a", "b"])
    assert_match(/^rbprobe: .*a and .*c were recorded with other selectors, .*: a method that is new or gone may only not /,
                 said["a", "c"])
    assert_match(/other selectors/, said["c", "a"])
  end

  test "what is for profiles is refused" do
    record(start("shop"), CODE, "Shop#")
    %w[--wall --cpu --no-idle --threads --no-tree].each do |option|
      assert_refused 2, /is a recording; #{option} is for profiles/, "report", file_of, option
    end
  end

  test "wrong usage" do
    assert_refused 2, /which recording\?/, "report"
    assert_refused 2, /not also "c"; methods are chosen with -m/, "report", "a", "b", "c"
    assert_refused 2, /are for one$/, "report", "a", "b", "--tree"
    assert_refused 2, /--slowest shows calls, and no table/, "report", "a", "--slowest", "3", "--top", "3"
    assert_refused 2, /--sort takes calls, .*, not "cpu"/, "report", "a", "--sort", "cpu"
    assert_refused 2, /go with none of --by, --tree and --slowest/, "report", "a", "--callers", "x", "--tree"
    assert_refused 2, /--callees takes a method, without expressions, not "x\(y\)"/, "report", "a", "--callees", "x(y)"
    assert_refused 1, %r{cannot read /nowhere}, "report", "/nowhere"
  end
end
