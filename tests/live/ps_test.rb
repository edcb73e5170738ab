# rbprobe ps: which Ruby processes there are, and which can be attached to.

require_relative "helper"
require_relative "terminal"
require "etc"

class PsTest < LiveTest
  def line_of(target)
    result = rbprobe("ps")
    assert_exit 0, result
    result.stdout.lines.find { |line| line.split.first == target.pid.to_s }
  end

  test "a process that has loaded the extension is listed with its version and command" do
    target = start("shop")
    line = line_of(target)
    refute_nil line
    assert_includes line, "shop.rb"
    assert_includes line, Processes::RUBY_VERSION_OF_TARGET[/\A\d+\.\d+/]
    assert_match(/\byes\b/, line)
  end

  test "one that has not, and could, is listed as such" do
    other = start("shop", load: false)
    assert_match(/\bloadable\b/, line_of(other))
  end

  test "what is not Ruby is not listed" do
    pid = spawn("sleep", "60")
    refute_match(/^\s*#{pid}\b/, rbprobe("ps").stdout)
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  # Each look at a program takes a process: on a busy machine dozens of them take seconds.
  test "threads of the kernel are not looked at, and a program that many run is once" do
    path = "/proc/sys/kernel/ns_last_pid"
    skip "the last PID is not told here" unless File.readable?(path)
    sleepers = Array.new(20) { spawn("sleep", "60") }
    kernels = Dir["/proc/[0-9]*/stat"].count { |stat| File.read(stat)[/\) \S \d+ (\d+)/, 1] == "0" rescue false }
    # Others start processes as well.
    begun = Array.new(5) do
      before = File.read(path).to_i
      rbprobe("ps")
      (File.read(path).to_i - before) % File.read("/proc/sys/kernel/pid_max").to_i
    end
    assert_operator begun.min, :<, [kernels, 20].max
  ensure
    sleepers&.each do |pid|
      Process.kill(:KILL, pid)
      Process.wait(pid)
    end
  end

  test "a command line cannot command the terminal" do
    target = start("console", "\e[31mred\nline")
    line = line_of(target)
    refute_includes rbprobe("ps").stdout, "\e"
    assert_includes line, "red"
  end

  test "the columns" do
    began = Time.now.to_i
    target = start("shop", load: false, user: Process.uid.zero? ? 65_534 : nil)
    result = rbprobe("ps")
    assert_equal %w[PID USER RUBY ABI ATTACHABLE SINCE COMMAND], result.stdout.lines.first.split
    line = result.stdout.lines.find { |text| text.split.first == target.pid.to_s }
    assert_match(/\A *#{target.pid} +(\S+) +(\S+) +(\S+) +(\S+) +(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) .*shop\.rb$/, line)
    pid, user, version, abi, attachable, = line.split
    owner = Etc.getpwuid(Process.uid.zero? ? 65_534 : Process.uid).name
    assert_equal [target.pid.to_s, owner, "loadable"], [pid, user, attachable]
    assert_equal Processes::RUBY_VERSION_OF_TARGET, version
    assert_equal IO.popen([*Processes::RUBY, "-e", "print RbConfig::CONFIG['ruby_version']"], &:read), abi
    assert_includes (began - 2)..(Time.now.to_i + 1),
                    Time.new(*line[/\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/].scan(/\d+/).map(&:to_i)).to_i
  end

  test "on a narrow terminal the command can be read, and nothing wraps" do
    target = start("shop", load: false)
    terminal = Terminal.new(["ps"], columns: 80)
    @tracers << terminal
    assert_equal 0, terminal.wait
    lines = terminal.text.lines(chomp: true)
    assert_equal %w[PID USER RUBY ATTACHABLE COMMAND], lines.first.split
    assert_match(/\A *#{target.pid} +\S+ +\d\S+ +loadable +\S.{20}/, lines.grep(/^ *#{target.pid} /).first)
    assert_empty lines.select { |line| line.size > 80 }
    wide = Terminal.new(["ps"], columns: 160)
    @tracers << wide
    assert_equal 0, wide.wait
    assert_equal %w[PID USER RUBY ABI ATTACHABLE SINCE COMMAND], wide.text.lines.first.split
  end

  test "lines end at the edge, not amid a character, be it the heading's" do
    target = start("console")
    target.run("$0 = \"\\u00e9\" * 40; nil")
    (40..56).each do |columns|
      @tracers << terminal = Terminal.new(["ps"], columns: columns)
      assert_equal 0, terminal.wait
      assert_predicate terminal.bytes.force_encoding(Encoding::UTF_8), :valid_encoding?
      lines = terminal.text.lines(chomp: true)
      assert_empty lines.select { |line| line.size > columns }
      assert_equal columns, lines.find { |line| line.split.first == target.pid.to_s }.size
    end
  end

  test "a long reason why not leaves the columns in line" do
    target = start("shop", load: false)
    FileUtils.cp("/bin/sh", path = "#{directory}/truffleruby")
    reader, writer = IO.pipe
    pid = start_beside(path, "-c", "read line", in: reader)
    reader.close
    wait_until("it is listed") { rbprobe("ps").stdout.match?(/^ *#{pid} .* no: TruffleRuby /) }
    [80, 160].each do |columns|
      @tracers << terminal = Terminal.new(["ps"], columns: columns)
      assert_equal 0, terminal.wait
      header, *rows = terminal.text.lines(chomp: true)
      rows = rows.grep(/^ *(?:#{pid}|#{target.pid}) /).each do |row|
        from, to = [/ATTACHABLE/, /SINCE|COMMAND/].map { |title| header.index(title) }
        assert_match(/\A(?:loadable|no: TruffleRuby) *\z/, row[from...to])
      end
      assert_equal 2, rows.size
    end
    writer.close
  end

  test "JSON" do
    target = start("shop", load: false)
    result = rbprobe("ps", "--format", "json")
    assert_exit 0, result
    object = result.objects.find { |one| one["pid"] == target.pid }
    assert_equal %w[type pid user uid ruby abi attachable start_ns command], object.keys
    assert_equal ["process", "loadable", Process.uid], object.values_at("type", "attachable", "uid")
    assert_equal Processes::RUBY_VERSION_OF_TARGET, object["ruby"]
    assert_includes object["command"], "shop.rb"
    assert_in_delta Time.now.to_f, object["start_ns"] / 1e9, 600
  end

  test "who is not root is told that others' processes are not seen" do
    only_root_with_a_nobody
    start("shop", load: false)
    assert_match(/^rbprobe: \d+ process(es)? of other users (was|were) not looked at, which takes root$/,
                 rbprobe("ps", command: NOBODY).stderr)
    refute_match(/of other users/, rbprobe("ps").stderr)
  end

  test "a process is found under whatever title it has given itself" do
    target = start("console", load: false)
    ["sidekiq 6.4.1 shop [0 of 5 busy]", "unicorn worker[2] -c config/unicorn.rb -D",
     "Passenger RubyApp: /srv/shop (production)", "x"].each do |title|
      target.run("$0 = #{title.dump}")
      assert_match(/ loadable +\S+ \S+ #{Regexp.escape(title)}/, line_of(target))
    end
  end

  test "a real Puma" do
    only_where_loading_is_possible
    only_with_gems("puma")
    File.write("#{site = directory}/config.ru", "run ->(_) { [200, {}, []] }\n")
    puma = start_beside(*Processes::RUBY, "-S", "puma", "-b", "unix://#{site}/socket", "#{site}/config.ru")
    line = nil
    wait_until("puma has its title") { (line = rbprobe("ps").stdout[/^ *#{puma} .*/])&.match?(/ puma \d[\d.]+ \(unix:/) }
    assert_match(/ loadable /, line)
    assert_exit 0, rbprobe("methods", "-p", puma.to_s, "Puma::Server#run")
  end

  test "a Ruby whose program has another name" do
    skip "a chroot's Ruby needs its libraries" if Processes::RUBY.first == "chroot"
    ruby = IO.popen([*Processes::RUBY, "-e", "print RbConfig.ruby"], &:read)
    FileUtils.cp(ruby, program = "#{directory}/app-server")
    reader, writer = IO.pipe
    pid = spawn(program, "-e", "$stdout.puts 1; $stdout.flush; sleep", out: writer)
    assert_equal "1\n", reader.gets
    assert_match(/ loadable .*app-server/, rbprobe("ps").stdout[/^ *#{pid} .*/])
  ensure
    if pid
      Process.kill(:KILL, pid)
      Process.wait(pid)
    end
  end

  # Shells stand in for Rubies that this machine does not have.
  { "JRuby" => ["jcmd PID Thread.print", "java", "-Xmx500m", "-jar", "/opt/jruby/lib/jruby.jar"],
    "TruffleRuby" => ["--cpusampler", "truffleruby", "of_truffle.rb"] }.each do |name, (remedy, program, *words)|
    test "#{name} is recognised, and refused" do
      FileUtils.cp("/bin/sh", path = "#{directory}/#{program}")
      reader, writer = IO.pipe
      pid = start_beside(path, "-c", "read line", *words, in: reader)
      reader.close
      line = nil
      wait_until("it is listed") { line = rbprobe("ps").stdout[/^ *#{pid} .*/] }
      assert_match(/\A *#{pid} \S+ +\? +\? +no: #{name} +\d.*#{words.last}\z/, line)
      listed = rbprobe("ps", "--format", "json").objects.find { |one| one["pid"] == pid }
      assert_equal "no: #{name}", listed["attachable"]
      [["-p", pid.to_s], ["--ps", words.last], ["--all", "--ps", words.last]].each do |meant|
        assert_refused 3, /\Arbprobe: process #{pid} runs #{name}, which rbprobe cannot look into: .*#{remedy}.*\n\z/,
                       "bt", *meant
      end
      writer.close
    end
  end

  test "an application that has SIGURG, and a debugger, can be attached to" do
    target = start("console")
    target.run("trap('URG', 'IGNORE'); nil")
    strace = trace_by_strace(target)
    assert_match(/ yes /, line_of(target))
    assert_attachable(target)
    end_beside(strace)
  end
end
