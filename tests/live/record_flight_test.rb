# rbprobe record --last: only what is recent is kept, and written when something happens.

require_relative "helper"

class RecordFlightTest < LiveTest
  def file_of(suffix = "")
    "#{@directory ||= directory}/calls.rec#{suffix}"
  end

  # `rbprobe record --last 60`, armed; or with less than that.
  def recorder(targets, *arguments, last: "60")
    pids = Array(targets).map { |target| target.pid.to_s }
    launch("record", "-v", "--yes", "-p", pids.join(","), "-o", file_of, "--last", last, *arguments).tap do |client|
      pids.each { |pid| client.wait_for(/^rbprobe: process #{pid}: tracing \d+ method/) }
    end
  end

  def replay(*arguments, file: file_of)
    rbprobe("replay", *arguments, file).tap { |result| assert_exit 0, result }
  end

  def written(file)
    File.size?(file)
  end

  ANSWERS = /written on SIGUSR1|nothing is written/.freeze

  # Events are on their way for a moment: it is asked again where nothing has come yet.
  def ask(client)
    loop do
      before = client.stderr.scan(ANSWERS).size
      client.signal(:USR1)
      wait_until("it has answered") { client.stderr.scan(ANSWERS).size > before }
      break if client.stderr.scan(ANSWERS).last.start_with?("written")
    end
  end

  # What packs badly, so that much of it is more than is kept.
  def fill(target, calls = 300_000)
    target.run("#{calls}.times { $shop.price(rand.to_s.to_sym) }; nil")
  end

  SLOW = "class Shop; def nap(s); sleep s; end; def order(s); price(:tea); nap(s); price(:pot); end; end; nil"

  test "a slow call ends it, and the file has what came before, that call, and the end of the one around it" do
    target = start("shop")
    target.run(SLOW)
    client = recorder(target, "--until", "slow=100,call=Shop#nap", "--args", "Shop#")
    target.run("$shop.sell(:tea); $shop.order(0); $shop.order(0.15)")
    result = client.wait
    assert_exit 0, result
    assert_match(/^rbprobe: \d+ calls, 0 lost, .* ended: --until was met$/, result.stderr)
    why = /Shop#nap took 0\.\d{6} s \(--until slow=100,call=Shop#nap\)/
    assert_match(/^rbprobe: \S+calls\.rec has the last \d+\.\d s, .*: #{why}; `rbprobe replay \S+` shows it$/, result.stderr)
    replayed = replay
    assert_match(/; ended: #{why}$/, replayed.stderr)
    assert_equal <<~TREE, replayed.tree.gsub(/\(.*?\)/, "")
      Shop#sell
         Shop#price <time>
      Shop#sell <time>
      Shop#order
         Shop#price <time>
         Shop#nap <time>
         Shop#price <time>
      Shop#order <time>
      Shop#order
         Shop#price <time>
         Shop#nap <time>
         Shop#price <time>
      Shop#order <time>
    TREE
    naps = rbprobe("report", "--format", "json", file_of).events("method").find { |row| row["method"] == "Shop#nap" }
    assert_equal 2, naps["calls"]
  end

  test "of a short time, no more than that and an eighth is kept, however much later it is asked for" do
    target = start("shop")
    client = recorder(target, "Shop#", last: "0.4")
    target.run("ends = now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
                while now < ends + 1.5
                  $shop.price(:tea)
                  sleep 0.001
                  now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
                end")
    assert_exit 0, client.stop
    times = replay("--format", "json").events("call").map { |call| call["start_ns"] }
    assert_operator times.max - times.min, :<, 900_000_000
  end

  test "exceptions: one that leaves a call, or one that is raised anywhere, of a class and in a thread" do
    target = start("shop")
    client = recorder(target, "--until", "raised=Shop::Sold*,thread=worker", "Shop#")
    target.run("$shop.let_through(:cup) rescue nil; Thread.new { Thread.current.name = 'worker'; $shop.try(:cup) }.join; nil")
    assert_match(/Shop#refuse raised Shop::SoldOut \(--until raised=Shop::Sold\*,thread=worker\)/, client.wait.stderr)
    client = recorder(target, "--raise", "--until", "slow=60000", "--until", "raise=KeyError", "Shop#price")
    target.run("Integer('x') rescue nil; {}.fetch(:x) rescue nil; nil")
    assert_match(/: KeyError was raised \(--until raise=KeyError\);/, client.wait.stderr)
    assert_match(/! raised ArgumentError.*! raised KeyError/m, replay.stdout)
  end

  test "the calls around one may be part of what is waited for" do
    target = start("shop")
    target.run("class Shop; def cart(item); price(item); end; def other(item); price(item); end; nil; end")
    within = recorder(target, "--until", "call=Shop#price,within=Shop#cart", "Shop#price(item)", "Shop#cart", "Shop#other")
    target.run("$shop.price(:a); $shop.other(:b); $shop.cart(:c); nil")
    assert_match(/: Shop#price took .* \(--until call=Shop#price,within=Shop#cart\);/, within.wait.stderr)
    assert_equal %w[a b c], replay.stdout.scan(/item=:(\w)/).flatten
    outside = recorder(target, "--until", "call=Shop#price,outside=Shop#cart,depth=1",
                       "Shop#price(item)", "Shop#cart", "Shop#other")
    target.run("$shop.cart(:a); $shop.other(:b); $shop.price(:c); nil")
    assert_exit 0, outside.wait
    assert_equal %w[a b c], replay.stdout.scan(/item=:(\w)/).flatten
    raised = recorder(target, "--raise", "--until", "raise,within=Shop#try", "Shop#try", "Shop#let_through(item)")
    target.run("$shop.let_through(:a) rescue nil; $shop.try(:b); nil")
    assert_match(/: Shop::SoldOut was raised \(--until raise,within=Shop#try\);/, raised.wait.stderr)
    assert_includes replay.stdout, "no b"
  end

  test "what is not recent is gone, however much there was" do
    target = start("shop")
    client = recorder(target, "Shop#price(item)", last: "1M")
    target.run("$shop.price(:first)")
    fill(target)
    target.run("$shop.price(:latest)")
    assert_exit 0, client.stop
    assert_operator File.size(file_of), :<, 1200 << 10
    items = replay.stdout.scan(/item=:"?([\w.]+)/).flatten
    assert_equal "latest", items.last
    refute_includes items, "first"
    assert_operator items.size, :>, 100
    assert_match(/; what came before is not in it, \d calls? w\w+ open then; /, replay("--info").stdout)
    assert_equal true, replay("--info", "--format", "json").objects.last["continued"]
  end

  test "a call that was open at the file's beginning is in it, with its values, and is said to have been" do
    target = start("shop")
    target.run("class Shop; def day(name, queue); queue.pop; end; end; $open = Queue.new; nil")
    client = recorder(target, "--args", "Shop#day", "Shop#price", last: "1M")
    target.run("$day = Thread.new { $shop.day('monday', $open) }; Thread.pass until $open.num_waiting == 1; nil")
    fill(target)
    target.run("$open << 1; $day.join; nil")
    assert_exit 0, client.stop
    replayed = replay("--format", "json")
    day = replayed.events("call").find { |call| call["method"] == "Shop#day" }
    assert_match(/monday/, day.to_s)
    assert day["duration_ns"]
    assert_match(/^rbprobe: process #{target.pid}: 1 call was open when this file begins/, replayed.stderr)
    assert_equal 1, replay("--info", "--format", "json").objects.last["open_calls"]
  end

  test "where nothing was recorded, that is said, and a file that was there keeps what it has" do
    target = start("shop")
    result = recorder(target, "-q", "Shop#price").stop
    assert_exit 0, result
    assert_match(/^rbprobe: nothing was recorded in that time, and nothing is written to \S+calls\.rec$/, result.stderr)
    refute_path_exists file_of
    File.write(file_of, "before")
    assert_exit 0, recorder(target, "Shop#price").stop
    assert_equal "before", File.read(file_of)
  end

  test "a client that is killed has written nothing, and who reads the file is told why" do
    client = recorder(start("shop"), "Shop#price")
    client.signal(:KILL)
    client.wait
    assert_refused 1, /it is empty, as one of --last is until it is written/, "replay", file_of
  end

  test "SIGUSR1 writes what is there, and it goes on" do
    target = start("shop")
    client = recorder(target, "Shop#price(item)")
    client.signal(:USR1)
    client.wait_for(/nothing was recorded in that time/)
    target.run("$shop.price(:tea)")
    ask(client)
    client.wait_for(/has the last .*: written on SIGUSR1; /)
    assert_match(/ended: written on SIGUSR1$/, replay.stderr)
    target.run("$shop.price(:cup)")
    result = client.stop
    assert_exit 0, result
    assert_match(/; ended: interrupted$/, result.stderr)
    assert_equal %w[tea], replay(file: file_of(".1")).stdout.scan(/:(\w+)/).flatten
    assert_equal %w[tea cup], replay.stdout.scan(/:(\w+)/).flatten
  end

  test "with --rotate it goes on after what it waits for, and keeps the newest files" do
    target = start("shop")
    client = recorder(target, "--until", "raised", "--rotate", "2", "Shop#let_through(item)")
    %w[one two three].each do |item|
      target.run("$shop.let_through(:#{item}) rescue nil; nil")
      wait_until("there is a file of #{item}") { written(file_of) && replay("-q").stdout.include?(item) }
    end
    result = client.stop
    assert_exit 0, result
    assert_equal 3, result.stderr.scan(/raised Shop::SoldOut \(--until raised\)/).size
    assert_equal [file_of, file_of(".1")], Dir.glob(file_of("*")).sort
    assert_match(/two/, replay(file: file_of(".1")).stdout)
    refute_match(/three/, replay(file: file_of(".1")).stdout)
  end

  test "several processes are in the file, and one that has ended" do
    targets = [start("shop"), start("shop")]
    client = recorder(targets, "--until", "call=Shop#sell", "Shop#")
    targets.first.run("$shop.price(:tea)")
    targets.last.run("$shop.price(:tea)")
    targets.first.run_in_background("exit")
    client.wait_for(/^rbprobe: #{targets.first.pid}: .*; ended: the process exited$/)
    targets.last.run("$shop.sell(:tea)")
    assert_exit 0, client.wait
    assert_equal targets.map { |target| target.pid.to_s }.sort, replay("--info").stdout.scan(/^process (\d+):/).flatten.sort
    assert_match(/^#{targets.first.pid}: Shop#price/, replay.stdout)
    assert_match(/^#{targets.last.pid}: Shop#sell/, replay.stdout)
  end

  test "what a process did before it was killed is written" do
    target = start("shop")
    client = recorder(target, "Shop#price")
    target.run("$shop.price(:tea)")
    ask(client)
    fill(target, 20_000)
    target.signal(:KILL)
    assert_exit 4, client.wait
    assert_equal 1, replay(file: file_of(".1")).stdout.scan("Shop#price").size
    assert_operator replay.stdout.scan("Shop#price").size, :>, 1
    assert_match(/ended: the process was killed, unconfirmed: calls may be missing that nobody counted$/, replay.stderr)
  end

  test "an expression may be part of what is waited for: it is evaluated when a call begins, or a line is reached" do
    target = start("shop")
    shown = ["Shop#price(item)", "Shop#sell"]
    client = recorder(target, "--until", "call=Shop#sell,if=[1, count].max > 2 # of many", *shown)
    target.run("$shop.sell(:a, 2); $shop.price(:bb); $shop.sell(:c, 3); nil")
    assert_match(/: Shop#sell was called \(--until call=Shop#sell,if=\[1, count\]\.max > 2 # of many\);/, client.wait.stderr)
    assert_equal %w[a bb c], replay.stdout.scan(/item=:(\w+)/).flatten
    assert_equal %w[false true], replay.stdout.scan(/Shop#sell\(until1=(\w+)\)/).flatten
    # Without call=, of any recorded method; what raises is not true.
    client = recorder(target, "--until", "if=raise('no')", "--until", "slow=0.0001,if=$shop && item.to_s.size == 3",
                      "--until", "if=nil", *shown)
    target.run("$shop.price(:a); $shop.sell(:bb); $shop.price(:ccc); nil")
    assert_match(/: Shop#price took .* \(--until slow=0\.0001,if=\$shop && item\.to_s\.size == 3\);/, client.wait.stderr)
    assert_equal %w[a bb ccc], replay.stdout.scan(/item=:(\w+)/).flatten
    line = target.run("Shop.instance_method(:sell).source_location[1] + 1")
    client = recorder(target, "--until", "call=shop.rb:#{line},if=gift", *shown)
    target.run("$shop.sell(:a); $shop.sell(:b, gift: true); nil")
    assert_match(/: shop\.rb:#{line} was reached \(--until/, client.wait.stderr)
    client = recorder(target, "--until", "if=count == 7", "shop.rb:#{line}", "Shop#price(item)")
    target.run("$shop.sell(:a); $shop.sell(:b, 7); nil")
    assert_match(/: shop\.rb:#{line} was reached \(--until if=count == 7\)/, client.wait.stderr)
  end

  test "an expression that is waited for may be about how a call ends" do
    target = start("shop")
    shown = ["Shop#price(item)", "Shop#sell", "Shop#refuse"]
    client = recorder(target, "--until", "call=Shop#price,if=result > 200", *shown)
    target.run("$shop.sell(:aaaa); nil") # its end is about price, too
    assert_match(/: Shop#price ended \(--until call=Shop#price,if=result > 200\);/, client.wait.stderr)
    client = recorder(target, "--until", "if=error.is_a?(Shop::SoldOut) && item == :pot", *shown)
    target.run("2.times { |i| $shop.refuse(i == 0 ? :tea : :pot) rescue nil }; $shop.price(:a); nil")
    assert_match(/: Shop#refuse ended \(--until if=error/, client.wait.stderr)
    assert_equal %w[false true], replay.stdout.scan(/Shop#refuse.* until1=(\w+)/).flatten
    # Beside another selector that is not recorded otherwise, and what is known when a call begins.
    client = recorder(target, "--until", "slow=0.0001,call=Shop#countdown,if=elapsed < 60 && result == 0", "--until",
                      "if=item == :never", *shown)
    target.run("$shop.countdown(1); nil")
    assert_match(/: Shop#countdown took .* \(--until slow=/, client.wait.stderr)
  end

  test "a call that computes is waited for, not one that sleeps" do
    target = start("shop")
    target.run("class Shop; def nap; sleep 0.2; end; end; nil")
    target.run("def cpu_time() Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) end; nil")
    target.run("class Shop; def computes(till) 1 while cpu_time < till end end; nil")
    client = recorder(target, "--measure", "cpu", "--until", "slow-cpu=50", "Shop#nap", "Shop#computes")
    target.run("$shop.nap; $shop.computes(cpu_time + 0.06); nil")
    assert_match(/: Shop#computes took .* \(--until slow-cpu=50\);/, client.wait.stderr)
  end

  test "an expression does not compile" do
    pid = start("shop").pid.to_s
    ["1 +", "item ]", "1) || (2"].each do |code|
      result = rbprobe("record", "-p", pid, "--last", "60", "-o", file_of, "--until", "if=#{code}", "Shop#price")
      assert_exit 1, result
      assert_includes result.stderr, "an expression does not compile, \"#{code}\": "
      assert_equal rbprobe("trace", "-p", pid, "--if", code, "Shop#price").stderr, result.stderr.lines.first
    end
  end

  test "a command, from before what happened on" do
    result = launch("record", "-o", file_of, "--last", "60", "--until", "call=last_one", "step(n)", "last_one", "--",
                    *Processes::RUBY, "-e", "def step(n); end; def last_one; end; 3.times { |i| step(i) }; last_one; exit 5",
                    env: Processes::TARGET_ENV).wait
    assert_exit 5, result
    assert_equal %w[0 1 2], replay.stdout.scan(/step\(n=(\d)\)/).flatten
    assert_match(/last_one/, replay.stdout)
  end

  test "what did not happen is said, and what was recorded is written" do
    target = start("shop")
    client = recorder(target, "--until", "slow=60000", "Shop#price")
    target.run("$shop.price(:tea)")
    result = client.stop
    assert_exit 0, result
    assert_match(/^rbprobe: what --until waits for did not happen$/, result.stderr)
    assert_match(/ended: interrupted$/, replay.stderr)
  end

  test "of a process that refuses, its reason alone is said" do
    target = start("shop")
    result = rbprobe("record", "-p", target.pid.to_s, "-o", file_of, "--last", "60", "--until", "if=n >", "Shop#price")
    assert_exit 1, result
    assert_match(/\Arbprobe: [^\n]*does not compile[^\n]*\n\z/, result.stderr)
    refute_path_exists file_of
  end

  test "wrong usage" do
    record = ["record", "-p", "1", "-o", file_of]
    assert_refused 2, /--until needs --last/, *record, "--until", "raised", "x"
    assert_refused 2, /--last takes seconds/, *record, "--last", "some", "x"
    assert_refused 2, /a size of at least 1M/, *record, "--last", "64K", "x"
    assert_refused 2, /0\.1 at least/, *record, "--last", "0.01", "x"
    last = [*record, "--last", "5"]
    assert_refused 2, /--until takes slow=MS, .*, not "fast"/, *last, "--until", "fast=1", "x"
    assert_refused 2, /\A.*--until slow=100,slow=2: slow is there twice;/, *last, "--until", "slow=100,slow=2", "x"
    %w[slow-cpu=1 raised raised=KeyError raise thread=web depth=2 call=y within=y outside=y].each do |word|
      assert_refused 2, /: #{word[/[\w-]+/]} is there twice/, *last, "--until", "#{word},slow=1,#{word}", "x"
    end
    assert_refused 2, /--until slow takes milliseconds/, *last, "--until", "slow=soon", "x"
    assert_refused 2, /record these with --raise/, *last, "--until", "raise=KeyError", "x"
    assert_refused 2, /--until depth takes a whole number.*, not "0"/, *last, "--until", "depth=0", "x"
    assert_refused 2, /--until within= and outside= take a method/, *last, "--until", "outside=order.rb:4", "x"
    assert_refused 2, /a line that is reached does not end/, *last, "--until", "call=order.rb:4,if=result > 1", "x"
    assert_refused 2, /--until if= takes a Ruby expression/, *last, "--until", "call=x,if=", "x"
    assert_refused 2, /without if=/, *last, "--raise", "--until", "raise,if=true", "x"
    assert_refused 2, /needs a selector that is recorded, or call=SELECTOR/, *last, "-f", "--yes", "--until", "if=true"
    assert_refused 2, /are about the calls around, .*: leave that out/, *last, "--until", "within=y", "--raised", "x"
    assert_refused 2, /with --measure cpu/, *last, "--until", "slow-cpu=5", "x"
    assert_refused 2, /--slow-cpu leaves out/, *last, "--measure", "cpu", "--until", "slow-cpu=1", "--slow-cpu", "5", "x"
    assert_refused 2, /--slow leaves out/, *last, "--until", "slow=1", "--slow", "5", "x"
    assert_refused 2, /neither slow nor raises/, *last, "--until", "slow=1,call=order.rb:4", "x"
    assert_refused 2, /--max-size is for a recording of everything/, *last, "--max-size", "1M", "x"
    assert_refused 2, /one file of all processes/, "record", "-p", "1", "-o", file_of("%p"), "--last", "5", "x"
    assert_refused 2, /cannot append/, *last, "-a", "x"
    assert_refused 2, %r{--last renames files, and /dev/null is none},
                   "record", "-p", $$.to_s, "-o", "/dev/null", "--last", "5", "x"
  end
end
