# rbprobe backtrace: where every thread is, and what it waits for, without the process noticing.

require_relative "helper"

class BacktraceTest < LiveTest
  APP = "#{Processes::ROOT}/tests/apps/threads.rb"

  def backtrace(target, *options, **others)
    rbprobe("backtrace", "-p", target.pid.to_s, *options, **others).tap { |result| assert_exit 0, result }
  end

  def objects(target, *options)
    backtrace(target, "--format", "json", *options).objects
  end

  def threads(target, *options)
    objects(target, *options).select { |object| object["type"] == "thread" }
  end

  # The thread of that name.
  def thread(target, name)
    threads(target, "--thread", name).then { |found| assert_equal(1, found.size, "threads called #{name}") && found.first }
  end

  # Its methods from the innermost to the outermost, without classes, which not every Ruby tells.
  def labels(thread)
    thread["frames"].map { |frame| frame["label"].sub(/\A(block (?:\(\d+ levels\) )?in )?.*[#.](?=\w)/, "\\1") }
  end

  test "an idle process" do
    only_without_yjit
    target = start("threads")
    result = backtrace(target)
    lines = result.stdout.lines
    ruby = Processes::RUBY_VERSION_OF_TARGET
    assert_match(/\Aprocess #{target.pid}, ruby #{ruby}, 1 thread, at \d\d:\d\d:\d\d\.\d{3}: .*threads\.rb/, lines[0])
    assert_match(/\Athread .*main, (sleeping )?in .*gets/, lines[1])
    assert_match(%r{\A   .*/console\.rb:\d+ in .*gets$}, lines[2])
    assert_match(/ in (Object#)?console$/, result.stdout)
    assert_match(/ in <main>$/, lines.last)
    refute_match(/bind_call|backtrace_locations|handle_interrupt/, result.stdout)
    assert_equal "", result.stderr
  end

  test "what each thread waits for" do
    target = start("threads")
    target.run("waiting_threads")
    { "sleeper" => "sleep", "popper" => "pop", "reader" => "read", "joiner" => "join", "valuer" => "value",
      "selector" => "select",
      "stopped" => "stop", "conditional" => "wait", "pusher" => "push" }.each do |name, method|
      assert_match(/\Asleeping in (.*[#.])?#{method}\z/, thread(target, name)["state"], name)
    end
    assert_equal ["sleep", "block in nap", "each", "nap"], labels(thread(target, "sleeper")).first(4)
  end

  # From 3.0 on also of methods written in C.
  test "the classes of methods" do
    target = start("threads")
    target.run("waiting_in_methods")
    frames = thread(target, "in methods")["frames"].map { |frame| frame["label"] }
    assert_equal ["Office.work", "block in Office#run", "Office#run", "Office::Door#open"], frames.grep(/Office/)
    assert_equal ["Kernel#sleep", "Array#each"], frames.grep(/sleep|each/) if Processes.target_ruby?(">= 3.0")
  end

  test "who holds the Mutex that a thread waits for" do
    only_without_yjit
    target = start("threads")
    target.run("contended_mutex")
    waiting = thread(target, "waiter")
    assert_match(/\Awaiting for Mutex 0x\h+ held by thread (\d+ )?"holder"\z/, waiting["state"])
    assert_equal "holder", waiting["mutex"]["owner_name"]
    assert_equal thread(target, "holder")["id"], waiting["mutex"]["owner"]
    assert_match(/\Awaiting for Monitor 0x\h+ held by thread (\d+ )?"holder"\z/, thread(target, "monitor waiter")["state"])
    assert_match(/\Asleeping in/, thread(target, "holder")["state"])
  end

  test "a thread that computes, and the one that does not get its turn" do
    target = start("threads")
    target.run("busy_threads(2)")
    states = threads(target, "--thread", "busy *").map { |thread| thread["state"] }
    assert_equal 2, states.size
    states.each { |state| assert_match(/\A(running|ready, waiting for the GVL)\z/, state) }
  end

  test "what is told of a thread: name, native id, CPU time, priority, group, labels" do
    target = start("threads")
    target.run("described_thread")
    found = thread(target, "described")
    assert_equal 2, found["priority"]
    assert_kind_of Integer, found["group"]
    assert_equal({ "job" => '"invoice 7"', "attempt" => "3", "@server" => "#<Server>" }, found["labels"])
    if Processes.target_ruby?(">= 3.1")
      assert_includes Dir.children("/proc/#{target.pid}/task"), found["native_id"].to_s
      assert_kind_of Integer, found["cpu_ns"]
    end
    assert_match(/^thread .*"described", sleeping in .*, priority 2, group 0x\h+\n   .*job="invoice 7"/,
                 backtrace(target, "-t", "described").stdout)
  end

  test "a thread that is being killed and runs an ensure: Ruby has no frames of it, and that is said" do
    target = start("threads")
    target.run("$dying = Thread.new { begin; sleep; ensure; sleep 60; end }.tap { |t| t.name = 'dying' }; sleep 0.1; " \
               "$dying.kill; sleep 0.1")
    assert_match(/"dying", .*; it is being killed, and Ruby does not report where it is$/,
                 backtrace(target, "-t", "dying").stdout)
    assert_equal [[], false], thread(target, "dying").values_at("frames", "frames_known")
  end

  # With thousands of threads a look takes longer than Ruby lets one thread run.
  test "threads that end while the others are looked at are left out" do
    target = start("threads")
    target.run("Thread.new { loop { Thread.new { sleep 0.1 + rand * #{0.5 * Processes::PATIENCE} } " \
               "while Thread.list.size < 2000; sleep 0.01 } }; nil")
    wait_until("there are that many threads") { target.run("Thread.list.size").to_i >= 1900 }
    result = nil
    # On a busy machine more of them end meanwhile than begin, now and then; where a processor is emulated, always.
    wait_until("so many are looked at") do
      result = backtrace(target, "--every", "0.01", "--count", "6", "--limit", "1")
      result.stdout[/, (\d+) threads, /, 1].to_i > (Processes::PATIENCE >= 10 ? 100 : 1000)
    end
    assert_empty result.stdout.lines.grep(/, dead|being killed/).first(3)
    assert_empty(objects(target).select { |object| object["frames_known"] == false || object["status"] == "dead" })
  end

  test "a thread that computes is shown at each look, though it is where it was" do
    target = start("threads")
    target.run("$hot = Thread.new { Thread.current.name = 'hot'; loop { } }; sleep 0.1")
    looks = backtrace(target, "--every", "0.5", "--count", "3", "--limit", "1").stdout.split(/^process /).drop(1)
    looks.each { |look| assert_match(/^thread \d*.*"hot", (?:running|ready)/, look) }
    assert looks.drop(1).any? { |look| look.match?(/^1 as before, for [\d.]+ s or longer: thread \d+ main$/) }
  end

  test "CPU time since the look before, and since when a thread is where it is" do
    target = start("threads")
    target.run("$hot = Thread.new { Thread.current.name = 'hot'; loop { } }; $cold = thread('cold') { sleep }; nil")
    looks = backtrace(target, "--every", "0.3", "--count", "3", "--limit", "1").stdout.split(/^process /).drop(1)
    refute_match(/\(\+/, looks.first)
    if Processes.target_ruby?(">= 3.1")
      looks.drop(1).each { |look| assert_match(/"hot", (?:running|ready).*, [\d.]+ s CPU \(\+\d+\.\d{3} s\)$/, look) }
    end
    objects = backtrace(target, "--every", "0.3", "--count", "3", "--format", "json").objects
    of = ->(name) { objects.select { |object| object["name"] == name } }
    first, second, third = of.("cold").map { |object| object["unmoved_ns"] }
    times = objects.select { |object| object["type"] == "process" }.map { |object| object["time_ns"] }
    # Where a processor is emulated, a signal may cost the thread that it comes to a hundredth of the time.
    unless Processes::PATIENCE >= 10 && of.("cold").any? { |object| object.fetch("cpu_since_ns", 0) > 1_000_000 }
      assert_equal [nil, times[1] - times[0], times[2] - times[0]], [first, second, third], of.("cold").inspect
    end
    used = of.("hot").map { |object| object["cpu_ns"] }
    skip "the threads of this Ruby have no native ids" unless used.all?
    assert_equal [nil, 0, 0], of.("hot").map { |object| object["unmoved_ns"] }
    assert_equal [nil, used[1] - used[0], used[2] - used[1]], of.("hot").map { |object| object["cpu_since_ns"] }
    groups = backtrace(target, "--every", "0.3", "--count", "2", "--format", "json", "--group").objects
    refute groups.find { |object| object["type"] == "process" }.key?("unmoved_ns")
    assert_equal [nil, 0], groups.flat_map { |object| object["threads"] || [] if object["type"] == "group" }.compact
                                 .select { |thread| thread["label"].include?("hot") }.map { |thread| thread["unmoved_ns"] }
  end

  test "100 threads" do
    target = start("threads")
    target.run("many_threads(100)")
    assert_equal 100, threads(target, "--thread", "many *").size
    # Together in one group.
    result = backtrace(target, "--group", "--thread", "many *")
    assert_match(/^x100 sleeping in .*pop(?:, [\d.]+ s CPU)?:\n   thread .*"many \d+", .* and 92 more\n   .* in .*pop$/,
                 result.stdout)
    assert_equal 1, result.stdout.scan(/^   .* in .*pop$/).size
    group = objects(target, "--group", "--thread", "many *").find { |object| object["type"] == "group" }
    assert_equal [100, 100], [group["count"], group["threads"].map { |thread| thread["id"] }.uniq.size]
    assert_match(/pop\z/, group["frames"].first["label"])
  end

  test "the socket or pipe that a thread waits on" do
    skip "the threads of this Ruby have no native ids" unless Processes.target_ruby?(">= 3.1")
    target = start("threads")
    port = target.run(<<~'RUBY').to_i
      require "socket"
      require "tmpdir"
      $server = TCPServer.new("127.0.0.1", 0)
      $client = TCPSocket.new("127.0.0.1", $server.addr[1])
      $accepted = $server.accept
      $pipe = IO.pipe
      $name = "#{Dir.tmpdir}/rbprobe-test-#{$$}.socket"
      $unix = UNIXServer.new($name)
      $unix_client = UNIXSocket.new($name)
      $unix_accepted = $unix.accept
      File.delete($name)
      $pair = UNIXSocket.pair
      { "unix" => -> { $unix_client.gets }, "unix server" => -> { $unix_accepted.gets }, "pair" => -> { $pair[0].gets },
        "tcp" => -> { $client.gets }, "pipe" => -> { $pipe[0].read }, "none" => -> { sleep } }.each do |name, body|
        Thread.new(&body).name = name
      end
      sleep 0.2
      $server.addr[1]
    RUBY
    skip "this user may not see what its processes wait for" unless thread(target, "pipe").key?("waits_on")
    tcp = /TCP 127\.0\.0\.1:\d+ to 127\.0\.0\.1:#{port} \(descriptor \d+\)/
    assert_match(/\A#{tcp}\z/, thread(target, "tcp")["waits_on"])
    assert_match(/\Aa pipe \(descriptor \d+\)\z/, thread(target, "pipe")["waits_on"])
    assert_match(%r{\Aa UNIX socket to /\S*/rbprobe-test-\d+\.socket \(descriptor \d+\)\z}, thread(target, "unix")["waits_on"])
    assert_match(%r{\AUNIX socket /\S*/rbprobe-test-\d+\.socket \(descriptor \d+\)\z}, thread(target, "unix server")["waits_on"])
    assert_match(/\Aa UNIX socket \(descriptor \d+\)\z/, thread(target, "pair")["waits_on"])
    refute thread(target, "none").key?("waits_on")
    assert_match(/"tcp", sleeping in \S+ on #{tcp}, /, backtrace(target).stdout)
  end

  test "the application's frames alone" do
    target = start("threads")
    target.run(<<~RUBY)
      eval("def rack_call; yield; end", TOPLEVEL_BINDING, "/srv/gems/rack-2.2.6/lib/rack/builder.rb", 7)
      eval("def puma_call(&b); rack_call(&b); end", TOPLEVEL_BINDING, "/srv/gems/puma-5.6.5/lib/puma/server.rb", 9)
      eval("def app_call; puma_call { sleep }; end", TOPLEVEL_BINDING, "/srv/shop/app.rb", 3)
      eval("def gem_wait; sleep; end", TOPLEVEL_BINDING, "/srv/gems/pg-1.4.5/lib/pg.rb", 5)
      Thread.new { app_call }.name = "in app"
      Thread.new { gem_wait }.name = "in gem"
      sleep 0.1
    RUBY
    app = backtrace(target, "--app", "--thread", "in app").stdout.lines.grep(/^   /)
    assert_match(%r{\A   /srv/shop/app\.rb:3 in .*sleep\n   /srv/shop/app\.rb:3 in block in .*app_call\n}, app.join)
    assert_equal "   ... 2 frames of rack-2.2.6 and others\n", app[2]
    assert_match(%r{\A   /srv/shop/app\.rb:3 in .*app_call$}, app[3])
    assert_match(%r{^   pg-1\.4\.5:pg\.rb:5 in .*sleep\n   \.\.\. 1 frame of pg-1\.4\.5\n},
                 backtrace(target, "--app", "--thread", "in gem").stdout)
  end

  test "a deadlock is named and drawn" do
    target = start("threads")
    target.run(<<~RUBY)
      $locks = Array.new(3) { Mutex.new }
      3.times do |i|
        Thread.new { $locks[i].synchronize { sleep 0.2; $locks[(i + 1) % 3].synchronize { } } }.name = "lock \#{i}"
      end
      Thread.new { Thread.current.name = "beside"; sleep 0.4; $locks[0].synchronize { } }
      sleep 0.8
    RUBY
    skip "this Ruby does not tell who holds a Mutex" unless backtrace(target).stdout.include?(" held by ")
    assert_match(/^deadlock of 3 threads:
   thread .*"lock 0" waits for Mutex 0x\h+, held by
   -> thread .*"lock 1" waits for Mutex 0x\h+, held by
   -> thread .*"lock 2" waits for Mutex 0x\h+, held by
   -> thread .*"lock 0"$/, backtrace(target).stdout)
    all = objects(target)
    circle = all.find { |object| object["type"] == "deadlock" }["threads"]
    locked = all.select { |object| object["name"].to_s.start_with?("lock") }
    assert_equal locked.map { |thread| [thread["id"], thread["mutex"]["id"]] },
                 circle.map { |thread| thread.values_at("id", "mutex") }
    refute_includes backtrace(start("threads")).stdout, "deadlock"
  end

  test "a deep stack whole, and its innermost frames" do
    only_without_yjit
    target = start("threads")
    target.run("deep_thread(8000)")
    # In pieces: it does not fit a record.
    pieces = objects(target, "--thread", "deep").select { |object| object["frames"] }
    assert_operator pieces.size, :>, 1
    assert_operator pieces.sum { |piece| piece["frames"].size }, :>=, 8000
    limited = thread_limited(target, 3)
    assert_equal 3, limited["frames"].size
    assert_equal true, limited["more"]
    assert_match(/\n   \.\.\.\n\z/, backtrace(target, "--thread", "deep", "--limit", "3").stdout)
    missing = rbprobe("bt", "-p", target.pid.to_s, "--thread", "deap")
    assert_exit 1, missing
    assert_equal "rbprobe: process #{target.pid}: no thread has the name or id deap\n", missing.stderr
  end

  # The VM goes on with the number of its parent's.
  test "the main thread of a forked process has that one's number, and its processor time, while another thread computes" do
    target = start("console")
    child = target.run("fork { $hot = Thread.new { loop { } }; at = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID); " \
                       "nil while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) - at < 0.2; sleep }").to_i
    wait_until("it sleeps") do
      main = rbprobe("bt", "-p", child.to_s, "--format", "json").objects.find { |object| object["main"] }
      next unless main && !main["current"] && main["status"] != "running"

      assert_equal child, main["native_id"]
      assert_operator main["cpu_ns"], :>, 10_000_000
      true
    end
    assert_match(/^thread #{child} main/, rbprobe("bt", "-p", child.to_s, "--thread", child.to_s).stdout)
  ensure
    Process.kill(:KILL, child) if child
  end

  def thread_limited(target, limit)
    threads(target, "--thread", "deep", "--limit", limit.to_s).first
  end

  test "fibers that do not run" do
    target = start("threads")
    target.run("waiting_fiber")
    fiber = objects(target, "--fibers").find { |object| object["type"] == "fiber" && object["status"] == "suspended" }
    assert_match(/threads\.rb:\d+/, fiber["created_at"])
    assert_equal %w[yield block\ in\ waiting_fiber], labels(fiber) if Processes.target_ruby?(">= 3.0")
  end

  # ObjectSpace.each_object shows none then.
  test "fibers of a process that has had a Ractor; beside others they cannot be told" do
    skip "this Ruby has no Ractors" if Processes.target_ruby?("< 3.0")
    target = start("console")
    target.run("Warning[:experimental] = false; $fiber = Fiber.new { Fiber.yield }; $fiber.resume")
    target.run("$out = ->(one) { one.respond_to?(:take) ? one.take : one.join; nil }; $out[Ractor.new { }]")
    assert_operator objects(target, "--fibers").count { |object| object["type"] == "fiber" }, :>=, 1
    target.run("$other = Ractor.new { Ractor.receive }; nil")
    process, *others = objects(target, "--fibers")
    assert process["fibers_missing"]
    assert(others.none? { |object| object["type"] == "fiber" })
    assert_match(/1 more Ractor, which are not shown, nor are any fibers, at/, backtrace(target, "--fibers").stdout.lines.first)
    refute_match(/fibers/, backtrace(target).stdout.lines.first)
    target.run("$other.send(1); $out[$other]")
  end

  def without_locals_for_lack_of_time?(fibers)
    Processes::PATIENCE >= 10 && fibers.any? { |fiber| fiber["locals_missing"] == "time" }
  end

  test "fibers that wait for one that they resumed, and a thread's own" do
    target = start("threads")
    target.run("class Fiber; def to_s = 'mine'; def backtrace_locations = raise; end; nil") if Processes.target_ruby?(">= 3.0")
    target.run("resuming_fibers")
    status = Processes.target_ruby?(">= 3.0") ? "resuming" : "suspended"
    fibers = objects(target, "--fibers", "--locals").select { |object| object["type"] == "fiber" && object["status"] == status }
    assert_equal 3, fibers.size
    fibers.each { |fiber| assert_match(/:\d+\z/, fiber["created_at"]) if fiber.key?("created_at") }
    next unless Processes.target_ruby?(">= 3.0")

    innermost = fibers.map { |fiber| labels(fiber).first(2) }.sort
    assert_equal [["next", "block in resuming_fibers"], ["resume", "block (2 levels) in resuming_fibers"],
                  ["resume", "block in resuming_fibers"]], innermost
    skip "where a processor is emulated, there is no time for local variables" if without_locals_for_lack_of_time?(fibers)
    assert(fibers.any? { |fiber| fiber["frames"][1]["locals"]&.fetch("outer", nil) == "1" }, fibers.inspect)
    assert(fibers.any? { |fiber| fiber["frames"][1]["locals"]&.fetch("number", nil) == "10000" }, fibers.inspect)
  end

  test "lines of eval before the first one, as templates have them" do
    target = start("threads")
    target.run('thread("template") { eval("sleep", binding, "t.erb", -5) }; nil')
    assert_match(/^   t\.erb:-5 in /, backtrace(target, "--thread", "template").stdout)
    assert_includes thread(target, "template")["frames"].map { |frame| frame.values_at("path", "line") }, ["t.erb", -5]
  end

  test "again and again, with what is different" do
    target = start("threads")
    target.run("waiting_threads")
    tracer = launch("bt", "-p", target.pid.to_s, "--every", "0.05")
    tracer.wait_for(/as before/)
    target.run("release_popper")
    tracer.wait_for(/^gone: thread .*"popper"/)
    assert_exit 0, tracer.stop
    result = rbprobe("bt", "-p", target.pid.to_s, "--every", "0.01", "--count", "3")
    assert_exit 0, result
    assert_equal 3, result.stdout.scan(/^process #{target.pid}, /).size
  end

  test "Ctrl-C ends --every also where the process is answering just then" do
    target = start("threads")
    20.times do
      tracer = launch("bt", "-p", target.pid.to_s, "--every", "0.001")
      tracer.wait_for(Processes::PATIENCE >= 10 ? /^process .*^process /m : /as before/) # emulated, no look is as before
      assert_exit 0, tracer.stop
    end
  end

  test "an application that has its own Thread#name, Thread.list and inspect" do
    target = start("threads")
    target.run("class Thread; def self.list; raise 'no'; end; def name; raise 'no'; end; def inspect; raise 'no'; end; " \
               "def to_s; raise 'no'; end; end")
    assert_match(/main, (sleeping )?in/, backtrace(target).stdout)
    assert_equal "3", target.run("1 + 2")
  end

  test "a process that never loaded the extension" do
    only_where_loading_is_possible
    target = start("threads", load: false)
    assert_match(/main, (sleeping )?in .*gets/, backtrace(target).stdout)
  end

  test "several processes" do
    targets = Array.new(2) { start("threads") }
    result = rbprobe("bt", "-p", targets.map(&:pid).join(","))
    assert_exit 0, result
    targets.each { |target| assert_match(/^process #{target.pid}, .*\nthread .*main, (sleeping )?in/, result.stdout) }
  end

  test "the workers of a master" do
    target = start("threads")
    workers = Array.new(2) { target.adopt(target.run("start_worker")) }
    result = rbprobe("bt", "-p", target.pid.to_s, "--children")
    assert_exit 0, result
    assert_equal workers.sort, result.stdout.scan(/^process (\d+), /).flatten.map(&:to_i)
    assert_equal 2, result.stdout.scan(/in (?:Kernel#)?sleep$/).size
    without = start("threads")
    assert_refused 3, /process #{without.pid} has no child processes that are Ruby/, "bt", "-p", without.pid.to_s, "--children"
  end

  # Debian's, where there is one.
  test "Puma with Sinatra" do
    puma = Processes::RUBY.first == "chroot" ? nil : "/usr/bin/puma"
    skip "Puma is Debian's, for Debian's Ruby" unless puma && File.exist?(puma) && Processes::RUBY == ["ruby"]
    target = start("puma")
    states = threads(target).to_h { |found| [found["name"], found] }
    assert_match(/\Asleeping in Thread::ConditionVariable#wait\z/, states["puma srv tp 001"]["state"])
    assert_includes states["puma srv tp 001"]["frames"].map { |frame| frame["label"] }, "block in Puma::ThreadPool#spawn_thread"
    assert_match(/\Asleeping in IO.select\z/, states["puma srv"]["state"])
  end

  test "wrong usage" do
    assert_refused 2, /backtrace needs -p PID/, "backtrace"
    assert_refused 2, /--limit takes a whole number/, "bt", "-p", "1", "--limit", "0"
    assert_refused 2, /--every takes seconds/, "bt", "-p", "1", "--every", "never"
    assert_refused 2, /--count goes with --every/, "bt", "-p", "1", "--count", "3"
    assert_refused 2, /--format takes text or json/, "bt", "-p", "1", "--format", "xml"
  end
end
