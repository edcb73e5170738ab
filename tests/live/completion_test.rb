# Completion by shells: everything that --help lists, and what the options take. bash, zsh and fish themselves ask for it.

require_relative "helper"

class CompletionTest < LiveTest
  SCRIPTS = "#{Processes::ROOT}/completion".freeze
  SUBCOMMANDS = IO.popen([Processes::RBPROBE, "--help"], &:read).scan(/^  (\w[\w-]*)/).flatten.freeze
  PARSERS = (SUBCOMMANDS - ["heap"]).map { |name| [name] }.push(%w[heap dump], %w[heap report], %w[heap leak]).freeze

  PATH = "#{File.dirname(Processes::RBPROBE)}:#{ENV.fetch("PATH")}".freeze

  # What bash would complete: for each list of words one list of answers, by one shell.
  def bash(*lines)
    calls = lines.map do |words|
      line = ["rbprobe", *words].map { |word| word.empty? ? word : Shellwords.escape(word).gsub("\\=", "=") }.join(" ")
      "COMP_LINE=#{Shellwords.escape(line)}; COMP_POINT=${#COMP_LINE}; _rbprobe; printf '%s\\n' \"${COMPREPLY[@]}\" .\n"
    end
    # The breaks that bash has where readline is at work.
    script = "source #{SCRIPTS}/rbprobe.bash; COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\n#{calls.join}"
    answer = IO.popen([{ "PATH" => PATH }, "bash", "--norc", "-c", script], err: %i[child out], &:read)
    answer.split(/^\.\n/, -1)[0, lines.size].map { |lines_of_one| lines_of_one.split("\n").reject(&:empty?) }
  end

  def help(words)
    IO.popen([Processes::RBPROBE, *words, "--help"], &:read).gsub(/\|\n +/, "|") # words that did not fit one line
  end

  # Its options as --help has them: the letter or nil, the name, and what it takes or nil.
  def options(words)
    help(words).scan(/^ +(?:-(\S), +)?--([a-z][a-z-]*)(?:\[?=(\S+?)\]?)?(?=\s)/).uniq { |_, name| name }
  end

  test "the subcommands, their other names, and their verbs" do
    first, help, verbs, one = bash([""], ["help", ""], ["heap", ""], ["tr"])
    assert_empty SUBCOMMANDS - first
    assert_includes first, "bt"
    assert_empty SUBCOMMANDS - help
    assert_equal %w[dump report leak --help], verbs
    assert_equal %w[trace tracers], one
  end

  test "every option, long and short, of every subcommand" do
    PARSERS.each do |words|
      all = options(words)
      assert_operator all.size, :>=, 2, words
      dash, = bash([*words, "-"])
      assert_equal all.flat_map { |letter, name,| [letter && "-#{letter}", "--#{name}"] }.compact.sort, dash.sort, words
      answers = bash(*all.map { |_, name,| [*words, "--#{name}"] })
      all.zip(answers) { |(_, name, _), answer| assert_includes answer, "--#{name}" }
    end
  end

  test "the words that an option takes, each of which it does take" do
    PARSERS.each do |words|
      options(words).each do |_, name, argument|
        next unless argument&.match?(%r{\A[a-z][a-z0-9./|]*\|[a-z0-9./|]+\z})

        choices = argument.split("|")
        assert_equal [choices, choices], bash([*words, "--#{name}", ""], [*words, "--#{name}="]), name
        choices.each { |choice| refute_match(/takes/, rbprobe(*words, "--#{name}=#{choice}").stderr) }
      end
    end
  end

  test "a value in every spelling" do
    assert_equal [%w[json], %w[json], %w[json], %w[json], %w[patch]],
                 bash(%w[trace --format j], %w[trace --format =j], %w[trace --format=j], %w[trace --form j],
                      %w[exec -yn --engine p])
    assert_equal [%w[cpu,gc], %w[cpu alloc gc span], %w[cpu,alloc cpu,gc cpu,span], []],
                 bash(%w[trace --measure cpu,g], ["trace", "--measure", ""], %w[trace --measure cpu,], ["trace", "--slow", ""])
    # What is optional stands in the same word.
    assert_equal [%w[-p]], bash(["trace", "--stack", ""])
  end

  test "the PIDs of Ruby processes" do
    target = start("shop")
    pid = target.pid.to_s
    answers = bash(["trace", "-p", ""], ["bt", "--pid="], ["trace", "-p", "1,"], ["trace", "-p#{pid}"],
                   ["eval", "-qp", pid])
    assert_includes answers[0], pid
    assert_includes answers[1], pid
    assert_includes answers[2], "1,#{pid}"
    assert_includes answers[3], "-p#{pid}"
    assert_equal [pid], answers[4]
    other = spawn("sleep", "60")
    refute_includes bash(["trace", "-p", ""]).first, other.to_s
  ensure
    if other
      Process.kill(:KILL, other)
      Process.wait(other)
    end
  end

  test "files and programs" do
    File.write("#{site = directory}/dump.json", "")
    expected = ["#{site}/dump.json"]
    start = "#{site}/du"
    assert_equal [expected] * 5,
                 bash(["heap", "report", start], ["trace", "-o", start], ["eval", "--file", start],
                      ["exec", "x", "--", "ruby", start], ["trace", "--output=#{start}"])
    assert_includes bash(["exec", "sleep", "--", "/usr/bin/en"]).first, "/usr/bin/env"
  end

  test "tracers, which are names or files" do
    File.write("#{site = directory}/mine.tracer", "")
    names, sql, whole, two, file = bash(["trace", "-c", ""], ["trace", "-c", "sq"], ["stat", "--tracer=sq"],
                                        ["trace", "-c", "http,sq"], ["trace", "-c", "#{site}/mi"])
    assert_empty %w[sql http redis rails] - names
    assert_equal [["sql"], ["sql"], ["http,sql"], ["#{site}/mine.tracer"]], [sql, whole, two, file]
  end

  test "where there is nothing to complete, nothing is" do
    assert_equal [[], [], [], []],
                 bash(["nonsense", ""], ["trace", "-p", "1", "Order"], ["trace", "--nonsense="], ["heap", "nonsense", ""])
  end

  # --- Selectors, asked from the process

  NAMES = <<~'RUBY'.freeze
    class Order
      class Item
        def price; end
      end

      def save; end
      def save!; end
      def total=(value); end

      def self.create; end

      private

      def sanitize; end
    end

    module Orders
      module Late
        def self.of(order); end
      end
    end

    class Bang
      def !=(other); end
      ["a!!:s^x^|y", "b!c", "save!"].each { |name| define_method(name) {} }
    end

    class Evil
      def !=(other); end
      def [](key); end
      def ok=(value); end
      ["[", "e|f", "g&h", "d<e", "\u00fcml", "a\u0001b", "new\nline", "n" * 9000, "in\xffvalid".b, "{", "two words", "\e[31m",
       "$(id)", "c;d", "r\u202etl", "nb\u00a0sp", "st*ar", "b\\s", "q\"q", "s'q", "a:12", "del\x7f", "c1\u0085",
       "\u200bz"].each do |name|
        define_method(name) {}
      end
    end
  RUBY

  PLAIN_OF_EVIL = ["!=", "[", "[]", "d<e", "e|f", "g&h", "ok=", "\u00fcml"].map { |name| "Evil##{name}" }.sort.freeze

  def start_with_names(**options)
    start("shop", **options).tap { |target| target.run(NAMES) }
  end

  # What rbprobe offers, without what it means. A TAB that finds nothing says nothing either.
  def offered(*words)
    result = rbprobe("--complete", *words.map(&:to_s))
    assert_exit 0, result
    assert_empty result.stderr
    result.stdout.dup.force_encoding(Encoding::UTF_8).lines.map { |line| line.chomp.split("\t", -1).first }
  end

  def maps_extension?(target)
    File.read("/proc/#{target.pid}/maps").include?("rbprobe.so")
  end

  test "selectors of a process: its classes and modules, and their methods" do
    pid = start_with_names.pid
    assert_equal %w[Order# Order. Order:: Orders::], offered("trace", "-p", pid, "Ord")
    assert_equal %w[Order::Item#], offered("trace", "-p", pid, "Order::")
    assert_equal %w[::Orders::Late.], offered("trace", "-p", pid, "::Orders::L")
    assert_equal %w[Order#sanitize Order#save Order#save!], offered("trace", "-p", pid, "Order#sa")
    assert_equal %w[Order#sanitize Order#save Order#save! Order#total=], offered("trace", "-p", pid, "Order#")
    assert_equal %w[Order.create], offered("trace", "-p", pid, "Order.cr")
    assert_equal [[]] * 7, ["", "Ordr", "Ordr#", "Ord*", "Order#sa*", "Order#save(", "order.rb:1"].map { |word|
      offered("trace", "-p", pid, word) - ["-p"]
    }
  end

  test "selectors for every subcommand and option that takes them, of a process in every spelling" do
    pid = start_with_names.pid
    %w[trace stat top record methods].each { |name| assert_equal %w[Order.create], offered(name, "-p", pid, "Order.c"), name }
    [["-p#{pid}"], ["--pid", pid], ["--pid=#{pid}"], ["--pi=#{pid}"], ["-vp", pid], [pid], ["-p", "#{pid},1"],
     ["-p", pid, "--slow", "5"], ["-p", pid, "-m"], ["-p", pid, "Kernel#puts"], ["-p", pid, "--"]].each do |words|
      assert_equal %w[Order.create], offered("trace", *words, "Order.c"), words
    end
    assert_equal %w[--within=Order.create], offered("trace", "-p", pid, "--within=Order.c")
    assert_equal %w[Order.create], offered("trace", "-p", pid, "--outside", "Order.c")
    assert_equal %w[Order.create], offered("trace", "-p", pid, "--slow", "5", "--always", "Order.c")
    assert_equal %w[-mOrder.create], offered("stat", "-p", pid, "-mOrder.c")
    assert_empty offered("exec", "-p", pid, "Order.c")
    assert_empty offered("eval", "-p", pid, "Order.c")
  end

  test "names that no terminal and no shell should get are not offered" do
    target = start_with_names
    assert_equal PLAIN_OF_EVIL, offered("trace", "-p", target.pid, "Evil#").sort
    target.run("20_000.times { |i| Evil.define_method(format('many_%06d', i)) {} }")
    result = rbprobe("--complete", "trace", "-p", target.pid.to_s, "Evil#many_")
    assert_operator result.stdout.bytesize, :<=, 128 << 10
    assert_match(/\A(Evil#many_\d{6}\t\n)+\z/, result.stdout)
  end

  test "a process that does not answer: nothing is offered, and the shell goes on" do
    target = start_with_names
    Process.kill(:STOP, target.pid)
    wait_until("it is stopped") { Processes.status_of(target.pid, "State").start_with?("T") }
    began = Processes.now
    assert_empty offered("trace", "-p", target.pid, "Order#")
    assert_operator Processes.now - began, :<, 10 * Processes::PATIENCE
    Process.kill(:CONT, target.pid)
    assert_equal %w[Order.create], offered("trace", "-p", target.pid, "Order.")
  end

  # A process that keeps the GVL until the file is there.
  def start_that_holds
    path = compile_extension("holder")
    target = start("shop")
    target.run("require '#{path}/holder.so'")
    target.run_in_background("Holder.hold('#{path}/release', false)")
    wait_until_it_computes(target.pid)
    [target, "#{path}/release"]
  end

  def let_go(target, release)
    File.write(release, "")
    assert_equal "1", target.answer
    wait_until("its queue is gone") { Leftovers.queues_of([target]).empty? }
  end

  test "a process whose C code keeps the GVL: the shell waits for some seconds, and nothing stays behind" do
    target, release = start_that_holds
    began = Processes.now
    assert_empty offered("trace", "-p", target.pid, "Shop#")
    assert_operator Processes.now - began, :<, 10 * Processes::PATIENCE
    let_go(target, release)
    assert_includes offered("trace", "-p", target.pid, "Shop#"), "Shop#sell"
  end

  test "a shell that is killed while it waits: what asks for it holds nothing of the shell's, and ends, too" do
    target, release = start_that_holds
    pid = spawn(Processes::RBPROBE, "--complete", "trace", "-p", target.pid.to_s, "Shop#", out: File::NULL, err: File::NULL)
    child = wait_until("a child asks") { File.read("/proc/#{pid}/task/#{pid}/children")[/\d+/] }
    wait_until("it is on its own") { File.read("/proc/#{child}/stat").split(") ").last.split[3] == child }
    Process.kill(:KILL, pid)
    Process.wait(pid)
    wait_until("it has ended") { (Processes.status_of(child, "State") || "Z").start_with?("Z") }
    let_go(target, release)
  end

  test "a child that is killed while it asks" do
    target, release = start_that_holds
    reader, writer = IO.pipe
    pid = spawn(Processes::RBPROBE, "--complete", "trace", "-p", target.pid.to_s, "Shop#", out: writer, err: writer)
    writer.close
    child = wait_until("a child asks") { File.read("/proc/#{pid}/task/#{pid}/children")[/\d+/] }
    wait_until("it is on its own") { File.read("/proc/#{child}/stat").split(") ").last.split[3] == child }
    shells = File.readlink("/proc/self/fd/#{reader.fileno}")
    wait_until("it has closed the shell's pipe") do
      Dir["/proc/#{child}/fd/*"].none? { |path| (File.readlink(path) rescue nil) == shells }
    end
    Process.kill(:KILL, Integer(child))
    assert_empty reader.read
    Process.wait(pid)
    let_go(target, release)
  ensure
    reader&.close
  end

  test "TAB loads the extension only where the command would" do
    target = start("shop", load: false)
    pid = target.pid
    [["--children", "-p", pid], ["--ps", "shop.rb"], ["--ps", "shop.rb", "--all"], ["--wait", "shop.rb"], ["--all", "-p", pid],
     ["--ps", "shop.rb", "-p", pid], ["--help", "-p", pid], ["-h", "-p", pid], ["-?", "-p", pid], ["--usage", "-p", pid],
     ["--dry-run", "-p", pid], ["-Z", "-p", pid], ["-p", "#{pid}x"], ["-p", "#{pid}.0"], ["-p", "-#{pid}"], ["--pid="],
     ["-p", pid, "--slow", "x"], ["-p", pid, "--no-load"], ["-p", pid, "Order#a#b"], ["-p", "99999999,#{pid}"],
     []].each do |words|
      assert_empty offered("trace", *words, "Shop#") - %w[-p], words
    end
    ["", "sh", "Sh*", "Shop#*", "Shop#sell(", "-", "--within"].each { |word| offered("trace", "-p", pid, word) }
    refute maps_extension?(target)
    assert_includes offered("trace", "-p", pid, "Shop#"), "Shop#sell"
    assert maps_extension?(target)
  end

  # What bash would complete of a line that is typed.
  def bash_line(line)
    script = "source #{SCRIPTS}/rbprobe.bash; COMP_LINE=#{Shellwords.escape(line)}; COMP_POINT=${#COMP_LINE}; _rbprobe; " \
             "printf '%s\\n' \"${COMPREPLY[@]}\""
    IO.popen([{ "PATH" => PATH, "LC_ALL" => "C.UTF-8" }, "bash", "--norc", "-c", script], err: %i[child out], &:read).split("\n")
  end

  test "bash: selectors are quoted for the line, and stand for the part that bash replaces" do
    pid = start_with_names.pid
    start = "rbprobe trace -p #{pid} "
    assert_equal ['Evil#\!=', 'Evil#\[', 'Evil#\[\]', 'Evil#d\<e', 'Evil#e\|f', 'Evil#g\&h', "Evil#ok=", "Evil#\u00fcml"],
                 bash_line("#{start}Evil#")
    assert_equal ['Evil#\[', 'Evil#\[\]'], bash_line("#{start}Evil#\\[")
    assert_equal ["Evil#e|f"], bash_line("#{start}'Evil#e")
    assert_equal ["Evil#e|f"], bash_line("#{start}\"Evil#e")
    # The history is expanded in there, and a name could make a command of it.
    assert_equal ["Bang#save!"], bash_line("#{start}\"Bang#")
    assert_equal ['Bang#\\!=', 'Bang#a\\!\\!:s\\^x\\^\\|y', 'Bang#b\\!c', 'Bang#save\\!'], bash_line("#{start}Bang#")
    assert_equal ["Item#"], bash_line("#{start}'Kernel#*' Order::It")
    assert_equal ["Late."], bash_line("#{start}--within=Orders::")
    assert_equal [["Item#"], ["Item#"], ["Evil#ok="]],
                 bash(["trace", "-p", pid.to_s, "Order::"], ["trace", "-p", pid.to_s, "Order::It"],
                      ["trace", "-p", pid.to_s, "Evil#ok"])
  end

  # Types into a shell until it has printed what is expected.
  def typed(command, line, expected)
    require_relative "terminal"
    PTY.spawn({ "PATH" => PATH, "TERM" => "dumb", "HOME" => directory, "PS1" => "> " }, *command) do |reader, writer, pid|
      seen = +""
      read = -> { seen << reader.read_nonblock(65_536, exception: false).to_s.delete_prefix("wait_readable") }
      yield writer
      writer.puts "echo r''eady"
      Processes.wait_until(-> { "the shell is ready: #{seen}" }) { read.call.include?("ready") }
      writer.write line
      Processes.wait_until(-> { "it completes: #{seen.inspect}" }) { read.call.match?(expected) }
      Process.kill(:KILL, pid)
    end
  end

  test "bash" do
    typed(%w[bash --norc --noprofile -i], "rbprobe sta\t--form\t=js\t", /rbprobe stat --format =?json/) do |writer|
      writer.puts "source #{SCRIPTS}/rbprobe.bash"
    end
  end

  test "bash, typed: a selector" do
    pid = start_with_names.pid
    typed(%w[bash --norc --noprofile -i], "rbprobe trace -p #{pid} Order::\tpr\tEvil#e\tOrders\t,",
          /Order::Item#price Evil#e\\\|f Orders::,/) do |writer|
      writer.puts "source #{SCRIPTS}/rbprobe.bash"
    end
  end

  test "zsh" do
    skip "needs zsh" unless system("command -v zsh >/dev/null")
    typed(%w[zsh -f -i], "rbprobe trace --form\t", /trace [ \b]*--format/) do |writer|
      writer.puts "fpath=(#{SCRIPTS} $fpath); autoload -Uz compinit; compinit -u -D"
    end
  end

  test "zsh, typed: tracers, and files beside them" do
    skip "needs zsh" unless system("command -v zsh >/dev/null")
    File.write("#{site = directory}/mine.tracer", "")
    typed(%w[zsh -f -i], "rbprobe trace -c sq\t --tracer=sq\t -c mi\t,",
          /-c sql [ \b]*--tracer=sql [ \b]*-c mine\.tracer [ \b]*,/) do |writer|
      writer.puts "cd #{site}; fpath=(#{SCRIPTS} $fpath); autoload -Uz compinit; compinit -u -D"
    end
  end

  test "zsh, typed: a selector" do
    skip "needs zsh" unless system("command -v zsh >/dev/null")
    pid = start_with_names.pid
    typed(%w[zsh -f -i], "rbprobe trace -p #{pid} Order::\tpr\tEvil#e\tOrders\t,",
          /Order::Item\\?#price [ \b]*Evil#e[\b]+\\#e\\\|f [ \b]*Orders::,/) do |writer|
      writer.puts "stty columns 300; fpath=(#{SCRIPTS} $fpath); autoload -Uz compinit; compinit -u -D"
    end
  end

  test "fish: selectors" do
    skip "needs fish" unless system("command -v fish >/dev/null")
    pid = start_with_names.pid
    answers = ["Ord", "Order::", "Order::It", "'Order.c", "Evil#\\\\[", "'Order#*' Order.c"].map do |line|
      line = "rbprobe trace -p #{pid} #{line}".gsub("'") { "\\'" }
      IO.popen([{ "PATH" => PATH, "HOME" => directory, "LC_ALL" => "C.UTF-8" }, "fish", "-N", "-c",
                "source #{SCRIPTS}/rbprobe.fish; complete -C '#{line}'"], &:read).scan(/^[^\t\n]+/)
    end
    item = %w[Order::Item# Order::Item#*]
    classes = %w[Order# Order. Order:: Orders::]
    assert_equal [classes, item, item, %w[Order.create], ["Evil#[", "Evil#[]"], %w[Order.create]], answers
  end

  test "fish" do
    skip "needs fish" unless system("command -v fish >/dev/null")
    answers = ["tra", "trace --engine p", "trace --engine=p", "heap du"].map do |line|
      IO.popen([{ "PATH" => PATH, "HOME" => directory }, "fish", "-N", "-c",
                "source #{SCRIPTS}/rbprobe.fish; complete -C 'rbprobe #{line}'"], &:read).scan(/^[^\t\n]+/)
    end
    assert_equal [%w[trace tracers], %w[patch], %w[--engine=patch], %w[dump]], answers
  end

  test "fish: every option of every subcommand" do
    skip "needs fish" unless system("command -v fish >/dev/null")
    asked = PARSERS.map { |words| "complete -C 'rbprobe #{words.join(" ")} --'; echo ." }
    script = ["source #{SCRIPTS}/rbprobe.fish", *asked].join("\n")
    answers = IO.popen([{ "PATH" => PATH, "HOME" => directory }, "fish", "-N", "-c", script], &:read).split(/^\.\n/)
    PARSERS.zip(answers) do |words, answer|
      assert_equal options(words).map { |_, name,| "--#{name}" }.sort, answer.scan(/^--[a-z-]+/).sort, words
    end
  end
end
