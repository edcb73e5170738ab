# Called rbtrace, rbprobe takes rbtrace's command line and prints what rbtrace prints. Each example of rbtrace's README, and
# each of its options, with the real rbtrace beside it; and alone, on every Ruby.

require_relative "helper"
require "open3"

class RbtraceTest < LiveTest
  SERVER = "#{ROOT}/tests/apps/stretch.rb"

  def setup
    super
    @rbtrace = "#{directory}/rbtrace"
    FileUtils.chmod(0o755, File.dirname(@rbtrace))
    FileUtils.ln_s(RBPROBE, @rbtrace)
  end

  # Our rbtrace, until it has ended.
  def ours(*arguments)
    stdout, stderr, status = Open3.capture3({ "RBPROBE_EXTENSIONS" => nil }, @rbtrace, *arguments.map(&:to_s),
                                            stdin_data: "", close_others: true)
    Result.new(stdout, stderr, status.exitstatus || -status.termsig, 0)
  end

  # A program that traces, in the background, until its output satisfies the block; then Ctrl-C.
  def until_seen(command, *arguments)
    out = output_file("rbtrace-stdout")
    err = output_file("rbtrace-stderr")
    pid = Process.spawn(*command, *arguments.map(&:to_s), in: File::NULL, out: out.path, err: err.path, pgroup: true)
    begin
      @others << pid
      wait_until(-> { "#{arguments} has shown enough:\n#{File.read(out.path)}\n#{File.read(err.path)}" }, 30) do
        yield File.read(out.path), File.read(err.path)
      end
    ensure
      @others.delete(pid)
      Process.kill(:INT, pid)
      _, status = Process.wait2(pid)
    end
    Result.new(File.read(out.path), File.read(err.path), status.exitstatus || -status.termsig, 0)
  end

  # Times and PIDs are the run's own.
  def mask(text)
    text.gsub(/<\d+\.\d{6}>/, "<time>").gsub(/^\d\d:\d\d:\d\d\.\d{6}/, "hh:mm:ss.uuuuuu").gsub(/process \d+/, "process PID")
        .gsub(/0x\h+/, "0x")
  end

  # One round of the program, the last that is whole: in the first ones methods are still being armed.
  def round_of(text, first)
    lines = mask(text).lines
    starts = lines.each_index.select { |i| first.match?(lines[i]) }
    starts.size < 12 ? nil : lines[starts[-2]...starts[-1]].join
  end

  def rounds_seen(command, first, *arguments)
    result = until_seen(command, *arguments) { |out, _| round_of(out, first) }
    [round_of(result.stdout, first), result]
  end

  # --- Beside the real one. Each has its own target: with both extensions in one process it would be another program.

  REAL = "/usr/bin/rbtrace"

  def only_with_the_real_rbtrace
    skip "NOT COMPARED: rbtrace is that of the host's Ruby" unless Processes::RUBY == ["ruby"] && Processes::TARGET_ENV.empty?
    unless File.executable?(REAL) && system("ruby", "-e", 'require "rbtrace"', err: File::NULL)
      skip "NOT COMPARED: the real rbtrace is missing (apt-get install ruby-rbtrace)"
    end
    only_root_with_a_nobody # as root it changes kernel.msgmnb
  end

  # As another user. It ends by TERM, so that it takes its queue away.
  def with_real_target(*arguments)
    reader, writer = IO.pipe
    pid = Process.spawn(*NOBODY, "ruby", "-rrbtrace", SERVER, *arguments.map(&:to_s), in: File::NULL, out: writer, pgroup: true)
    writer.close
    assert_equal "ready\n", reader.gets
    yield pid
  ensure
    Process.kill(:TERM, pid)
    Process.wait(pid)
    reader.close
    FileUtils.rm_f("/tmp/rbtrace-#{pid}.sock")
    queues = File.readlines("/proc/sysvipc/msg").drop(1).map(&:split).select { |fields| fields[0].to_i == -pid }
    queues.each { |fields| Ipc.remove(fields[1].to_i) }
  end

  # README's examples: what is called, and the line with which a round begins.
  EXAMPLES = [
    ["a method by its name", %w[-m sleep], /^Kernel#sleep/],
    ["one method of two that are named", %w[--methods Kernel#sleep], /^Kernel#sleep/],
    ["everything", %w[--firehose --yes --max-overhead=0], /^Kernel#proc/],
    ["specific methods", %w[-m sleep Dir.chdir Dir.pwd Process.pid String#gsub String#*], /^Dir.chdir$/],
    ["with starting times", %w[-t -m sleep Dir.chdir Dir.pwd], /^\S+ Dir.chdir$/],
    ["with another prefix", %w[-r 5 -m sleep Dir.chdir Dir.pwd], /^Dir.chdir$/],
    ["slow calls", %w[--slow=15], /^  Kernel#sleep/],
    ["slow calls beside all calls of a method", %w[--slow=15 -m Dir.pwd], /^Dir.pwd/],
    ["slow calls of one method beside all calls of others", %w[-m Dir.pwd String#gsub --slow=15 -w Kernel#sleep], /^Dir.pwd/],
    ["slow methods", %w[--slow=15 --slow-methods Kernel#sleep Dir.pwd], /^Kernel#sleep/],
    ["all of a module", %w[-m Kernel# --yes], /^Kernel#proc/],
    ["values and expressions", ["-m", "String#gsub(self, @seen)", "String#*(self, __source__)",
                                "String#stretch(self, self.length, times)"], /^String#stretch\(/],
  ].freeze

  # rbtrace has no such option.
  def real_arguments(arguments)
    arguments.reject { |argument| argument =~ /\A--(yes|max-overhead)/ }
  end

  EXAMPLES.each do |name, arguments, first|
    test "as rbtrace: #{name}" do
      only_with_the_real_rbtrace
      expected, real = with_real_target do |pid|
        rounds_seen([*NOBODY, REAL], first, "-p", pid, *real_arguments(arguments))
      end
      target = start("stretch", user: 65_534)
      shown, mine = rounds_seen([*NOBODY, @rbtrace], first, "-p", target.pid, *arguments)
      assert_equal expected, shown
      said = ->(text) { mask(text).lines.grep(/\A\*\*\* (?!run )/).join }
      assert_equal said.(real.stderr), said.(mine.stderr)
      assert_equal [0, 0], [real.status, mine.status]
    end
  end

  # What is different: the arguments, the line with which a round begins, what becomes of rbtrace's text, and why it is wrong.
  DIFFERENT = [
    ["--no-duration hides durations", %w[-n -m String#stretch(times) String#gsub], /^String#stretch\(/,
     ->(text) { text.gsub(/ <time>/, "") }, "rbtrace's -n has no effect"],
    ["--firehose leaves out what would leave the process slower", %w[-f], /^Kernel#proc/,
     ->(text) { text.gsub(/^ *Float#.*\n/, "") }, "rbtrace's leaves it slower"],
    ["the end of a call after a slow one has its name", %w[--slow=15 -m Dir.chdir], /^Dir.chdir$/,
     ->(text) { text.gsub(/^ <time>/, "Dir.chdir <time>") }, "rbtrace's has it not"],
  ].freeze

  DIFFERENT.each do |name, arguments, first, change, reason|
    test "not as rbtrace: #{name}, as #{reason}" do
      only_with_the_real_rbtrace
      theirs, = with_real_target { |pid| rounds_seen([*NOBODY, REAL], first, "-p", pid, *arguments) }
      target = start("stretch", user: 65_534)
      shown, = rounds_seen([*NOBODY, @rbtrace], first, "-p", target.pid, *arguments)
      refute_equal theirs, shown, "rbtrace does it right: move this to the examples"
      assert_equal change.(theirs), shown
    end
  end

  # --- Alone, on every Ruby

  def assert_said(lines, result)
    assert_equal lines, result.stderr.gsub(/process \d+/, "process PID").lines.map(&:chomp)
  end

  ATTACHED = ["*** attached to process PID", "*** detached from process PID"].freeze

  test "a call's line goes on when the call ends" do
    target = start("console")
    result = until_seen([@rbtrace], "-p", target.pid, "-m", "Kernel#sleep") do |out, err|
      target.run("sleep 0.05") if err.include?("attached") && out.empty?
      out.include?(">")
    end
    assert_match(/\A(Kernel#sleep <0\.\d{6}>\n)+\z/, result.stdout)
    assert_said ATTACHED, result
    assert_exit 0, result
  end

  test "a call that has not ended has its line" do
    target = start("console")
    sleeps = false
    result = until_seen([@rbtrace], "-p", target.pid, "-m", "Kernel#sleep", "Dir.pwd", "-n") do |out, err|
      target.run("Dir.pwd") if err.include?("attached") && out.empty?
      sleeps ||= out.include?("Dir.pwd\n") && target.run_in_background("sleep").then { true }
      out.include?("Kernel#sleep")
    end
    assert_match(/\A(Dir.pwd\n)+Kernel#sleep\n\z/, result.stdout)
    assert_said ATTACHED, result
    assert_exit 0, result
  end

  test "several processes have a file each" do
    targets = [start("stretch"), start("stretch")]
    files = targets.map { |target| "#{File.dirname(@rbtrace)}/out.#{target.pid}" }
    result = until_seen([@rbtrace], "-p", *targets.map(&:pid), "-m", "sleep", "-o", "#{File.dirname(@rbtrace)}/out") do
      files.all? { |file| File.exist?(file) && File.read(file).lines.size > 2 }
    end
    assert_exit 0, result
    assert_equal 2, result.stderr.scan("*** attached to process").size
    assert_equal 2, result.stderr.scan("*** detached from process").size
    files.each { |file| assert_match(/\A(Kernel#sleep <0\.\d{6}>\n)+/, File.read(file)) }
  end

  test "--append appends, and without it a file begins anew" do
    target = start("stretch")
    file = "#{File.dirname(@rbtrace)}/out"
    trace = lambda do |*options|
      until_seen([@rbtrace], "-p", target.pid, "-m", "sleep", "-o", file, *options) do
        File.read(file).scan("Kernel#sleep <").size > 1 && (options == ["-a"] || !File.read(file).start_with?("first"))
      end
    end
    File.write(file, "first\n")
    trace.("-a")
    assert_equal "first\n", File.read(file).lines.first
    trace.()
    refute_includes File.read(file), "first"
  end

  test "methods that are always shown beside those that are shown when they are slow" do
    target = start("stretch", 0.1)
    file = "#{File.dirname(@rbtrace)}/out"
    File.write(file, "of another time\n")
    result = until_seen([@rbtrace], "-p", target.pid, "-m", "Dir.pwd", "--slow", "80", "-w", "Kernel#sleep", "-o", file) do
      %w[Dir.pwd Kernel#sleep].all? { |name| File.read(file).scan(name).size > 2 }
    end
    assert_exit 0, result
    refute_includes File.read(file), "another time"
    File.read(file).scan(/Kernel#sleep <(.*)>/) { |seconds,| assert_operator seconds.to_f, :>=, 0.08 }
  end

  test "--gc shows each collection when it is over" do
    target = start("console")
    result = until_seen([@rbtrace], "-p", target.pid, "--gc") do |out, err|
      target.run("GC.start") if err.include?("attached")
      out.lines.size > 1
    end
    assert_match(/\A(garbage_collect <\d\.\d{6}>\n)+\z/, result.stdout)
  end

  test "selectors come from files and lists" do
    target = start("stretch")
    list = "#{File.dirname(@rbtrace)}/my.tracer"
    File.write(list, "# what sleeps\n\nKernel#sleep\n")
    result = until_seen([@rbtrace], "-p", target.pid, "-c", list) { |out, _| out.lines.size > 1 }
    assert_match(/\AKernel#sleep/, result.stdout)
    result = ours("-p", target.pid, "-c", "/nowhere")
    assert_exit 255, result
    assert_match(/there is no file \/nowhere/, result.stderr)
  end

  test "--eval prints the code and what it gives, be it an exception" do
    target = start("console")
    result = ours("-p", target.pid, "-e", "puts 7; [1, nil]")
    assert_equal "7\n>> puts 7; [1, nil]\n=> [1, nil]\n", result.stdout
    assert_said ATTACHED, result
    assert_exit 0, result
    result = ours("-p", target.pid, "--eval", "raise ArgumentError, 'no'")
    assert_equal ">> raise ArgumentError, 'no'\n=> #<ArgumentError: no>\n", result.stdout
    assert_exit 0, result
    result = ours("-p", target.pid, "-u", "1", "-e", "sleep")
    assert_includes result.stderr, "*** timed out waiting for eval response\n"
    assert_exit 1, result
    result = ours("-p", target.pid, "-e", "1 +")
    assert_equal "", result.stdout
    assert_exit 1, result
  end

  test "backtraces of all threads have an empty line between them" do
    target = start("console")
    target.run("$other = Thread.new { sleep }; Thread.pass until $other.stop?; nil")
    result = ours("-p", target.pid, "--backtraces")
    assert_equal 2, result.stdout.split("\n\n").size
    result.stdout.lines.reject { |line| line == "\n" }.each { |line| assert_match(/:in `.*'$/, line) }
    assert_said ATTACHED, result
    assert_equal 3, ours("-p", target.pid, "-b", "1").stdout.lines.size
    assert_equal 3, ours("-p", target.pid, "-b1").stdout.lines.size
    assert_equal result.stdout, ours("-p", target.pid, "-b", "-1").stdout
    assert_match(/\A\S.*\n  \S.*\n\z/, ours("-p", target.pid, "--backtrace", "2").stdout)
  end

  test "--fork names the copy" do
    target = start("console")
    result = ours("-p", target.pid, "--fork")
    copy = result.stderr[/^\*\*\* forked off a frozen copy at (\d+) \(make sure to kill -9 it when you're done\)$/, 1]
    refute_nil copy, result.stderr
    Process.kill(:KILL, copy.to_i)
    assert_exit 0, result
  end

  test "--memory and dumps are those of rbprobe" do
    target = start("console")
    assert_match(/^memory +\d/, ours("-p", target.pid, "--memory").stdout)
    file = "#{File.dirname(@rbtrace)}/dump"
    result = ours("-p", target.pid, "--heapdump", file)
    assert_equal "Heapdump being written to #{file}\n", result.stdout
    assert_equal "ROOT", JSON.parse(File.foreach(file).first)["type"]
    result = ours("-p", target.pid, "--shapesdump")
    made = result.stdout[/\AShapes dump being written to (.*)$/, 1]
    assert_path_exists made
    assert_operator File.size(made), :>, 1000
    File.delete(made)
  end

  test "a dump of a process that --ps finds has a name without a PID" do
    place, place_of_target = directory_of_target
    FileUtils.chmod(0o755, place)
    FileUtils.cp("#{ROOT}/tests/apps/console.rb", "#{place}/own.rb")
    start("#{place_of_target}/own.rb")
    made = ours("--ps", "#{File.basename(place)}/own", "--heapdump").stdout[%r{written to (/\S*/dump\w{6})$}, 1]
    refute_nil made
    assert_operator File.size(made), :>, 1000
    File.delete(made)
  end

  test "--exec traces a command from its first line" do
    skip "starts the host's Ruby" unless Processes::RUBY == ["ruby"] && Processes::TARGET_ENV.empty?
    result = ours("-m", "Kernel#sleep", "--exec", "ruby", "-e", "sleep 0.01; exit 3")
    assert_match(/\AKernel#sleep <0\.\d{6}>\n\z/, result.stdout)
    assert_equal ["*** attached to process PID", "*** process PID is gone"],
                 result.stderr.gsub(/process \d+/, "process PID").lines.map(&:chomp)
    assert_exit 3, result
  end

  test "a process that ends while it is traced is gone" do
    ["exit!(0)", "Process.kill(:KILL, Process.pid)"].each do |code|
      target = start("console")
      out = output_file("rbtrace-output")
      pid = Process.spawn(@rbtrace, "-p", target.pid.to_s, "-m", "sleep", in: File::NULL, %i[out err] => out.path)
      wait_until("it is armed") { target.run("sleep 0.001") && File.read(out.path).include?("Kernel#sleep") }
      target.run_in_background(code)
      _, status = Process.wait2(pid)
      assert_match(/^\*\*\* process #{target.pid} is gone$/, File.read(out.path))
      assert_equal 0, status.exitstatus, File.read(out.path)
    end
  end

  test "what cannot be done ends with 255, and says why" do
    [[%w[-p 4194303 -f], /no process has the PID 4194303/],
     [%w[-f], /--pid is missing/],
     [%w[-p 1], /what is to be done/],
     [%w[-p 1 -w sleep -m sleep], /--slow-methods goes with --slow/],
     [%w[-p 1 2 -e 1], /give one --pid/],
     [%w[-f -p 1 --exec ruby], /give one of them/],
     [%w[-e 1 --exec ruby], /--exec traces/],
     [%w[--nonsense], /no option --nonsense/],
     [%w[--ps surely-not-there -f], /no Ruby process has/]].each do |arguments, said|
      result = ours(*arguments)
      assert_match said, result.stderr, arguments.inspect
      assert_exit 255, result
      assert_equal "", result.stdout
    end
  end

  test "every option of rbtrace's stands in --help" do
    shown = ours("--help")
    assert_exit 0, shown
    assert_equal ours.stdout, shown.stdout
    %w[exec pid ps firehose slow slowcpu slow-methods methods gc start-time no-duration output append prefix config devmode fork
       eval interactive backtraces backtrace wait timeout memory heapdump shapesdump version help].each do |name|
      assert_match(/--#{name}\b/, shown.stdout)
    end
    assert_match(/\Arbtrace: like strace, but for ruby code\n/, ours("-v").stdout)
  end

  # --- The guide's table

  ROWS = File.readlines("#{ROOT}/doc/guide.md").map { |line| line.split(" | ") }
             .select { |cells| cells.first.start_with?("| `rbtrace ") }
             .map { |cells| cells.first(2).map { |cell| cell[/`(rb.*)`/, 1] } }

  # Run by a shell, with what stands for a process and files in their place.
  def run_row(command, program, target, place)
    words = { "PID" => target.pid, "FILE" => "#{place}/file", "LIST" => "#{place}/list", "WORD" => File.basename(place) }
    line = command.sub(/\A\w+/, program).gsub(/\b(#{words.keys.join("|")})\b/) { |word| words[word].to_s }
    until_ended_or_seen(["sh", "-c", "exec #{line}"], line)
  end

  # What does not end by itself is ended as soon as it has shown that it began.
  def until_ended_or_seen(command, line)
    out = output_file("row-output")
    pid = Process.spawn(*command, in: File::NULL, %i[out err] => out.path, pgroup: true)
    @others << pid
    status = nil
    deadline = now + 3
    wait_until("#{line} ends") do
      Process.kill(:INT, pid) if !status && now > deadline && (deadline = Float::INFINITY)
      _, status = Process.wait2(pid, Process::WNOHANG)
      status
    end
    @others.delete(pid)
    [status.exitstatus, File.read(out.path)]
  end

  def end_copies(said)
    said.scan(/^(\d+)$|frozen copy at (\d+)/).flatten.compact.each { |copy| Process.kill(:KILL, copy.to_i) }
  end

  test "each row of the guide's table works, on both sides" do
    skip "starts the host's Ruby" unless Processes::RUBY == ["ruby"] && Processes::TARGET_ENV.empty?
    assert_operator ROWS.size, :>, 20
    place = directory
    File.write("#{place}/list", "# what sleeps\nKernel#sleep\n")
    FileUtils.cp(SERVER, "#{place}/server.rb")
    target = start("#{place}/server.rb")
    ROWS.each do |theirs, mine|
      [[theirs, @rbtrace], [mine, RBPROBE]].select(&:first).each do |command, program|
        status, said = run_row(command, program, target, place)
        end_copies(said) if command =~ / (--)?fork\b/
        assert_equal 0, status, "#{command}\n#{said}"
      end
    end
  end
end
