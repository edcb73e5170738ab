# rbprobe console, on a real terminal and off one.

require_relative "helper"
require_relative "ipc"
require_relative "terminal"

class ConsoleTest < LiveTest
  CTRL_C = "\x03"
  CTRL_D = "\x04"
  UP = "\e[A"
  TAB = "\t"

  # A console on a terminal, at its first prompt.
  def console(target, *options, env: {}, **keywords)
    @state ||= directory
    terminal = Terminal.new(["console", "-p", target.pid.to_s, "--color", "never", *options],
                            env: { "XDG_STATE_HOME" => @state }.merge(env), **keywords)
    @tracers << terminal
    @target = target
    terminal.expect(prompt)
    terminal
  end

  def prompt(place = "main", mark = ">")
    /^#{@target.pid} #{place}#{mark} \z/
  end

  # Enters a line; returns what is printed until the next prompt, without the line and that prompt.
  def enter(terminal, line, next_prompt = prompt)
    terminal.enter(line)
    terminal.expect(next_prompt).lines[1..-2].join
  end

  def leave(terminal)
    terminal.type(CTRL_D)
    assert_equal 0, terminal.wait
  end

  # A console that reads its lines from a file.
  def script(target, lines, *options, **keywords)
    path = "#{directory}/script"
    File.write(path, lines)
    rbprobe("console", "-p", target.pid.to_s, *options, stdin: path, **keywords)
  end

  def assert_clean(target)
    wait_until("nothing of the console is left in the process") do
      target.run("Thread.list.size") == "1" && Processes.threads_of(target.pid) == @threads_before
    end
  end

  def start_quiet(*arguments, **options)
    start(*arguments, **options).tap { |target| @threads_before = Processes.threads_of(target.pid) }
  end

  # --- Lines

  test "lines are evaluated in the process, and Ctrl-D leaves nothing behind" do
    target = start_quiet("shop")
    terminal = console(target)
    assert_equal "=> #{target.pid}\n", enter(terminal, "Process.pid")
    assert_equal "=> \"Ada\"\n", enter(terminal, "$shop.owner")
    leave(terminal)
    assert_clean(target)
  end

  test "a process that never loaded the extension" do
    only_where_loading_is_possible
    target = start("shop", load: false)
    terminal = console(target)
    assert_equal "=> 700\n", enter(terminal, "$shop.price('oatcake')")
    assert_equal "=> 42\n", enter(terminal, "42")
    leave(terminal)
    assert_equal "3", target.run("1 + 2")
  end

  test "local variables and the last result persist, also when a line raises" do
    target = start("shop")
    terminal = console(target)
    assert_equal "=> 6\n", enter(terminal, "x = 6")
    assert_equal "=> 42\n", enter(terminal, "_ * 7")
    assert_match(/\A\(rbprobe\):1:in .*no more \(RuntimeError\)\n\z/, enter(terminal, "y = 1; raise 'no more'"))
    assert_equal "=> [6, 1, 42]\n", enter(terminal, "[x, y, _]")
    # They are the console's own.
    assert_equal "false", target.run("binding.local_variable_defined?(:x)")
    leave(terminal)
  end

  test "an expression goes on over lines until it is complete" do
    terminal = console(start("shop"))
    goes_on = prompt("main", "\\*")
    assert_equal "", enter(terminal, "def twice(x)", goes_on)
    assert_equal "", enter(terminal, "  x * 2", goes_on)
    assert_equal "=> :twice\n", enter(terminal, "end")
    assert_equal "", enter(terminal, "[1,", goes_on)
    assert_equal "=> [1, 2]\n", enter(terminal, "2]")
    assert_equal "", enter(terminal, "<<TEXT", goes_on)
    assert_equal "", enter(terminal, "a", goes_on)
    assert_equal "=> \"a\\n\"\n", enter(terminal, "TEXT")
    assert_match(/syntax error|unexpected/, enter(terminal, "1 +* 2"))
    leave(terminal)
  end

  test "output comes while the line runs, and not to the application's own" do
    target = start("shop")
    terminal = console(target)
    terminal.enter("puts 'begun'; $stderr.puts 'warned'; $go = Queue.new; $go.pop")
    terminal.expect(/^begun\nwarned\n\z/)
    target.run("$go << 5; 1")
    assert_equal "=> 5\n", terminal.expect(prompt).lines[0..-2].join
    leave(terminal)
  end

  test "results of any kind are shown so that the terminal only shows them" do
    terminal = console(start("shop"))
    enter(terminal, "class Odd; def inspect; \"a\\e[31mb\\nc\"; end; end")
    assert_equal "=> a\\x1b[31mb\nc\n", enter(terminal, "Odd.new")
    assert_match(/NoMethodError|#<BasicObject/, enter(terminal, "BasicObject.new"))
    leave(terminal)
  end

  test "colours on a terminal, unless they are not wanted" do
    target = start("shop")
    terminal = console(target, "--color", "auto")
    enter(terminal, "[1, 'a', :b, nil]")
    assert_includes terminal.raw, "[\e[34m1\e[0m, \e[32m\"a\"\e[0m, \e[33m:b\e[0m, \e[36mnil\e[0m]"
    leave(terminal)
    terminal = console(target, "--color", "auto", env: { "NO_COLOR" => "1" })
    enter(terminal, "[1, 'a', :b, nil]")
    assert_includes terminal.raw, "=> [1, \"a\", :b, nil]"
    leave(terminal)
  end

  test "a result longer than the screen goes through the pager" do
    target = start("shop")
    terminal = console(target, env: { "PAGER" => "sed s/^/paged:/" })
    assert_equal "=> 1\n", enter(terminal, "1")
    assert_match(/\Apaged:=> \[0, 1, 2/, enter(terminal, "(0...2000).to_a"))
    leave(terminal)
  end

  # --- Ctrl-C, Ctrl-D

  { "sleep" => "sleep", "a loop" => "loop {}",
    "a loop that rescues" => "loop { begin; sleep; rescue StandardError; end }" }.each do |what, code|
    test "Ctrl-C ends #{what} and not the console, more than once" do
      target = start_quiet("shop")
      terminal = console(target)
      enter(terminal, "x = 3")
      2.times do
        terminal.enter("puts 'begun'; #{code}")
        terminal.expect(/^begun\n/)
        terminal.type(CTRL_C)
        assert_match(/^cancelled$/, terminal.expect(prompt))
      end
      assert_equal "=> 3\n", enter(terminal, "x")
      leave(terminal)
      assert_clean(target)
    end
  end

  test "many a Ctrl-C at once ends the line, not the console" do
    target = start("shop")
    terminal = console(target)
    terminal.enter("puts 'begun'; begin; sleep; ensure; 3.times { Thread.pass }; end")
    terminal.expect(/^begun\n/)
    5.times { terminal.signal(:INT) }
    terminal.expect(prompt)
    # The last may have come when the prompt was there.
    terminal.type("\r")
    assert_match(/^=> 2$/, enter(terminal, "1 + 1", /=> 2\n#{target.pid} main> \z/) + "=> 2\n")
    leave(terminal)
  end

  test "Ctrl-C at the prompt drops what was entered" do
    target = start("shop")
    terminal = console(target)
    terminal.type("1 + 1")
    terminal.expect(/1 \+ 1\z/)
    terminal.type(CTRL_C)
    terminal.expect(/\^C\n#{target.pid} main> \z/)
    enter(terminal, "[1,", prompt("main", "\\*"))
    terminal.type(CTRL_C)
    terminal.expect(/\^C\n#{target.pid} main> \z/)
    assert_equal "=> 2\n", enter(terminal, "2")
    leave(terminal)
  end

  test "Ctrl-D leaves in the middle of an expression, too" do
    terminal = console(start("shop"))
    enter(terminal, "[1,", prompt("main", "\\*"))
    leave(terminal)
  end

  test "exit and quit leave the console, not the process" do
    target = start("shop")
    %w[exit quit].each do |word|
      terminal = console(target)
      terminal.enter(word)
      assert_equal 0, terminal.wait
    end
    terminal = console(target)
    assert_match(/SystemExit/, enter(terminal, "Kernel.exit(3)"))
    leave(terminal)
    assert_equal "3", target.run("1 + 2")
  end

  # --- The end of the process, or of the console

  test "the process is killed while the console is at its prompt" do
    target = start("shop")
    terminal = console(target)
    target.signal(:KILL)
    assert_equal 4, terminal.wait
    assert_match(/rbprobe: process #{target.pid} has ended/, terminal.text)
  end

  test "the process ends by itself while the console is at its prompt" do
    target = start("shop")
    terminal = console(target)
    target.run_in_background("exit")
    assert_equal 4, terminal.wait
    assert_match(/rbprobe: process #{target.pid} has ended/, terminal.text)
  end

  test "the process calls exec" do
    target = start("shop")
    terminal = console(target)
    target.run_in_background("exec 'sleep', '1000'")
    assert_equal 4, terminal.wait
    assert_match(/has replaced itself by another program \(exec\)/, terminal.text)
  end

  test "the process is killed while a line runs" do
    target = start("shop")
    terminal = console(target)
    terminal.enter("puts 'begun'; sleep")
    terminal.expect(/^begun\n/)
    target.signal(:KILL)
    assert_equal 4, terminal.wait
    assert_match(/rbprobe: process #{target.pid} was killed by signal 9 \(Killed\) before it had answered/, terminal.text)
  end

  test "the console is killed while a line runs: the line ends" do
    target = start_quiet("shop")
    terminal = console(target)
    terminal.enter("puts 'begun'; begin; sleep; ensure; $ended = true; end")
    terminal.expect(/^begun\n/)
    terminal.kill
    wait_until("the line has ended") { target.run("$ended") == "true" }
    assert_clean(target)
  end

  test "TERM ends the console and gives the terminal back" do
    target = start_quiet("shop")
    terminal = console(target)
    refute terminal.as_usual?
    terminal.signal(:TERM)
    assert_equal 128 + 15, terminal.wait
    assert terminal.as_usual?
    assert_clean(target)
  end

  test "the terminal goes away: so does the console, and its line" do
    target = start_quiet("shop")
    terminal = console(target)
    terminal.enter("puts 'begun'; begin; sleep; ensure; $ended = true; end")
    terminal.expect(/^begun\n/)
    terminal.hang_up
    assert_equal 128 + 1, terminal.wait
    wait_until("the line has ended") { target.run("$ended") == "true" }
    assert_clean(target)
  end

  test "a line in C code that cannot be cancelled is left there, when the person wants" do
    target = start("shop")
    terminal = console(target, "--timeout", "0.5")
    terminal.enter("3.pow(7**60000, 11**60000)")
    terminal.expect(/\n/)
    wait_until_it_computes(target.pid)
    terminal.type(CTRL_C)
    terminal.expect(/rbprobe: it has not ended yet: .*Ctrl-C leaves it there/)
    assert terminal.running?
    terminal.type(CTRL_C)
    assert_equal 1, terminal.wait
    abandon(target)
  end

  test "a process that does not come to a safe point, or is stopped, is waited for" do
    target = start("shop")
    terminal = console(target, "--timeout", "0.5")
    target.signal(:STOP)
    wait_until("it is stopped") { Processes.status_of(target.pid, "State").start_with?("T") }
    # There are no candidates then, and what is typed meanwhile is not lost.
    terminal.type("$sho#{TAB}x")
    terminal.expect(/\$shox\z/)
    drop(terminal)
    terminal.enter("$shop")
    terminal.expect(/rbprobe: process #{target.pid} is stopped; waiting/)
    target.signal(:CONT)
    assert_match(/#<Shop/, terminal.expect(prompt))
    target.run_in_background("3.pow(7**60000, 11**60000)")
    wait_until_it_computes(target.pid)
    terminal.enter("1")
    terminal.expect(/rbprobe: process #{target.pid} has not come to a safe point yet: C code holds its GVL/)
    terminal.type(CTRL_C)
    terminal.expect(/Ctrl-C leaves it there/)
    terminal.type(CTRL_C)
    assert_equal 1, terminal.wait
    abandon(target)
  end

  test "two consoles of one process do not mix" do
    target = start("shop")
    first = console(target)
    second = console(target)
    enter(first, "x = 1")
    enter(second, "x = 2")
    first.enter("puts x; sleep 0.01 until $released; x")
    first.expect(/^1\n/)
    assert_equal "2\n=> nil\n", enter(second, "puts x")
    enter(second, "$released = true")
    assert_match(/\A=> 1\n/, first.expect(prompt))
    leave(second)
    assert_equal "=> 1\n", enter(first, "x")
    leave(first)
  end

  # --- History

  test "history across two runs, with an expression of several lines as one entry" do
    target = start("shop")
    terminal = console(target)
    enter(terminal, "[4,", prompt("main", "\\*"))
    enter(terminal, "2].sum")
    enter(terminal, " 'secret'")
    leave(terminal)
    file = "#{@state}/rbprobe/console_history"
    assert_equal "[4,\\n2].sum\n", File.read(file)
    assert_equal 0o600, File.stat(file).mode & 0o777

    terminal = console(target)
    terminal.type(UP)
    terminal.expect(/2\]\.sum/)
    terminal.type("\r")
    assert_match(/^=> 6\n/, terminal.expect(prompt))
    leave(terminal)
  end

  test "consoles side by side lose nothing of the history, and it does not grow for ever" do
    target = start("shop")
    consoles = Array.new(3) { console(target) }
    10.times { |i| consoles.each_with_index { |terminal, n| enter(terminal, "#{n}#{i} + 0") } }
    consoles.each { |terminal| leave(terminal) }
    file = "#{@state}/rbprobe/console_history"
    assert_equal 10.times.flat_map { |i| 3.times.map { |n| "#{n}#{i} + 0" } }.sort, File.readlines(file, chomp: true).sort

    File.write(file, (1..5000).map { |i| "#{i}\n" }.join)
    leave(console(target))
    assert_equal (3001..5000).map { |i| "#{i}\n" }.join, File.read(file)
  end

  test "a history that cannot be kept is no obstacle" do
    target = start("shop")
    path = "#{directory}/file"
    File.write(path, "")
    terminal = console(target, env: { "XDG_STATE_HOME" => path })
    assert_match(/not kept for another time: Not a directory/, terminal.text)
    assert_equal "=> 2\n", enter(terminal, "2")
    leave(terminal)
  end

  # --- Completion

  # What TAB makes of a line.
  def completed(terminal, line, pattern)
    terminal.type("#{line}#{TAB}")
    text = terminal.expect(pattern)
    drop(terminal)
    text
  end

  def drop(terminal)
    terminal.type(CTRL_C)
    terminal.expect(/\^C\n#{@target.pid} \S+> \z/)
  end

  # What is listed at a second TAB.
  def candidates(terminal, line)
    terminal.type("#{line}#{TAB}#{TAB}")
    text = terminal.expect(/^#{@target.pid} main> #{Regexp.escape(line)}\z/)
    terminal.type(CTRL_C)
    terminal.expect(prompt)
    text.lines[1..-2].join.split
  end

  test "TAB completes from what the process has" do
    terminal = console(start("shop"))
    enter(terminal, "kipfel = $shop; @crumb = 'abc'; module Pantry; class Shelf; end; HAM = 1; end")
    enter(terminal, "class Shop; @@till = {}; end")
    completed(terminal, "Sho", /Shop\z/)
    completed(terminal, "Pantry::She", /Pantry::Shelf\z/)
    completed(terminal, "kip", /kipfel\z/)
    completed(terminal, "kipfel.sell_", /kipfel\.sell_all\z/)
    completed(terminal, "puts kipfel&.coun", /kipfel&\.countdown\z/)
    completed(terminal, "$sho", /\$shop\z/)
    completed(terminal, "$shop.first_i", /\$shop\.first_item\z/)
    completed(terminal, "@cr", /@crumb\z/)
    completed(terminal, "@crumb.upc", /@crumb\.upcase\z/)
    completed(terminal, "kipfel.owner.upc", /kipfel\.owner\.upcase\z/)
    completed(terminal, "Shop.new.each_tw", /Shop\.new\.each_twice\z/)
    completed(terminal, "'x'.upc", /'x'\.upcase\z/)
    completed(terminal, "[1, 2].each_sl", /each_slice\z/)
    completed(terminal, "{a: 1}.each_pa", /each_pair\z/)
    completed(terminal, "x = [:sell_", /:sell_all\z/)
    completed(terminal, "conso", /console\z/)
    completed(terminal, "self.conso", /self\.console\z/)
    assert_equal %w[HAM Shelf], candidates(terminal, "Pantry::")
    assert_equal %w[sell sell_all], candidates(terminal, "kipfel.sell")
    enter(terminal, "cd Shop", prompt("Shop"))
    terminal.type("@@ti#{TAB}")
    terminal.expect(/@@till\z/)
    drop(terminal)
    leave(terminal)
  end

  test "completion runs no code of the application" do
    target = start("shop")
    terminal = console(target)
    target.run(<<~RUBY)
      $calls = []
      class Nosy < BasicObject
        def self.name; $calls << :name; "x"; end
        def self.const_missing(name); $calls << :const_missing; 1; end
        def self.instance_methods(*); $calls << :instance_methods; []; end
        def inspect; $calls << :inspect; ""; end
        def methods; $calls << :methods; []; end
        def method_missing(*); $calls << :method_missing; self; end
        def respond_to_missing?(*); $calls << :respond_to_missing; true; end
        def other; $calls << :other; self; end
        autoload :Never, "/nonexistent/never"
      end
      $nosy = Nosy.new; $nosy_class = Nosy
      1
    RUBY
    ["$nosy.oth", "$nosy.other.x", "$nosy.unknown.x", "Nosy::Ne", "Nosy::Never.x", "Nosy::Nope.x", "Nosy.insta",
     "$nosy[1].x"].each do |line|
      terminal.type("#{line}#{TAB}#{TAB}")
      terminal.expect(/#{Regexp.escape(line)}/)
      drop(terminal)
    end
    assert_equal "[]", target.run("$calls")
    leave(terminal)
  end

  # --- cd, ls, source, help

  test "cd changes self, which the prompt shows without asking the application" do
    target = start("shop")
    terminal = console(target)
    enter(terminal, "x = 1")
    enter(terminal, "class Shop; def inspect; raise 'inspect'; end; end")
    inside = /^#{target.pid} #<Shop:0x\h+>> \z/
    assert_equal "", enter(terminal, "cd $shop", inside)
    assert_equal "=> [\"Ada\", 1]\n", enter(terminal, "[@owner, x]", inside)
    assert_equal "=> 2\n", enter(terminal, "x = 2; y = 5; x", inside)
    assert_equal "", enter(terminal, "cd 'text'", prompt('"text"'))
    assert_equal "=> 4\n", enter(terminal, "size", prompt('"text"'))
    enter(terminal, "cd ..", inside)
    assert_equal "=> 5\n", enter(terminal, "y", inside)
    enter(terminal, "cd Shop", prompt("Shop"))
    assert_equal "=> Shop::SoldOut\n", enter(terminal, "SoldOut", prompt("Shop"))
    assert_equal "=> :fresh\n", enter(terminal, "def fresh; 7; end", prompt("Shop"))
    enter(terminal, "cd /")
    assert_equal "=> [7, 2]\n", enter(terminal, "[$shop.fresh, x]")
    assert_match(/no_such_thing/, enter(terminal, "cd no_such_thing"))
    enter(terminal, "cd ..")
    leave(terminal)
  end

  test "ls lists what self or an object has, its own before what it inherits" do
    terminal = console(start("shop"))
    enter(terminal, "class Stall < Shop; def cry; end; def sell; end; end; x = Stall.new")
    listing = enter(terminal, "ls x")
    assert_match(/\AStall#\n  cry  sell\nShop#\n  countdown  .*price.*^instance variables\n  @owner  @stock\n\z/m, listing)
    refute_match(/Kernel\#|Object\#/, listing)
    assert_match(/^Kernel\#$/, enter(terminal, "ls -a x"))
    listing = enter(terminal, "ls Shop")
    assert_match(/\Aconstants\n  SoldOut\nShop\.\n  open\nShop#\n/, listing)
    assert_match(/^local variables\n  _  x\n\z/, enter(terminal, "ls"))
    assert_match(/^Object# \(private\)\n  console$/, enter(terminal, "ls"))
    # Where it could be meant as Ruby, it is Ruby.
    assert_equal "=> 3\n", enter(terminal, "ls = 3")
    leave(terminal)
  end

  test "source shows where a method is and its lines" do
    target = start("shop")
    terminal = console(target)
    path = Regexp.escape("#{Processes::ROOT}/tests/apps/shop.rb")
    shown = /\AShop#price  #{path}:16\n    16  \s+def price\(item\)\n    17 .*\n    18 \s+end\n\z/
    assert_match shown, enter(terminal, "source Shop#price")
    assert_match shown, enter(terminal, "source $shop.price")
    assert_match(/\AShop\.open  .*shop\.rb:\d+\n.*def self\.open/, enter(terminal, "source Shop.open"))
    assert_match(/\AObject#console  .*console\.rb/, enter(terminal, "source console"))
    assert_match(/\AShop#owner  .*shop\.rb:8\n .*attr_accessor :owner\n\z/, enter(terminal, "source $shop.owner"))
    assert_equal "String#upcase  (it is not written in Ruby)\n", enter(terminal, "source String#upcase")
    assert_equal "rbprobe: there is no such method: nope\n", enter(terminal, "source Shop#nope")
    enter(terminal, "def made; end")
    enter(terminal,
          "made_later = '/tmp/late-#{target.pid}.rb'; " \
          "File.write(made_later, \"class Late\\n  def come\\n    1\\n  end\\nend\\n\")")
    enter(terminal, "load made_later; File.utime(Time.now + 60, Time.now + 60, made_later)")
    assert_match(
      /\ALate#come  \/tmp\/late-#{target.pid}\.rb:2  \(the file is younger than the process: .*\)\n     2    def come\n/,
      enter(terminal, "source Late#come")
    )
    enter(terminal, "File.delete(made_later)")
    assert_match(/\AObject#made  \(rbprobe\):1  \(the source cannot be read: No such file/, enter(terminal, "source made"))
    leave(terminal)
  end

  test "help" do
    terminal = console(start("shop"))
    text = enter(terminal, "help")
    %w[ls cd source exit].each { |word| assert_match(/^  #{word}/, text) }
    leave(terminal)
  end

  # --- The terminal

  test "the window changes its size" do
    terminal = console(start("shop"))
    terminal.resize(50, 30)
    # Readline knows the new width when it breaks the line there.
    terminal.type("1" * 40)
    terminal.expect(/1{40}|(1+ \r1+)/)
    terminal.resize(24, 120)
    terminal.type("\r")
    terminal.expect(prompt)
    leave(terminal)
  end

  test "Ctrl-Z and back" do
    terminal = console(start("shop"))
    terminal.type("1 + ")
    terminal.expect(/1 \+ \z/)
    # The terminal has no shell that would stop and go on: the signals are sent.
    terminal.signal(:STOP)
    wait_until("it is stopped") { Processes.status_of(terminal.pid, "State").start_with?("T") }
    terminal.signal(:CONT)
    terminal.type("1\r")
    assert_match(/^=> 2\n/, terminal.expect(prompt))
    leave(terminal)
  end

  # --- Without a terminal

  test "a script: results on standard output, and the exit status" do
    target = start_quiet("shop")
    result = script(target, "x = 20\n[1,\n 2]\n\n_.sum + x\nputs 'hi'\ncd $shop\n@owner\n")
    assert_exit 0, result
    assert_equal "=> 20\n=> [1, 2]\n=> 23\nhi\n=> nil\n=> \"Ada\"\n", result.stdout
    assert_equal "", result.stderr
    assert_clean(target)
  end

  test "a script in which something raises goes on, and its exit status is 1" do
    target = start("shop")
    result = script(target, "1\nraise 'no'\n2\n")
    assert_exit 1, result
    assert_equal "=> 1\n=> 2\n", result.stdout
    assert_match(/no \(RuntimeError\)/, result.stderr)
  end

  test "a script that ends in the middle of an expression" do
    target = start("shop")
    result = script(target, "1\n[2,")
    assert_exit 1, result
    assert_equal "=> 1\n", result.stdout
    assert_match(/\(rbprobe\)/, result.stderr)
  end

  test "the end of the process ends a script" do
    target = start("shop")
    result = script(target, "1\nProcess.kill(:KILL, $$); sleep\n2\n")
    assert_exit 4, result
    assert_equal "=> 1\n", result.stdout
    assert_match(/process #{target.pid} was killed by signal 9/, result.stderr)
  end

  test "Ctrl-C ends a script" do
    target = start_quiet("shop")
    path = "#{directory}/script"
    File.write(path, "$begun = true; sleep\n2\n")
    tracer = launch("console", "-p", target.pid.to_s, stdin: path)
    wait_until("it runs") { target.run("$begun") == "true" }
    result = tracer.stop
    assert_exit 1, result
    assert_equal "", result.stdout
    assert_clean(target)
  end

  test "wrong usage" do
    assert_refused 2, /console needs -p PID/, "console"
    assert_refused 2, /takes no argument such as "x"/, "console", "-p", "1", "x"
    assert_refused 2, /console takes one process/, "console", "-p", "1,2"
  end
end
