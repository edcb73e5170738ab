# `rbprobe profile`: samples of all threads' stacks, shown and kept.

require "open3"
require_relative "helper"
require_relative "profiled"

class ProfileTest < LiveTest
  include Profiled

  test "a thread that computes is found in its method, one that sleeps in sleep, the main one where it reads" do
    target = working
    found = objects(target)
    computed = stacks_of(found, "computes")
    computed.reject! { |labels, _| labels == ["(garbage collection)"] } if Processes.musl?
    assert(computed.all? { |labels, _| labels.include?("Work#busy") }, computed.inspect)
    assert(computed.any? { |labels, _| labels.include?("Work#add") }, computed.inspect)
    # On a busy machine it waits for its first turn.
    slept = stacks_of(found, "sleeps").reject { |labels, _| labels == ["(no frames)"] }
    assert_equal 1, slept.size, slept.inspect
    assert_includes slept[0][0], "Work#wait"
    main = found["thread"].find { |thread| thread["main"] }
    elapsed = found["process"][0]["elapsed"]
    [main, named(found, "computes"), named(found, "sleeps")].each do |thread|
      assert_in_delta elapsed, thread["wall"], 0.2 * elapsed, thread.inspect
    end
    assert_operator named(found, "computes")["cpu"], :>, named(found, "sleeps")["cpu"]
  end

  test "collections are a frame of their own, and waiting is told from running" do
    target = start("profiled")
    target.run("go; $collects = Thread.new { GC.start while $going }.tap { |thread| thread.name = 'collects' }; 1")
    found = objects(target)
    sleeps = named(found, "sleeps")
    assert_in_delta sleeps["wall"], sleeps["idle"], 0.05 * sleeps["wall"] # it runs for a moment when it is looked at
    computes = named(found, "computes")
    assert_operator computes["idle"], :<, computes["wall"] - computes["cpu"] + 0.15 * computes["wall"], computes.inspect
    if target.run("GC.stat.key?(:time)") == "true"
      collected = found.fetch("state").find { |state| state["label"] == "(garbage collection)" } or flunk found["state"].inspect
      assert_operator collected["self"], :>, 0
      assert_operator stacks_of(found, "collects").sum { |labels, wall| labels == ["(garbage collection)"] ? wall : 0 }, :>, 0
    else
      assert_match(/^  this Ruby does not tell its time in garbage collections$/, profile(target).stdout)
    end
    busy = profile(target, "--no-idle")
    assert_match(/^  of all threads' time: running \d+\.\d %, idle \d+\.\d %/, busy.stdout)
    refute_match(/Work#wait/, busy.stdout)
  end

  test "of a process that does nothing all time is where it waits, and it is left alone" do
    found = objects(start("profiled"))
    process = found["process"][0]
    assert_operator found["thread"][0]["wall"], :>, 0.8 * process["elapsed"]
    assert_operator process["samples"], :<, 20, process.inspect
    labels = found["stack"].max_by { |stack| stack["wall"] }["frames"].map { |frame| frame["label"] }
    assert_includes labels.join(" "), "console"
  end

  # Ticks are a second apart there: what comes after the last one is time, too.
  test "at one sample a second no time is missing, at whatever moment the profile ends" do
    target = working
    found = objects(target, "--rate", "1")
    elapsed = found["process"][0]["elapsed"]
    [found["thread"].find { |thread| thread["main"] }, named(found, "computes"), named(found, "sleeps")].each do |thread|
      share = Processes::PATIENCE >= 10 ? 0.15 : 0.05 # emulated, it takes longer to begin and to end
      assert_in_delta elapsed, thread["wall"], share * elapsed, thread.inspect
    end
  end

  test "the tables and the tree name what is hot, in 80 columns" do
    result = profile(working)
    assert_exit 0, result
    assert_match(/^process \d+: \d+\.\d s, 3 threads(?:, \d+ samples a second)?; rbprobe used \d+\.\d\d % CPU$/,
                 result.stdout)
    assert_match(/ \d+ samples a second(?: instead of 100 to stay cheap$|; )/, result.stdout)
    assert_match(/^ +\d+\.\d{3}s +\d+\.\d% +\d+\.\d% +\d+\.\d{3}s  .*Work#add /, result.stdout)
    assert_match(/^ +\d+\.\d{3}s +\d+\.\d{3}s +\d+\.\d%  computes$/, result.stdout)
    assert_match(/^ +\d+\.\d% +\d+\.\d%   +Work#busy /, result.stdout)
    assert_empty result.stdout.lines.select { |line| line.chomp.size > 80 }
  end

  # Most threads of a server wait, and what has not run is not looked at again.
  [{}, { "RUBY_MN_THREADS" => "1" }].each do |env|
    test "a thread that goes from one wait to another is found in both, one that stays where it is#{", M:N" if env.any?}" do
      target = start("profiled", env: env)
      target.run("def here; sleep 0.05; end; def there; sleep 0.05; end; go; " \
                 "$moves = Thread.new { loop { here; there } }.tap { |thread| thread.name = 'moves' }; 1")
      found = objects(target)
      elapsed = found["process"][0]["elapsed"]
      moved = stacks_of(found, "moves")
      %w[here there].each do |name|
        part = moved.sum { |labels, wall| labels.include?("Object##{name}") ? wall : 0 }
        assert_in_delta elapsed / 2, part, 0.3 * elapsed, moved.inspect
      end
      assert_equal(["Work#wait"], stacks_of(found, "sleeps").map { |labels, _| labels.grep(/Work/) }.flatten.uniq)
    end
  end

  # Some 20,000 frames a sample: a millisecond at best.
  test "where samples take more than they may, there are fewer, and no time is missing" do
    target = start("profiled")
    target.run("def deep(left); left.zero? ? loop { sleep 0.001 } : deep(left - 1); end; " \
               "100.times { Thread.new { deep(200) } }; sleep 0.1")
    target.run_in_background("loop { Integer.sqrt(7) }")
    found = rbprobe("profile", "-p", target.pid.to_s, "--duration", "3", "--rate", "1000", "--format", "json", "-q")
    assert_exit 0, found
    process, *others = found.stdout.lines.map { |line| JSON.parse(line) }
    assert_operator process["rate_hz_mean"], :<, 500, process.inspect
    assert_operator process["samples"] + process["late"], :<, 2000, process.inspect
    main = others.find { |object| object["type"] == "thread" && object["main"] }
    assert_in_delta process["elapsed"], main["wall"], 0.2 * process["elapsed"], process.inspect
  end

  test "nothing is left of it: its thread goes" do
    target = working
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60", "--format", "json")
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    result = tracer.stop
    assert_exit 0, result
    assert_match(/"type":"stack"/, result.stdout)
    wait_until("its thread is gone") { thread_names_of(target.pid).none?("rbprobe-profile") }
    target.run("halt")
  end

  test "what a profile that is kept advises works as it is written" do
    target = working
    file = "#{directory}/profile"
    [[], %w[--cpu], %w[--no-idle]].each do |options|
      said = rbprobe("profile", "-p", target.pid.to_s, "--duration", "0.5", *options, "-o", file).stderr
      report, export = said[/^.* has the profile;.*$/].scan(/`rbprobe ([^`]+)`/).flatten.map(&:split)
      assert_equal %w[report export], [report.first, export.first]
      assert_match(/METHOD/, rbprobe(*report).tap { |result| assert_exit 0, result }.stdout)
      assert_exit 0, rbprobe(*export)
      assert_match(/<svg /, File.read("#{file}.svg"))
      File.delete("#{file}.svg")
    end
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
    info = rbprobe("replay", "--info", file).stdout
    assert_match(/^process #{target.pid}: Ruby \d+\.\d+\.\d+\S*, /, info)
    assert_match(/^   a profile; \d.* in \d+ blocks?, .* unpacked$/, info)
    session = rbprobe("replay", "--info", "--format", "json", file).objects.find { |object| object["type"] == "session" }
    assert_equal [true, nil, nil], session.values_at("profile", "events", "from_ns")
    [%w[--thread main], %w[--slow 5], %w[--raised], %w[--depth 2]].each do |options|
      assert_refused 2, /is a profile, of which calls cannot be chosen/, "export", file, "--to", "collapsed", *options
      assert_refused 2, /is a profile, whose report takes/, "report", file, *options
    end
    assert_refused 2, /--tui/, "report", file, "--tui", "--threads"
    assert_refused 2, /is a profile, whose report takes/, "report", file, "--timeline"
    assert_refused 2, /is a profile, whose report takes/, "report", file, "--from", "+1"
  end

  test "a report counts by time or CPU time, by thread, and without the tree, as the profile would have" do
    target = working
    file = "#{directory}/profile"
    result = rbprobe("profile", "-p", target.pid.to_s, "--duration", "1", "--cpu", "-o", file)
    assert_exit 0, result
    assert_match(/`rbprobe report --cpu #{file}` shows it/, result.stderr)
    wall, cpu, busy = [[], %w[--cpu], %w[--no-idle]].map do |options|
      rbprobe("report", "--no-tree", *options, file).tap { |report| assert_exit 0, report }.stdout
    end
    assert_match(/^ +SELF +TOTAL +CPU  METHOD$/, wall)
    assert_match(/^ +SELF +TOTAL +WALL  METHOD$/, cpu)
    assert_match(/Kernel#sleep|Work#wait/, wall) # 2.7 shows no methods written in C
    assert_match(/^CPU time was seen by|^  CPU time was seen by/, cpu)
    [cpu, busy].each { |table| assert_match(/METHOD\n(?:.+\n)*?.*Work#/, table) }
    [wall, cpu, busy].each { |table| refute_match(/ TREE$/, table) }
    assert_match(/ TREE\n(?:.*\n)*? *\d+\.\d% +\d+\.\d% +computes\n/, rbprobe("report", "--threads", file).stdout)
  end

  test "of a profile that is damaged there is what came before; where none can be taken, a file stays what it was" do
    target = working
    file = "#{directory}/profile"
    absent = ["profile", "-p", "4194303", "-o", file]
    assert_exit 3, rbprobe(*absent)
    refute_path_exists file
    assert_exit 0, rbprobe("profile", "-p", target.pid.to_s, "--duration", "1.5", "-q", "-o", file)
    whole = File.binread(file)
    assert_exit 3, rbprobe(*absent)
    assert_equal whole, File.binread(file)
    damaged = whole.dup
    damaged.setbyte(-8, damaged.getbyte(-8) ^ 1)
    File.binwrite(file, damaged)
    result = rbprobe("export", file, "--to", "collapsed")
    assert_exit 1, result
    assert_match(/profile is damaged at byte \d+ /, result.stderr)
    assert_match(/Work#busy/, result.stdout)
  end

  test "where a process goes away before its first answer, a file stays what it was, and no new one is left" do
    { "old" => "kept", "new" => nil }.each do |name, content|
      target = start("profiled")
      file = "#{directory}/#{name}"
      File.write(file, content) if content
      profiling = launch("profile", "-p", target.pid.to_s, "--duration", "60", "-o", file)
      wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
      Process.kill(:KILL, target.pid)
      result = profiling.wait # first: some kernels do not tell how a process ended that has been waited for
      target.wait
      assert_exit 4, result
      assert_match(/process #{target.pid} was killed by signal 9 \(Killed\) before it had answered/, result.stderr)
      assert_equal [content].compact, Dir[file].map { |path| File.read(path) }
    end
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
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    assert_equal "7", target.run("pid = fork { 100.times { [1].map { 2 } }; exit!(7) }; Process.wait2(pid)[1].exitstatus")
    assert_equal ":done", target.run("5_000.times { [1].map { 2 } }; :done")
    assert_exit 0, tracer.stop
  end

  test "a process that is stopped meanwhile is said to be stopped" do
    target = start("profiled")
    profiling = launch("profile", "-p", target.pid.to_s, "--duration", "2")
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    Process.kill(:STOP, target.pid)
    result = profiling.wait
    # On a busy machine it may not have heard that it samples.
    assert_includes [1, 3], result.status, result.stderr
    assert_match(/process #{target.pid} is stopped and cannot answer; let it go on (first, )?with: kill -CONT #{target.pid}$/,
                 result.stderr)
  ensure
    Process.kill(:CONT, target.pid)
  end

  test "the children of a process are profiled, each by itself, and not their parent" do
    target = start("threads")
    workers = Array.new(2) { target.adopt(target.run("start_worker")) }
    result = rbprobe("profile", "-p", target.pid.to_s, "--children", "--duration", "1", "-q", "--format", "json")
    assert_exit 0, result
    objects = result.stdout.lines.map { |line| JSON.parse(line) }
    processes = objects.select { |object| object["type"] == "process" }
    assert_equal workers.sort, processes.map { |process| process["pid"] }.sort
    stacks = objects.select { |object| object["type"] == "stack" && object["frames"].any? }
    assert_equal workers.sort, stacks.map { |stack| stack["pid"] }.uniq.sort
  end

  test "a worker that starts meanwhile is profiled for the rest of the time, one that ends is no failure" do
    target = start("threads")
    first = target.adopt(target.run("start_worker"))
    tracer = launch("profile", "-p", target.pid.to_s, "--children", "--duration", "60", "--format", "json")
    sampled = lambda { |pid| thread_names_of(pid).include?("rbprobe-profile") }
    wait_until("it samples") { sampled.(first) }
    second = target.adopt(target.run("start_worker"))
    tracer.wait_for(/^rbprobe: worker #{second} joined$/)
    wait_until("it is sampled") { sampled.(second) }
    Process.kill(:KILL, first)
    wait_until("it has ended") { !File.exist?("/proc/#{first}/exe") || File.read("/proc/#{first}/stat")[/\) (.)/, 1] == "Z" }
    result = tracer.stop
    assert_exit 0, result
    objects = result.stdout.lines.map { |line| JSON.parse(line) }
    processes = objects.select { |object| object["type"] == "process" }
    assert_includes processes.map { |process| process["pid"] }, second
    assert_match(/process #{first} .*(ended|gone|killed|went away)/, result.stderr)
  end

  test "one client profiles at a time, the other is told so" do
    target = start("profiled")
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60")
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    assert_refused 1, /another client is profiling this process/, "profile", "-p", target.pid.to_s
    assert_exit 0, tracer.stop
  end

  test "a client that is killed leaves nothing" do
    target = working
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60")
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    tracer.signal(:KILL)
    wait_until("its thread is gone") { thread_names_of(target.pid).none?("rbprobe-profile") }
    assert_attachable(target)
  end

  test "a file that could not be written is not said to have the profile" do
    result = profile(start("profiled"), "-o", "/dev/full")
    assert_exit 1, result
    assert_match(/cannot write to .*No space left/, result.stderr)
    refute_match(/has the profile/, rbprobe("profile", "-p", @targets[0].pid.to_s, "--duration", "0.2", "-o", "/dev/full").stderr)
  end

  # Not where pages are of 64 KiB.
  COMPACT = "(begin; GC.compact; rescue NotImplementedError; end)".freeze

  # A profile by objects, of what the block has the process do meanwhile.
  def objects_while(target, *arguments)
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60", "--format", "json", *arguments)
    wait_until("it looks") { thread_names_of(target.pid).include?("rbprobe-profile") }
    sleep 2 if Processes::PATIENCE >= 10 # from there to the first object an emulated processor takes a while
    yield
    result = tracer.stop
    assert_exit 0, result
    result.stdout.lines.map { |line| JSON.parse(line) }.group_by { |object| object.fetch("type") }
  end

  test "each object of a class is counted, with its bytes, where it was made" do
    target = start("profiled")
    found = objects_while(target, "--alloc=Made+", "--every", "1") { target.run("make(1000)") }
    stacks = found.fetch("stack").to_h { |stack| [stack["frames"].map { |frame| frame["label"] }, stack] }
    assert_equal %w[LargeMade Made], stacks.keys.map(&:first).sort
    stacks.each do |labels, stack|
      assert_equal 1000, stack["objects"], labels.inspect
      assert_includes labels, "Work#make"
    end
    small, large = stacks.sort_by { |labels, _| labels.first.size }.map { |_, stack| stack["bytes"] }
    assert_operator small, :>=, 1000 * Integer(target.run("require 'objspace'; ObjectSpace.memsize_of(Made.new)"))
    assert_operator large, :>, 1000 * 200
    assert_equal 2000, found["process"][0]["objects"]
    assert_equal 0, found["process"][0]["lost"]
    assert_equal "1000", target.run("make(1000)")
  end

  test "one object of so many stands for the others, and a report and exports have bytes" do
    target = start("profiled")
    file = "#{directory}/profile"
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60", "--alloc=String", "--every", "50", "-o", file)
    wait_until("it looks") { thread_names_of(target.pid).include?("rbprobe-profile") }
    target.run("Work.new.fill(20_000)")
    assert_exit 0, tracer.stop
    collapsed = rbprobe("export", file, "--to", "collapsed", "--objects")
    assert_exit 0, collapsed
    made = collapsed.stdout.lines.grep(/Work#fill;(String#\*;)?String /).sum { |line| line[/\d+$/].to_i }
    assert_in_delta 40_000, made, 4_000 # also that of the literal
    bytes = JSON.parse(rbprobe("export", file, "--to", "speedscope").stdout)["profiles"][0]
    assert_equal "bytes", bytes["unit"]
    assert_operator bytes["endValue"], :>, made * 900
    assert_match(/^events: Bytes$/, rbprobe("export", file, "--to", "callgrind").stdout)
    assert_match(/> bytes, [\d.]+ MiB|rbprobe: bytes, [\d.]+ MiB of all threads/, rbprobe("export", file, "--to", "svg").stdout)
    report = rbprobe("report", file)
    assert_match(/^process \d+: .*; rbprobe used .*\n  \d+ objects made, about 1 of \d+ looked at$/, report.stdout)
    assert_match(/MiB .*%  +\d+  String \(made\)$/, report.stdout)
  end

  test "what is still alive at the end is told from what is not, also where objects are moved" do
    target = start("profiled")
    found = objects_while(target, "--retained", "--alloc=Made+", "--every", "1") do
      target.run("make(500); $kept = Array.new(300) { LargeMade.new }; make(500); GC.start; 1")
      target.run("#{COMPACT}; Thread.new { 50.times { $kept.pop }; nil }.join; 1")
    end
    alive = found.fetch("class").find { |one| one["label"] == "LargeMade" }
    # None is missing. The collector finds a few on stacks, which it keeps; those of a thread that has ended, too.
    assert_includes 250..262, alive["self_objects"]
    assert_operator found["class"].sum { |one| one["self_objects"] }, :<, 300
    assert_operator alive["self_bytes"], :>, 250 * 200
    assert_equal true, found["process"][0]["retained"]
    assert_equal "250", target.run("$kept.size")
  end

  test "where a Ractor ends the watching before 3.2, what is not known to stay is counted, and said" do
    target = start("profiled")
    skip "Ruby #{target.run("RUBY_VERSION")} watches on" unless target.run("RUBY_VERSION.start_with?('3.0', '3.1')") == "true"
    make = "make(100); $kept = Array.new(300) { LargeMade.new }; sleep 0.3; $VERBOSE = nil; " \
           "Ractor.new { 1 }.take; sleep 0.5; make(100); 1"
    found = objects_while(target, "--retained", "--alloc=Made+", "--every", "1") { target.run(make) }
    process = found["process"][0]
    # Those that were looked at after that are known to stay.
    alive = found.fetch("class", []).select { |one| one["label"] == "LargeMade" }.sum { |one| one["self_objects"] }
    assert_operator process["unwatched"], :>, 0
    assert_includes 300..700, process["unwatched"] + alive
    assert_operator process["not_watched"], :>, 0
    assert_equal 0, process["lost"]
    assert_equal 0, process["not_looked"]
    assert_equal "true", target.run("$kept.all? { |one| one.instance_of?(LargeMade) }")
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60", "--retained", "--alloc=Made+", "--every", "1")
    wait_until("it looks") { thread_names_of(target.pid).include?("rbprobe-profile") }
    target.run(make)
    text = tracer.stop.stdout
    assert_match(/^  it did not look for \d+\.\d s, when the process made Ractors: before Ruby 3\.2 it could$/, text)
    assert_match(/^  \d+ objects made before that are missing: it is not known whether they stay$/, text)
  end

  # Their pages are gone when objects are moved, and nobody heard of it.
  test "where Ractors are made in the middle, and objects freed unheard and others moved, the process goes on" do
    target = start("profiled")
    skip "this Ruby has no Ractors" unless target.run("defined?(Ractor) ? 1 : 0") == "1"
    found = objects_while(target, "--retained", "--alloc=Made+", "--every", "1") do
      target.run("$VERBOSE = nil; $kept = 12.times.map { sleep 0.1; Array.new(2_000) { LargeMade.new } }; GC.start; 1")
      sleep 0.5 # what was noted last is looked at
      target.run("ractor = Ractor.new { Ractor.receive; 6.times { GC.start }; 1 }; sleep 0.5; $kept = nil; ractor.send(1); " \
                 "ractor.respond_to?(:value) ? ractor.value : ractor.take")
      target.run("6.times { GC.start }; #{COMPACT}; 1")
    end
    process = found["process"][0]
    alive = found.fetch("class", []).sum { |one| one["self_objects"] }
    assert_operator process["unwatched"] + process["lost"] + alive, :<=, 24_000
    assert_equal "1000", target.run("make(1000)")
    assert_attachable(target)
  end

  # Each sleeps, and other threads run meanwhile. The main thread runs them all.
  def with_finalizers(target, count, work)
    target.run("count = #{count}; $work = proc { $entered ||= Thread.new { sleep }.tap { |thread| thread.name = 'entered' }; " \
               "#{work} }; proc { count.times { ObjectSpace.define_finalizer(Object.new, $work) } }.call; 1")
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60", "--retained", "--alloc=Made+", "--every", "1")
    wait_until("it looks") { thread_names_of(target.pid).include?("rbprobe-profile") }
    tracer.signal(:INT)
    wait_until("a finalizer runs") { thread_names_of(target.pid).include?("entered") }
    tracer
  end

  test "a client that goes while finalizers run, at the end of its profile, does not harm the process" do
    target = start("profiled")
    target.run("Thread.new { loop { sleep 0.001 } }; 1") # in which rbprobe hears that it is gone
    tracer = with_finalizers(target, 150, "sleep 0.02")
    tracer.signal(:KILL)
    assert_equal "1000", target.run("make(1000)")
    wait_until("its thread is gone") { thread_names_of(target.pid).none?("rbprobe-profile") }
    assert_includes profile(target, "--retained", "--alloc=Made+").stdout, "rbprobe used"
    assert_attachable(target)
  end

  test "finalizers that run at the end of a profile may fork, and the child goes on behind them" do
    target = start("profiled")
    # The child has nothing more to read, and ends.
    fork = "unless $forked; $forked = true; pid = Process.fork; $stdin.reopen(File::NULL) unless pid; " \
           "$status = Thread.new { Process.wait2(pid)[1].inspect } if pid; end; sleep 0.01"
    tracer = with_finalizers(target, 20, fork)
    tracer.wait
    assert_match(/exit 0/, target.run("$status.value"))
    assert_attachable(target)
  end

  test "whoever makes objects while it ends, forks or makes Ractors goes on" do
    target = start("profiled")
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "60", "--alloc")
    wait_until("it looks") { thread_names_of(target.pid).include?("rbprobe-profile") }
    assert_equal "7", target.run("pid = fork { Work.new.fill(9_000); exit!(7) }; Process.wait2(pid)[1].exitstatus")
    target.run(COMPACT)
    assert_equal "20", target.run("20.times.count { Thread.new { Work.new.fill(100) }.join }")
    target.run("$VERBOSE = nil; Ractor.new { Array.new(1000) { Object.new }.size } if defined?(Ractor); 1")
    tracer.signal(:KILL)
    wait_until("its thread is gone") { thread_names_of(target.pid).none?("rbprobe-profile") }
    assert_equal "1000", target.run("make(1000)")
    assert_attachable(target)
  end

  Program = Struct.new(:pid)

  test "a process that a signal ends meanwhile ends by this signal, whatever is sampled" do
    only_where_loading_is_possible
    [[], ["--alloc"], ["--retained"], ["--gvl"]].each do |options|
      out = "#{directory}/out"
      program = Program.new(start_beside(*Processes::RUBY, "-e", "puts 1; $stdout.flush; sleep", out: out))
      wait_until("it has started") { File.size?(out) }
      tracer = launch("profile", "-p", program.pid.to_s, "--duration", "60", *options)
      wait_until("it looks") { thread_names_of(program.pid).include?("rbprobe-profile") }
      end_beside(program.pid)
      assert_equal "TERM", Signal.signame($?.termsig.to_i), options.inspect
      assert_exit 4, tracer.wait
    end
  end

  # What a profile shows of a process that is ended when some answers have come. Each attempt gives it more time.
  def shown_of_ended(*options)
    out = "#{directory}/out"
    code = "puts 1; $stdout.flush; loop { Array.new(1000) { Object.new }; sleep 0.01 }"
    1.step(by: 1) do |seconds|
      program = Program.new(start_beside(*Processes::RUBY, "-e", code, out: out))
      wait_until("it has started") { File.size?(out) }
      tracer = launch("profile", "-p", program.pid.to_s, "--duration", "60", *options)
      wait_until("it looks") { thread_names_of(program.pid).include?("rbprobe-profile") }
      sleep seconds
      end_beside(program.pid)
      result = tracer.wait
      assert_exit 0, result
      return result.stdout unless result.stdout.empty?
      assert_operator seconds, :<, 10, "no answer came"
      File.delete(out)
    end
  end

  test "where the process ends before the collection at the end, nothing is said to stay or not to" do
    only_where_loading_is_possible
    shown = shown_of_ended("--retained")
    assert_match(/^  the profile ended before it could be seen which objects stay$/, shown)
    refute_match(/still alive|no objects/, shown)
    assert_nil JSON.parse(shown_of_ended("--retained", "--format", "json").lines.first).fetch("retained")
  end

  test "what cannot be is refused" do
    # The last of them would win, and the others be forgotten without a word.
    [["--alloc", "--cpu"], ["--gvl", "--retained"], ["--cpu", "--no-idle"]].each do |one, other|
      assert_refused 2, /\Arbprobe: a profile counts one thing: give #{one} or #{other}, not both$/,
                     "profile", "-p", Process.pid.to_s, one, other
    end
    assert_refused 2, /--every is for --alloc/, "profile", "-p", Process.pid.to_s, "--every", "10"
    assert_refused 1, /there is no class Nowhere/, "profile", "-p", start("profiled").pid.to_s, "--alloc=Nowhere"
    assert_refused 2, /--rate/, "profile", "-p", Process.pid.to_s, "--rate", "100000"
    assert_refused 2, /one file of all processes/, "profile", "-p", Process.pid.to_s, "-o", "#{directory}/%p"
    assert_refused 2, /which file\?/, "export", "--to", "collapsed"
    assert_refused 2, /--to takes/, "export", "file", "--to", "gif"
    assert_refused 1, /no recording/, "export", "/etc/passwd", "--to", "collapsed"
  end
end
