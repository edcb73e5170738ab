# `rbprobe profile`: samples of all threads' stacks, shown and kept.

require "open3"
require_relative "helper"

class ProfileTest < LiveTest
  def profile(target, *arguments)
    rbprobe("profile", "-p", target.pid.to_s, "--duration", "1", "-q", *arguments)
  end

  # Of `--format json`, by type.
  def objects(target, *arguments)
    result = profile(target, "--format", "json", *arguments)
    assert_exit 0, result
    result.stdout.lines.map { |line| JSON.parse(line) }.group_by { |object| object.fetch("type") }
  end

  def working
    start("profiled").tap { |target| target.run("go") }
  end

  def named(objects, name)
    objects.fetch("thread").find { |thread| thread["name"] == name } or flunk "no thread #{name} in #{objects["thread"]}"
  end

  # Labels from the outermost frame on, and the time, of each stack of a thread; it had none before it began.
  def stacks_of(objects, name)
    number = named(objects, name).fetch("thread")
    objects.fetch("stack").select { |stack| stack["thread"] == number && stack["frames"].any? }
           .map { |stack| [stack["frames"].map { |frame| frame["label"] }.reverse, stack["wall"]] }
  end

  def threads_of(target)
    Dir["#{Processes::TARGET_ROOT}/proc/#{target.pid}/task/*/comm", "/proc/#{target.pid}/task/*/comm"].map do |path|
      File.read(path).chomp
    rescue SystemCallError
      nil
    end
  end

  test "a thread that computes is found in its method, one that sleeps in sleep, the main one where it reads" do
    target = working
    found = objects(target)
    computed = stacks_of(found, "computes")
    assert(computed.all? { |labels, _| labels.include?("Work#busy") }, computed.inspect)
    assert(computed.any? { |labels, _| labels.include?("Work#add") }, computed.inspect)
    slept = stacks_of(found, "sleeps")
    assert_equal 1, slept.size, slept.inspect
    assert_includes slept[0][0], "Work#wait"
    main = found["thread"].find { |thread| thread["main"] }
    elapsed = found["process"][0]["elapsed"]
    [main, named(found, "computes"), named(found, "sleeps")].each do |thread|
      assert_in_delta elapsed, thread["wall"], 0.2 * elapsed, thread.inspect
    end
    assert_operator named(found, "computes")["cpu"], :>, named(found, "sleeps")["cpu"]
  end

  test "of a process that does nothing all time is where it waits, and it is left alone" do
    found = objects(start("profiled"))
    process = found["process"][0]
    assert_operator found["thread"][0]["wall"], :>, 0.8 * process["elapsed"]
    assert_operator process["samples"], :<, 20, process.inspect
    labels = found["stack"].max_by { |stack| stack["wall"] }["frames"].map { |frame| frame["label"] }
    assert_includes labels.join(" "), "console"
  end

  test "the tables and the tree name what is hot, in 80 columns" do
    result = profile(working)
    assert_exit 0, result
    assert_match(/^process \d+: \d+\.\d s, 3 threads, 100 samples a second; rbprobe used \d+\.\d\d % CPU$/, result.stdout)
    assert_match(/^ +\d+\.\d{3}s +\d+\.\d% +\d+\.\d% +\d+\.\d{3}s  .*Work#add /, result.stdout)
    assert_match(/^ +\d+\.\d{3}s +\d+\.\d{3}s +\d+\.\d%  computes$/, result.stdout)
    assert_match(/^ +\d+\.\d% +\d+\.\d%   +Work#busy /, result.stdout)
    assert_empty result.stdout.lines.select { |line| line.chomp.size > 80 }
  end

  test "nothing is left of it: its thread goes" do
    target = working
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60", "--format", "json")
    wait_until("it samples") { threads_of(target).include?("rbprobe-profile") }
    result = tracer.stop
    assert_exit 0, result
    assert_match(/"type":"stack"/, result.stdout)
    wait_until("its thread is gone") { threads_of(target).none?("rbprobe-profile") }
    target.run("halt")
  end

  test "what is kept in a file is reported and exported as it would have been shown" do
    target = working
    file = "#{directory}/profile"
    result = rbprobe("profile", "-p", target.pid.to_s, "--duration", "1", "-o", file)
    assert_exit 0, result
    assert_match(/has the profile; `rbprobe report/, result.stderr)
    report = rbprobe("report", file)
    assert_exit 0, report
    assert_match(/Work#add /, report.stdout)
    collapsed = rbprobe("export", file, "--to", "collapsed", "--threads")
    assert_exit 0, collapsed
    lines = collapsed.stdout.lines.map { |line| line.match(/\A(\S.*) (\d+)\n\z/) or flunk line }
    assert(lines.any? { |line| line[1].match?(/\Acomputes;.*Work#busy;/) }, collapsed.stdout)
    sleeps = lines.find { |line| line[1].start_with?("sleeps;") }
    assert_in_delta 1_000_000, sleeps[2].to_i, 300_000
    assert_refused 1, /is a profile, and has no calls/, "replay", file
  end

  test "other programs read what is exported" do
    file = "#{directory}/profile"
    assert_exit 0, rbprobe("profile", "-p", working.pid.to_s, "--duration", "1", "-q", "-o", file)
    exported = %w[speedscope callgrind svg].to_h do |format|
      result = rbprobe("export", file, "--to", format, "--threads")
      assert_exit 0, result
      [format, result.stdout]
    end
    scope = JSON.parse(exported["speedscope"])
    computes = scope["profiles"].find { |one| one["name"] == "computes" } or flunk scope["profiles"].inspect
    assert_equal computes["endValue"], computes["weights"].sum
    assert_equal computes["samples"].size, computes["weights"].size
    names = computes["samples"].flatten.uniq.map { |frame| scope["shared"]["frames"].fetch(frame)["name"] }
    assert_includes names, "Work#busy"
    assert_read(exported["callgrind"], /^ *[\d,]+ \( *[\d.]+%\) .*Work#(add|busy)/, "callgrind_annotate", "%s")
    assert_read(exported["svg"], /\A\z/, "xmllint", "--noout", "%s")
    assert_includes exported["svg"], "<title>Work#busy ("
  end

  # The program accepts it, and says that.
  def assert_read(text, expected, *command)
    skip "needs #{command.first}" unless system("command -v #{command.first} >/dev/null")
    path = "#{directory}/exported"
    File.write(path, text)
    output, status = Open3.capture2e(*command.map { |word| word == "%s" ? path : word })
    assert_predicate status, :success?, output
    assert_match expected, output
  end

  test "a forked child goes on without it, and its parent with it" do
    target = start("profiled")
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60", "--format", "json")
    wait_until("it samples") { threads_of(target).include?("rbprobe-profile") }
    assert_equal "7", target.run("pid = fork { 100.times { [1].map { 2 } }; exit!(7) }; Process.wait2(pid)[1].exitstatus")
    assert_equal ":done", target.run("5_000.times { [1].map { 2 } }; :done")
    assert_exit 0, tracer.stop
  end

  test "one client profiles at a time, the other is told so" do
    target = start("profiled")
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60")
    wait_until("it samples") { threads_of(target).include?("rbprobe-profile") }
    assert_refused 1, /another client is profiling this process/, "profile", "-p", target.pid.to_s
    assert_exit 0, tracer.stop
  end

  test "a client that is killed leaves nothing" do
    target = working
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60")
    wait_until("it samples") { threads_of(target).include?("rbprobe-profile") }
    tracer.signal(:KILL)
    wait_until("its thread is gone") { threads_of(target).none?("rbprobe-profile") }
    assert_attachable(target)
  end

  test "a file that could not be written is not said to have the profile" do
    result = profile(start("profiled"), "-o", "/dev/full")
    assert_exit 1, result
    assert_match(/cannot write to .*No space left/, result.stderr)
    refute_match(/has the profile/, rbprobe("profile", "-p", @targets[0].pid.to_s, "--duration", "0.2", "-o", "/dev/full").stderr)
  end

  test "what cannot be is refused" do
    assert_refused 2, /--rate/, "profile", "-p", Process.pid.to_s, "--rate", "100000"
    assert_refused 2, /which file\?/, "export", "--to", "collapsed"
    assert_refused 2, /--to takes/, "export", "file", "--to", "gif"
    assert_refused 1, /no recording/, "export", "/etc/passwd", "--to", "collapsed"
  end
end
