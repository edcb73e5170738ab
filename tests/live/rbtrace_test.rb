# Called rbtrace, rbprobe takes rbtrace's command line and prints what rbtrace prints, on every Ruby. rbtrace_beside_test.rb has
# the real one beside it.

require_relative "helper"
require_relative "rbtrace_runs"

class RbtraceTest < LiveTest
  include RbtraceRuns

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
    list = "#{File.dirname(@rbtrace)}/other.tracer"
    File.write(list, "Nowhere#none\n")
    result = until_seen([@rbtrace], "-p", target.pid, "-c", list, "io", "-m", "sleep") { |out, _| out.lines.size > 1 }
    assert_equal ["", " yet (waiting for it)"].map { |yet|
                   "rbprobe: tracer other fits nothing in process PID#{yet}: none of its selectors matches a method"
                 }.reverse, result.stderr.gsub(/process \d+/, "process PID").lines.map(&:chomp).grep(/\Arbprobe/)
    result = ours("-p", target.pid, "-c", "/nowhere")
    assert_exit 255, result
    assert_match(/there is no file \/nowhere/, result.stderr)
  end

  test "slow methods without --slow do nothing, and that is said" do
    target = start("stretch")
    result = until_seen([@rbtrace], "-p", target.pid, "-w", "Dir.pwd", "-m", "sleep") { |out, _| out.lines.size > 1 }
    assert_match(/\A(Kernel#sleep <0\.\d{6}>\n)+(Kernel#sleep\n)?\z/, result.stdout)
    assert_includes result.stderr, "rbprobe: rbtrace: --slow-methods does nothing without --slow or --slowcpu\n"
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

  # Two processes whose command lines have the name, and 1 and 2 after it.
  def pair
    place, place_of_target = directory_of_target
    FileUtils.chmod(0o755, place)
    FileUtils.cp("#{ROOT}/tests/apps/console.rb", "#{place}/own.rb")
    name = "#{File.basename(place)}/own"
    yield name, [1, 2].map { |number| start("#{place_of_target}/own.rb", "#{name}-#{number}") }
  end

  def answering(answers, *arguments)
    stdout, stderr, status = Open3.capture3({ "RBPROBE_EXTENSIONS" => nil }, @rbtrace, *arguments, stdin_data: answers)
    Result.new(stdout, stderr, status.exitstatus, 0)
  end

  test "--ps takes a regular expression, and asks which of several, be it in a pipe" do
    pair do |name, targets|
      pids = targets.map { |target| target.pid.to_s }
      one = answering("", "--ps", "#{name}-[2-9]$", "-e", "$$")
      assert_equal ">> $$\n=> #{pids[1]}\n", one.stdout, one.stderr
      assert_match(/\A\*\*\* found 1 process matching ".*"\n +#{pids[1]} /, one.stderr)
      [["2\n", [1]], ["0\n", [0, 1]], ["7\n\n1,x\nx\n1,2\n", [0, 1]]].each do |answers, chosen|
        result = answering(answers, "--ps", name, "-e", "$$")
        assert_equal pids.values_at(*chosen).sort, result.stdout.scan(/^=> (\d+)$/).flatten.sort, result.stderr
        assert_match(/^   \[2\] +#{pids[1]} .*\n   \[0\]   all 2 processes\n\*\*\* trace which processes\?/, result.stderr)
        assert_exit 0, result
      end
      none = answering("", "--ps", name, "-e", "$$")
      assert_match(/^rbprobe: no process was chosen$/, none.stderr)
      assert_exit 255, none
    end
    wrong = answering("", "--ps", "(", "-f")
    assert_match(/\Arbprobe: rbtrace: --ps: \(: /, wrong.stderr)
    assert_exit 255, wrong
  end

  test "what evaluates, dumps or looks does so with several processes" do
    targets = Array.new(2) { start("console") }
    pids = targets.map(&:pid)
    assert_equal pids.map { |pid| "=> #{pid}" }.sort, ours("-p", *pids, "-e", "$$").stdout.lines(chomp: true).grep(/=>/).sort
    assert_operator ours("-p", *pids, "-b", "1").stdout.lines.size, :>=, 2
    made = ours("-p", *pids, "-h").stdout.scan(%r{written to (/\S*/dump(\d+)\w{6})$})
    made.each { |file, _| File.delete(file) }
    assert_equal 2, made.size
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
     [%w[-p 1 2 -k], /give one --pid/],
     [%w[-p 1 sleep -m gsub], /--pid takes numbers/],
     [%w[-p 1 2 -h /nowhere], /one file cannot have the dumps/],
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
