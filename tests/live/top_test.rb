# rbprobe top, on a terminal that shows what it draws.

require_relative "helper"
require_relative "screen"
require_relative "terminal"

class TopTest < LiveTest
  include OnScreen

  CTRL_C = "\x03"
  CTRL_Z = "\x1a"
  ESCAPE = "\e"
  DOWN = "\eOB"
  BUSY = <<~RUBY.freeze
    class Work
      def outer
        inner
        inner
      end

      def inner
        1
      end

      def fail_it
        raise IOError, "no"
      end
    end
    Thread.new do
      loop do
        Work.new.outer
        Work.new.fail_it rescue nil
        sleep 0.002
      end
    end
    0
  RUBY

  def busy(**options)
    start("shop", **options).tap { |target| target.run(BUSY) }
  end

  def top(*arguments, columns: 110, **options)
    draw("top", *arguments, columns: columns, **options)
  end

  # The methods that the table shows, from above.
  def methods_shown
    screen.scan(/^(?: *-?[\d.]\S*){4,} +(?:\d+ )?(\S+#.*)$/).flatten
  end

  def leave(keys = "q", status = 0)
    type(keys)
    assert_left(status)
  end

  test "workers of a master that start later join" do
    master = start("console")
    hire = "fork { trap(:TERM) { exit }; loop { 'x'.upcase; sleep 0.005 } }"
    first = master.adopt(master.run(hire).to_i)
    top("-p", master.pid, "--children", "--apart", "--interval", "0.2", "String#upcase")
    await(/\b#{first}\b.* String#upcase/)
    second = master.adopt(master.run(hire).to_i)
    await(/\b#{second}\b.* String#upcase/)
    leave
  ensure
    [first, second].compact.each { |pid| Process.kill(:TERM, pid) }
  end

  test "the table has the figures of the last interval, and since the start, for each method" do
    target = busy
    top("-p", target.pid, "--interval", "0.2", "Work#")
    await(/Work#inner$/)
    assert_match(/^rbprobe top  \d\d:\d\d:\d\d  last 0\.2 s, by total$/, screen)
    assert_match(/^ *#{target.pid}  Ruby #{Regexp.escape(RUBY_VERSION_OF_TARGET)}  CPU \d/, await(/^ *#{target.pid}.*CPU.*/))
    assert_match(/^  calls\/s     calls  errors  totalv    self    mean     p99     max  method$/, screen)
    row = await(/^ *[\d.]+ +\d+ +[1-9]\d* .*Work#fail_it$/).split
    assert_equal row[1], row[2], "all of its calls fail"
    type("t")
    await(/since the start, by total/)
    before = await(/^ *[\d.]+ +\d+ .*Work#inner$/).split[1].to_i
    wait_until("calls add up") { (screen[/^ *[\d.]+ +(\d+) .*Work#inner$/, 1].to_i > before) }
    leave
    assert_equal "0", target.run("Work.new.outer; 0")
  end

  test "--gvl shows how much threads wait for the GVL, where Ruby tells" do
    target = busy
    target.run("2.times { Thread.new { loop { Work.new.inner } } }; 0")
    top("-p", target.pid, "--interval", "0.2", "--gvl", "Work#outer")
    if target_ruby?(">= 3.2")
      await(/^ *#{target.pid}  Ruby .*  GVL wait [1-9]\d* %  /)
      leave
    else
      assert_left([1, 3])
      assert_match(/rbprobe: process #{target.pid}: --gvl needs Ruby 3\.2 or newer/, @terminal.text)
    end
  end

  test "rows are sorted, filtered and selected by keys" do
    target = busy
    top("-p", target.pid, "--interval", "0.2", "--sort", "calls", "Work#")
    await(/Work#inner$/)
    wait_until("all are there") { methods_shown.size == 3 }
    assert_equal "Work#inner", methods_shown.first
    type("M")
    await(/by method$/)
    wait_until("the order is that of names") { methods_shown == %w[Work#fail_it Work#inner Work#outer] }
    type("r")
    await(/by method reversed$/)
    wait_until("it is reversed") { methods_shown == %w[Work#outer Work#inner Work#fail_it] }
    type("/FAIL")
    await(%r{^/FAIL_$})
    wait_until("others are left out") { methods_shown == %w[Work#fail_it] }
    type("\r")
    await(/only names with "FAIL", 2 left out; Esc shows all$/)
    type(ESCAPE)
    wait_until("all are shown") { methods_shown.size == 3 }
    leave
  end

  test "the screen is resized, and help is a key" do
    target = busy
    top("-p", target.pid, "--interval", "0.2", "Work#")
    await(/ p99 .*\n(.*\n)*.*Work#inner$/)
    @terminal.resize(12, 60)
    @screen.resize(12, 60)
    await(/\A.*\n.*\n  calls\/s  totalv    self  method\n(.*\n)*.*Work#inner$/)
    refute_match(/p99/, screen)
    type("h")
    await(/^Keys$/)
    await(/^q            leave$/)
    type("G")
    await(/they waited for it/)
    type(ESCAPE)
    await(/method$/)
    leave
  end

  { "Ctrl-C" => CTRL_C, "q" => "q" }.each do |name, key|
    test "#{name} gives the terminal back while it is attaching, too" do
      target = busy
      top("-p", target.pid, "Work#")
      wait_until("it has begun") { screen && @screen.alternate }
      leave(key, key == CTRL_C ? [0, 3] : 0) # 3: it has come while rbprobe looked at the process
    end
  end

  test "SIGTERM and SIGHUP end it, and give the terminal back" do
    target = busy
    %w[TERM HUP].each do |signal|
      top("-p", target.pid, "--interval", "0.2", "Work#")
      await(/Work#inner$/)
      @terminal.signal(signal)
      leave("")
    end
  end

  test "a second signal gives the terminal back, too" do
    target = busy
    top("-p", target.pid, "--interval", "0.2", "Work#")
    await(/Work#inner$/)
    Process.kill(:STOP, target.pid)
    @terminal.signal("INT")
    wait_until("the terminal is as it was") { screen && !@screen.alternate && @terminal.settings == @settings }
    sleep 0.5 # the second signal within 0.3 s counts as the same
    @terminal.signal("INT")
    assert_left(130)
  ensure
    Process.kill(:CONT, target.pid)
  end

  test "it is stopped and goes on" do
    target = busy
    # Only a shell with jobs stops them by a key.
    top("-p", target.pid, "--interval", "0.2", "Work#", wrapper: ["bash", "-mc", '"$@"; read; fg', "bash"])
    await(/Work#inner$/)
    type(CTRL_Z)
    wait_until("the terminal is as it was") { screen && !@screen.alternate }
    await(/Stopped/)
    type("\r")
    wait_until("it is drawn again") { screen && @screen.alternate }
    await(/Work#inner$/)
    leave
  end

  test "a process that is killed has a line that says so, and the others go on" do
    killed = busy
    target = busy
    top("-p", "#{killed.pid},#{target.pid}", "--interval", "0.2", "Work#inner")
    await(/^ *#{target.pid} .*calls\/s/)
    await(/^ *#{killed.pid} .*calls\/s/)
    Process.kill(:KILL, killed.pid)
    await(/^ *#{killed.pid}  Ruby \S+  it (was killed by signal 9|ended without a word)/)
    type("t")
    await(/since the start.*\n(.*\n)*.*Work#inner$/)
    calls = screen[/(\d+) +\S+ +\S+ +\S+ +\S+ +\S+ +\S+ +Work#inner/, 1].to_i
    wait_until("the other one's calls are counted") do
      screen[/(\d+) +\S+ +\S+ +\S+ +\S+ +\S+ +\S+ +Work#inner/, 1].to_i > calls
    end
    leave("q", 4)
  end

  test "processes are added up, or have a row each" do
    targets = [busy, busy]
    top("-p", targets.map(&:pid).join(","), "--interval", "0.2", "Work#inner")
    await(/Work#inner$/)
    wait_until("both are counted") { screen.scan(/calls\/s  ruby/).size == 2 || screen.scan(/\d calls\/s/).size == 2 }
    assert_equal 1, screen.scan("Work#inner").size
    type("p")
    targets.each { |target| await(/ #{target.pid} Work#inner$/) }
    leave
  end

  test "a key opens the callers of the selected method, in parts of its calls" do
    target = busy
    top("-p", target.pid, "--interval", "0.2", "Work#inner")
    await(/Work#inner$/)
    type("\r")
    await(/^Callers of Work#inner: of \d+ calls(, one in \d+)?$/)
    2.times { |i| await(/^ *[45]\d\.\d %   Work#outer  console:#{i + 3}$/) }
    before = screen[/of (\d+) calls/, 1].to_i
    wait_until("more calls are added") { screen[/of (\d+) calls/, 1].to_i > before }
    type(ESCAPE)
    await(/Work#inner$/)
    leave
  end

  # Of each second the first calls, which come together, would say a quarter.
  test "callers are those of calls all over a second" do
    target = start("shop")
    target.run("class Work; def inner; end; def first; inner; end; def rest; inner; end; end; work = Work.new; " \
               "Thread.new { loop { 5.times { work.first }; 200.times { work.rest }; sleep 0.2 } }; nil")
    top("-p", target.pid, "--interval", "0.5", "Work#inner")
    await(/ \d+ .*Work#inner$/)
    type("\r")
    await(/^Callers of Work#inner: of \d+ calls, one in \d+$/)
    wait_until("there are enough") { screen[/of (\d+) calls/, 1].to_i >= 60 }
    assert_operator screen[/([\d.]+) %   Work#first /, 1].to_f, :<, 12, screen
    assert_operator screen[/([\d.]+) %   Work#rest /, 1].to_f, :>, 88, screen
    type(ESCAPE)
    await(/Work#inner$/)
    leave
  end

  test "a key follows the calls of the selected method" do
    target = busy
    top("-p", target.pid, "--interval", "0.2", "Work#fail_it")
    await(/Work#fail_it$/)
    type("f")
    await(/^Calls of Work#fail_it, at most 20 a second$/)
    await(/^Work#fail_it ! IOError: no <0\.\d+>$/)
    type("q")
    await(/method$/)
    leave
  end

  test "a key shows the source of the selected method" do
    target = busy
    top("-p", target.pid, "--interval", "0.2", "--sort", "method", "Shop#price", "Work#inner")
    target.run("Thread.new { loop { Shop.new.price(:tea); sleep 0.002 } }; 0")
    await(/Shop#price$/)
    type("s")
    line = File.foreach("#{ROOT}/tests/apps/shop.rb").with_index(1).find { |text, _| text.include?("def price") }.last
    await(%r{^Shop#price  \S*tests/apps/shop\.rb:#{line}$})
    await(/^ +#{line}    def price\(item\)$/)
    await(/^ +#{line + 1}      item\.length \* 100$/)
    type("q")
    await(/Work#inner$/)
    type(DOWN)
    type("s")
    await(/^Work#inner  console:\d+$/)
    await(/cannot be read/)
    leave("qq")
  end

  test "without selectors the hottest methods are counted, and others when these change" do
    target = busy
    target.run("def self.compute; @going = true; @thread = Thread.new { Work.new.outer while @going }; end; compute; 0")
    top("-p", target.pid, "--interval", "0.2")
    await(/, looking for hot methods$/)
    await(/Work#inner$/)
    assert_match(/, the \d+ hottest methods?(, \d+ more cannot be selected)?$/, screen)
    target.run("class Later; def grow; 3.times.map(&:to_s); end; end; " \
               "@going = false; @thread.join; Thread.new { loop { Later.new.grow } }; 0")
    wait_until(-> { "others are counted:\n#{screen}" }, 40) { screen[/Later#grow$/] }
    type("t")
    await(/since the start/)
    await(/Work#inner$/) # what was counted stays
    leave
    assert_equal "2", target.run("1 + 1")
  end

  test "names from the process are text, whatever is in them" do
    target = busy
    name = "a\e[2J\u009bb\u202e"
    target.run("Work.define_method(#{name.dump}) { 1 }; " \
               "Thread.new { loop { Work.new.public_send(#{name.dump}); sleep 0.002 } }; 0")
    top("-p", target.pid, "--interval", "0.2", "Work#*2J*")
    await(/Work#a\\x1b\[2J\\xc2\\x9bb\\xe2\\x80\\xae/)
    leave
  end

  test "without a terminal, or on one that nobody knows, there is a line and no screen" do
    target = start("shop")
    result = rbprobe("top", "-p", target.pid.to_s, "Shop#")
    assert_equal 2, result.status
    assert_equal "rbprobe: top needs a terminal; `rbprobe stat --interval 1` shows the same as text\n", result.stderr
    top("-p", target.pid, "Shop#", env: { "TERM" => "nonesuch" })
    assert_equal 2, @terminal.wait
    assert_includes @terminal.text, 'the terminal "nonesuch" (TERM) is not known'
    top("-p", target.pid, "Shop#", env: { "TERM" => "dumb" })
    assert_equal 2, @terminal.wait
    assert_includes @terminal.text, 'the terminal "dumb" (TERM) is not known, or has no screen'
  end

  test "a process that cannot be attached to is said after the screen, in the status, too" do
    top("-p", 4_194_303, "Shop#")
    assert_left(3)
    assert_match(/rbprobe: process 4194303: no process has the PID 4194303/, @terminal.text)
  end

  test "a client that is killed leaves nothing in the process" do
    target = busy
    threads = Processes.threads_of(target.pid)
    top("-p", target.pid, "--interval", "0.2", "Work#")
    await(/Work#inner$/)
    @terminal.kill
    wait_until("its threads are gone") { Processes.threads_of(target.pid) <= threads }
    assert_equal "2", target.run("1 + 1")
  end
end
