# rbprobe heap dump: everything is in it, the application notices nothing, and whatever goes wrong leaves neither half a
# file nor a process behind.

require_relative "helper"
require "pty"
require "socket"
require "zlib"

class HeapDumpTest < LiveTest
  # Distinctive objects: a class, its instances, a string that one of them refers to.
  KNOWN = <<~'RUBY'
    class Known; def initialize(value); @value = value; end; end
    $known = Array.new(1_000) { |i| Known.new("known value number #{i} #{"of a length that is not embedded" * 3}") }
    $known.size
  RUBY

  # Takes some tenths of a second to write, and more than fits into a pipe.
  MANY = '$many = Array.new(400_000) { |i| "a string of some length, number #{i}" }; 1'.freeze

  def start_with(code)
    start("console").tap { |target| target.run(code) }
  end

  def launch_dump(target, *options, **how)
    launch("heap", "dump", "-p", target.pid.to_s, *options, **how)
  end

  def dump(target, *options, **how)
    launch_dump(target, *options, **how).wait
  end

  def dump_to_file(target, *options, **how)
    path = "#{directory}/dump.json"
    result = dump(target, "-o", path, *options, **how)
    assert_exit 0, result
    yield result if block_given?
    path
  end

  def objects_in(path)
    File.foreach(path).map { |line| JSON.parse(line, max_nesting: 10) }
  end

  def instances_of(name, objects)
    address = objects.find { |object| object["type"] == "CLASS" && object["name"] == name }.fetch("address")
    # The VM's own objects have classes as well.
    objects.select { |object| object["class"] == address && object["type"] != "IMEMO" && object["type"] != "ICLASS" }
  end

  def assert_known(objects)
    known = instances_of("Known", objects)
    assert_equal 1_000, known.size
    by_address = objects.to_h { |object| [object["address"], object] }
    values = known.map do |object|
      object["references"].map { |address| by_address[address]&.fetch("value", nil) }.compact.grep(/\Aknown value/).first
    end
    assert_equal (0...1_000).to_a, values.map { |value| value[/number (\d+)/, 1].to_i }.sort
    assert_includes objects.map { |object| object["root"] }, "vm"
  end

  # PIDs below a process, however deep.
  def descendants_of(pid)
    parents = Dir.glob("/proc/[0-9]*/status").map do |path|
      status = File.read(path)
      [status[/^Pid:\t(\d+)/, 1].to_i, status[/^PPid:\t(\d+)/, 1].to_i]
    rescue SystemCallError
      nil
    end.compact
    children = ->(of) { parents.select { |_, parent| parent == of }.flat_map { |child, _| [child, *children.(child)] } }
    children.(pid)
  end

  def possessions_of(target)
    { descriptors: Processes.descriptors_of(target.pid), threads: Processes.threads_of(target.pid),
      below: descendants_of(target.pid) }
  end

  def assert_gone(target, before)
    wait_until(-> { "#{possessions_of(target)} is #{before} again" }) { possessions_of(target) == before }
  end

  # A dump that is under way for as long as nobody reads it.
  def held_dump(target, *options)
    reader, writer = IO.pipe
    tracer = launch_dump(target, "-o", "-", *options, stdout: writer)
    writer.close
    wait_until("the copy is there") { copy_of(target) }
    wait_until("it has begun to write") { reader.wait_readable(0) }
    [tracer, reader]
  end

  def copy_of(target)
    descendants_of(target.pid).find { |pid| File.read("/proc/#{pid}/comm") == "rbprobe-dump\n" }
  rescue Errno::ENOENT
    nil
  end

  test "every line is JSON, and known objects are in it with what they refer to" do
    target = start_with(KNOWN)
    path = dump_to_file(target) do |result|
      lines = /[\d,]+ lines \(\d+ of them rbprobe's own objects\), \d+\.\d MiB in \d+\.\d s/
      assert_match(/\Arbprobe: .*dump\.json: #{lines}; the process stood still for \d+\.\d ms to fork/, result.stderr)
      assert_equal "", result.stdout
    end
    assert_known objects_in(path)
    assert_equal({ "type" => "ROOT", "root" => "rbprobe end", "references" => [] }, objects_in(path).last)
    whole = rbprobe("heap", "report", "--format=json", path)
    assert_equal ["", true], [whole.stderr, JSON.parse(whole.stdout)["dumps"].first["complete"]]
    assert_equal 0o600, File.stat(path).mode & 0o777
    assert_equal ["dump.json"], Dir.children(File.dirname(path))
  end

  # The class that memory names, too, where it counts.
  def instances_by_memory(target, name)
    result = rbprobe("memory", "-p", target.pid.to_s, "--format=json", "--top=100")
    assert_exit 0, result
    result.objects.first.dig("ruby", "objects").then do |objects|
      [objects["classes"].find { |row| row["name"] == name }&.fetch("count").to_i, objects["own"]]
    end
  end

  test "rbprobe's own objects are told from the application's, in dumps, reports and counts" do
    target = start_with("#{KNOWN}\n$methods = Array.new(3) { Known.instance_method(:initialize) }; GC.start; class Known; " \
                        "def bar(x); x; end; end; 1")
    tracer = trace(target, "Known#bar(x, self.class)")
    path = dump_to_file(target, "--gc", "--allocations=0.05") do |result|
      assert_match(/ lines \(\d+ of them rbprobe's own objects\), /, result.stderr)
    end
    tracer.stop
    objects = objects_in(path)
    own = objects.find { |object| object["root"] == "rbprobe" }.fetch("references")
    application, ours = instances_of("UnboundMethod", objects).partition { |object| !own.include?(object["address"]) }
    assert_includes 3..9, application.size # what a native stack still seems to refer to is not collected
    assert_operator ours.size, :>, 50
    # 2.7 leaves out the IO that it dumps to.
    assert_equal [true, Processes.target_ruby?(">= 3.0")],
                 %w[TracePoint IO].map { |name| instances_of(name, objects).any? { |object| own.include?(object["address"]) } }
    # Those of trials are garbage, unless a native stack still seems to refer to them.
    stack = objects.select { |object| object["root"] == "machine_context" }.flat_map { |root| root["references"] }
    assert_empty instances_of("TracePoint", objects).map { |object| object["address"] } - own - stack
    known = instances_of("Known", objects).map { |object| object["address"] }
    values = objects.select { |object| object["value"]&.start_with?("known value") }.map { |object| object["address"] }
    assert_empty own & (known + values)
    assert_empty objects.select { |object| object["struct"]&.start_with?("rbprobe ") }.map { |object| object["address"] } - own
    report = JSON.parse(rbprobe("heap", "report", "--format=json", "--sort=objects", "--top=1000", path).stdout)
    assert_equal (own & objects.map { |object| object["address"] }).size, report["dumps"].first["own_objects"]
    assert_equal(application.size, report["by_class"]["rows"].find { |row| row["class"] == "UnboundMethod" }["objects"])
    target.run("GC.start")
    counted, left_out = instances_by_memory(target, "UnboundMethod")
    assert_operator counted, :<, 20
    assert_operator left_out, :>, 50
  end

  test "what only a thread's stack holds is referred to by a root" do
    target = start("console")
    target.run(<<~RUBY)
      queue = Queue.new
      Thread.new { held = "only on a stack " * 8; queue << 1; sleep; held }
      queue.pop
    RUBY
    objects = objects_in(dump_to_file(target))
    address = objects.find { |object| object["value"]&.start_with?("only on a stack only") }.fetch("address")
    threads = objects.select { |object| object["root"]&.start_with?("thread ") }
    assert_includes threads.flat_map { |object| object["references"] }, address
  end

  test "the application does not notice: no signal, no child, no at_exit, no finalizer, nothing flushed" do
    here, site = directory_of_target
    target = start("console")
    target.run(<<~RUBY)
      $children = 0
      trap("CLD") { $children += 1 }
      at_exit { File.write("#{site}/ran", "at_exit \#{Process.pid}\\n", mode: "a") }
      trap("TERM") { File.write("#{site}/ran", "TERM\\n", mode: "a") }
      finalizer = proc { File.write("#{site}/ran", "finalizer in \#{Process.pid}\\n", mode: "a") }
      200.times { ObjectSpace.define_finalizer(Object.new, finalizer) }
      $buffered = File.open("#{site}/buffered", "w")
      $buffered.write("not flushed yet")
      $waiter = Thread.new { begin; Process.wait(-1); rescue Errno::ECHILD; sleep 0.01; retry; end }
      $waiter.report_on_exception = false
      1
    RUBY
    before = possessions_of(target)
    3.times { dump_to_file(target) }
    assert_gone(target, before)
    assert_equal "0", target.run("$children")
    assert_equal "true", target.run("$waiter.alive?")
    assert_equal "", File.read("#{here}/buffered")
    ran = File.exist?("#{here}/ran") ? File.read("#{here}/ran") : ""
    assert_empty ran.lines.grep_v(/\Afinalizer in #{target.pid}$/)
    assert_equal "true", target.run("begin; Process.wait(-1, Process::WNOHANG); false; rescue Errno::ECHILD; true; end")
  end

  test "objspace is not loaded into the application" do
    target = start("console")
    dump_to_file(target)
    assert_equal "false", target.run("ObjectSpace.respond_to?(:trace_object_allocations_start)")
    refute_match(/objspace/, File.read("/proc/#{target.pid}/maps"))
  end

  test "an application that has loaded objspace by itself" do
    target = start_with(KNOWN)
    target.run("require 'objspace'")
    assert_known objects_in(dump_to_file(target))
  end

  test "eight busy threads go on" do
    target = start("busy", 8)
    target.run(KNOWN)
    target.run("go")
    assert_known objects_in(dump_to_file(target))
    before = target.run("steps").to_i
    wait_until("they go on") { target.run("steps").to_i > before }
    target.run("halt")
  end

  test "while another command is under way, and other threads take turns with its job" do
    target = start("busy", 4)
    target.run("go")
    seconds, times = Processes::PATIENCE >= 10 ? [(60 * Processes::PATIENCE).to_s, 2] : ["60", 8]
    times.times do
      others = Array.new(3) { launch("methods", "-p", target.pid.to_s, "--timeout", seconds, "*#*", "*.*") }
      dumped = dump(target, "--timeout", seconds, "-o", "#{directory}/dump.json")
      assert_exit 0, dumped
      others.each { |other| assert_exit 0, other.wait }
    end
    target.run("halt")
  end

  test "a process that sleeps, and one that never loaded the extension" do
    only_where_loading_is_possible
    assert_operator objects_in(dump_to_file(start("states", "sleep"))).size, :>, 1_000
    bare = start("console", load: false)
    bare.run(KNOWN)
    assert_known objects_in(dump_to_file(bare))
  end

  test "in a namespace where the application is PID 1" do
    only_root
    skip "the target's Ruby is in a chroot" if Processes::RUBY.first == "chroot"
    outside = start("console", wrapper: %w[unshare -p -f -m --mount-proc])
    pid = outside.adopt(descendants_of(outside.pid).first)
    outside.run(KNOWN)
    assert_equal "1", outside.run("$children = 0; trap('CLD') { $children += 1 }; Process.pid")
    path = "#{directory}/dump.json"
    assert_exit 0, rbprobe("heap", "dump", "-p", pid.to_s, "-o", path)
    assert_known objects_in(path)
    wait_until("nothing is below it") { descendants_of(pid).empty? }
    assert_equal "0", outside.run("$children")
  end

  test "Puma with Sinatra goes on answering" do
    only_where_loading_is_possible
    only_with_gems("puma", "sinatra/base")
    site = directory
    puma = start_beside(*Processes::RUBY, "-S", "puma", "--threads", "4:4", "-b", "unix://#{site}/socket",
                        "#{Processes::ROOT}/tests/apps/demo/config.ru", out: "#{site}/log", pgroup: true)
    wait_until("it listens") { File.read("#{site}/log").include?("Use Ctrl-C to stop") }
    request = "GET /items?word=tea HTTP/1.0\r\nHost: localhost\r\n\r\n"
    answer = -> { UNIXSocket.open("#{site}/socket") { |socket| socket.write(request); socket.read } }
    first = answer.call
    result = rbprobe("heap", "dump", "-p", puma.to_s, "-o", "#{site}/dump.json")
    assert_exit 0, result
    objects = objects_in("#{site}/dump.json")
    assert_includes objects.map { |object| object["name"] if object["type"] == "CLASS" }, "Sinatra::Base"
    assert_equal 4, instances_of("Item", objects).size
    assert_equal first.lines.last, answer.call.lines.last
    wait_until("nothing is below it") { descendants_of(puma).empty? }
  end

  # --- Where it goes

  test "to standard output, and packed by gzip or zstd" do
    target = start_with(KNOWN)
    out = "#{directory}/out"
    result = dump(target, "-o", "-", "-q", stdout: out)
    assert_exit 0, result
    assert_equal "", result.stderr
    assert_known objects_in(out)
    path = dump_to_file(target, "--gzip")
    plain = "#{directory}/plain"
    Zlib::GzipReader.open(path) { |gzip| IO.copy_stream(gzip, plain) }
    assert_known objects_in(plain)
    assert_operator File.size(path), :<, File.size(plain) / 3
    assert_exit 0, rbprobe("heap", "report", path)
    packed = dump_to_file(target, "--zstd")
    assert_equal "28b52ffd", File.binread(packed, 4).unpack1("H*")
    report = rbprobe("heap", "report", "--sort=objects", "--top=1000", packed)
    assert_exit 0, report
    assert_match(/\b1,?000\b.*Known/, report.stdout)
  end

  test "without -o the file is named by PID and time" do
    target = start("console")
    site = directory
    result = rbprobe("heap", "dump", "-p", target.pid.to_s, "--gzip", command: ["env", "-C", site])
    assert_exit 0, result
    assert_match(/\Aheap-#{target.pid}-\d{8}-\d{6}\.json\.gz\z/, Dir.children(site).first)
    assert_includes result.stderr, Dir.children(site).first
  end

  test "a file that is there is replaced at once, or not at all" do
    target = start("console")
    path = "#{directory}/dump.json"
    File.write(path, "before")
    assert_exit 0, dump(target, "-o", path)
    refute_equal "before", File.read(path, 6)
    assert_equal ["dump.json"], Dir.children(File.dirname(path))
    assert_refused 1, %r{cannot write to /nowhere/dump.json: No such file}, "heap", "dump", "-p", target.pid.to_s,
                   "-o", "/nowhere/dump.json"
  end

  test "a terminal sees how far it is; with -q it does not" do
    target = start("console")
    target.run("$many = Array.new(1_500_000) { |i| [i] }; 1")
    bar = %r{\[#*-*\] +\d+ %  [\d,]+ of about 1,[\d,]+ objects, \d+\.\d MiB, \d+ MiB/s}
    assert_match bar, seen_by_terminal(target)
    assert_equal "", seen_by_terminal(target, "-q")
  end

  # What a dump writes to a terminal.
  def seen_by_terminal(target, *options)
    terminal, side = PTY.open
    pid = Process.spawn(RBPROBE, "heap", "dump", "-p", target.pid.to_s, "-o", "#{directory}/dump.json", *options,
                        in: File::NULL, out: File::NULL, err: side, pgroup: true)
    side.close
    seen = +""
    begin
      loop { seen << terminal.readpartial(4096) }
    rescue Errno::EIO, EOFError
      Process.wait(pid)
    end
    assert_equal 0, $?.exitstatus, seen
    seen
  end

  # --- What goes wrong

  test "the disk is full" do
    target = start_with(MANY)
    before = possessions_of(target)
    result = dump(target, "-o", "/dev/full")
    assert_exit 1, result
    assert_equal "rbprobe: cannot write to /dev/full: No space left on device; nothing was kept\n", result.stderr
    assert_gone(target, before)
    only_root
    site = directory
    full = ["unshare", "-m", "sh",
            "-c", "mount -t tmpfs -o size=1m none '#{site}' || exit 9; \"$@\"; status=$?; ls -A '#{site}'; exit $status", "sh"]
    only_where_namespaces_are_allowed(full)
    result = dump(target, "-o", "#{site}/dump.json", command: full)
    assert_exit 1, result
    assert_match(/dump\.json: No space left on device; nothing was kept$/, result.stderr)
    assert_equal "", result.stdout # of ls
    assert_gone(target, before)
  end

  test "the file is larger than the limit for files" do
    target = start("console")
    site = directory
    result = dump(target, "-o", "#{site}/dump.json", command: ["prlimit", "--fsize=100000"])
    assert_exit 1, result
    assert_match(/dump\.json: File too large; nothing was kept$/, result.stderr)
    assert_empty Dir.children(site)
  end

  test "the client is killed" do
    target = start_with(MANY)
    before = possessions_of(target)
    tracer, reader = held_dump(target)
    tracer.kill
    reader.close
    assert_gone(target, before)
    assert_attachable(target)
    site = directory
    tracer = launch_dump(target, "-o", "#{site}/dump.json")
    wait_until("the copy is there") { copy_of(target) }
    tracer.kill
    assert_gone(target, before)
    assert_empty Dir.children(site)
  end

  test "the client is interrupted" do
    target = start_with(MANY)
    before = possessions_of(target)
    site = directory
    tracer = launch_dump(target, "-o", "#{site}/dump.json")
    wait_until("the copy is there") { copy_of(target) }
    tracer.signal(:INT)
    result = tracer.wait
    assert_exit 1, result
    assert_equal "rbprobe: interrupted; nothing was kept\n", result.stderr
    assert_empty Dir.children(site)
    assert_gone(target, before)
  end

  test "the client is stopped: the application goes on" do
    target = start_with(MANY)
    before = possessions_of(target)
    tracer, reader = held_dump(target)
    tracer.signal(:STOP)
    assert_equal "2", target.run("1 + 1")
    tracer.signal(:CONT)
    lines = 0
    reader.each_line { lines += 1 }
    assert_exit 0, tracer.wait
    assert_operator lines, :>, 400_000
    assert_gone(target, before)
  end

  test "the reader of standard output goes away" do
    target = start_with(MANY)
    before = possessions_of(target)
    tracer, reader = held_dump(target)
    reader.close
    result = tracer.wait
    assert_exit 1, result
    assert_equal "rbprobe: the reader closed the pipe before the dump was complete; nothing was kept\n", result.stderr
    assert_gone(target, before)
  end

  test "the target is killed" do
    target = start_with(MANY)
    site = directory
    tracer = launch_dump(target, "-o", "#{site}/dump.json")
    copy = wait_until("the copy is there") { copy_of(target) }
    tracer.signal(:STOP)
    target.signal(:KILL)
    target.wait
    tracer.signal(:CONT)
    result = tracer.wait
    # What was complete before is kept.
    assert_includes [4, 0], result.status, result.stderr
    # It has been waited for: how it ended only newer kernels tell then.
    said = /process #{target.pid} (was killed by signal 9 .*|went away) before it had answered/
    assert_match(said, result.stderr) if result.status == 4
    assert_equal result.status == 4 ? [] : ["dump.json"], Dir.children(site)
    wait_until("the copy is gone") { !File.exist?("/proc/#{copy}") || Processes.status_of(copy, "State")&.start_with?("Z") }
  end

  test "the copy is killed" do
    target = start_with(MANY)
    before = possessions_of(target)
    tracer, reader = held_dump(target)
    Process.kill(:KILL, copy_of(target))
    reader.read
    result = tracer.wait
    assert_exit 1, result
    assert_match(
      /the copy of the process that wrote the dump was killed by signal 9 \(Killed\); short of memory\?; nothing was kept$/,
      result.stderr
    )
    assert_gone(target, before)
  end

  # As one whose allocator's lock was held by another thread when it was forked.
  test "the copy does not go on" do
    target = start_with(MANY)
    before = possessions_of(target)
    tracer, reader = held_dump(target)
    Process.kill(:STOP, copy_of(target))
    reader.read
    result = tracer.wait(45)
    assert_exit 1, result
    assert_match(/\Arbprobe: the copy of process #{target.pid} has written nothing for 20 s, and is ended: /, result.stderr)
    assert_equal "2", target.run("1 + 1")
    assert_gone(target, before)
  end

  test "no process can be made" do
    only_root_with_a_nobody
    # The kernel counts all processes of a user: this one has no others, in whatever tests that run beside this one.
    user = 65_534
    target = start("console", user: user)
    # Files that Ruby read as it started are closed by the GC.
    target.run("GC.start; nil")
    before = possessions_of(target)
    assert_attachable(target)
    refused = nil
    # A session takes a thread, and for a moment a process of the client's; a dump a thread and two processes: one of these
    # is one too many.
    more = [1, 2, 3].cycle
    wait_until("a limit is found with which a session works and a dump does not") do
      threads = Dir.glob("/proc/[0-9]*/task/*").count { |path| File.stat(path).uid == user rescue false }
      limit = threads + more.next
      target.run("Process.setrlimit(:NPROC, #{limit}, Process.getrlimit(:NPROC)[1])")
      refused = rbprobe("heap", "dump", "-p", target.pid.to_s, "-o", "#{directory}/dump.json")
      refused.status == 1
    end
    assert_match(/(the process cannot be forked|no thread for forking): Resource temporarily unavailable; nothing was kept$/,
                 refused.stderr)
    target.run("Process.setrlimit(:NPROC, *[Process.getrlimit(:NPROC)[1]] * 2)")
    dump_to_file(target)
    assert_gone(target, before)
  end

  # --- Other ways

  test "--no-fork: the process dumps itself, where somebody has agreed to that" do
    target = start_with(KNOWN)
    path = "#{directory}/dump.json"
    refused = dump(target, "--no-fork", "-o", path)
    assert_exit 2, refused
    warning = /without a fork process #{target.pid} would stand still for about \d+\.\d s \(\d+ objects\)/
    assert_match(/\Arbprobe: #{warning}; allow that with --yes$/, refused.stderr)
    refute File.exist?(path)
    before = possessions_of(target)
    result = dump(target, "--no-fork", "--yes", "-o", path)
    assert_exit 0, result
    assert_match(/ in \d+\.\d s, in which the process stood still$/, result.stderr)
    assert_known objects_in(path)
    assert_equal "rbprobe end", objects_in(path).last["root"]
    assert_gone(target, before)
  end

  test "--no-fork: a client that is stopped or killed does not hold the process up" do
    target = start_with(MANY)
    before = possessions_of(target)
    %i[STOP KILL].each do |signal|
      reader, writer = IO.pipe
      tracer = launch_dump(target, "--no-fork", "--yes", "-o", "-", stdout: writer)
      writer.close
      wait_until("it has begun to write") { reader.wait_readable(0) }
      tracer.signal(signal)
      assert_equal "2", target.run("1 + 1")
      tracer.kill
      reader.close
      assert_gone(target, before)
    end
  end

  test "--gc: what is garbage is not in it" do
    target = start("console")
    target.run("class Garbage; end; GC.disable; 50_000.times { Garbage.new }; GC.enable; 1")
    assert_operator instances_of("Garbage", objects_in(dump_to_file(target, "--gc"))).size, :<, 1_000
  end

  test "--allocations: file, line and generation of what is made meanwhile, and nothing of it stays" do
    target = start("busy")
    target.run("class Fresh; end; 1")
    target.run("$maker = Thread.new { loop { $fresh = Array.new(50) { Fresh.new }; sleep 0.01 } }; 1")
    path = dump_to_file(target, "--allocations=0.3") do |result|
      assert_match(/records where it allocates objects, for 0\.3 s$/, result.stderr)
    end
    fresh = instances_of("Fresh", objects_in(path)).select { |object| object["file"] }
    assert_operator fresh.size, :>=, 50
    assert_equal [["console", 1]], fresh.map { |object| object.values_at("file", "line") }.uniq
    assert_equal "nil", target.run("ObjectSpace.allocation_sourcefile($fresh.first)")
    assert_equal "nil", target.run("ObjectSpace.allocation_sourcefile(Object.new)")
  end

  test "--allocations: what the application records by itself is not touched" do
    target = start("console")
    target.run("require 'objspace'; ObjectSpace.trace_object_allocations_start; $own = Object.new; 1")
    dump_to_file(target, "--allocations=0.05")
    assert_equal '"console"', target.run("ObjectSpace.allocation_sourcefile($own)")
    assert_equal '"console"', target.run("ObjectSpace.allocation_sourcefile(Object.new)")
  end

  test "--allocations: recording ends with its client" do
    target = start("console")
    tracer = launch_dump(target, "--allocations=600", "-o", "#{directory}/dump.json")
    tracer.wait_for(/records where it allocates/)
    refute_equal "nil", target.run("ObjectSpace.allocation_sourcefile(Object.new)")
    tracer.kill
    wait_until("it records no more") { target.run("ObjectSpace.allocation_sourcefile(Object.new)") == "nil" }
    tracer = launch_dump(target, "--allocations=600", "-o", "#{directory}/dump.json")
    tracer.wait_for(/records where it allocates/)
    result = tracer.stop
    assert_exit 1, result
    assert_match(/^rbprobe: interrupted; nothing was kept$/, result.stderr)
    wait_until("it records no more") { target.run("ObjectSpace.allocation_sourcefile(Object.new)") == "nil" }
  end

  test "a process with several Ractors is not forked, and says why" do
    skip "has no Ractors" unless Processes.target_ruby?(">= 3.0")
    target = start("console", ruby_options: ["-W0"])
    target.run(KNOWN)
    target.run("$ractors = Array.new(2) { Ractor.new { loop { Array.new(100) { 'x' * 500 } } } }; 1")
    path = "#{directory}/dump.json"
    result = dump(target, "-o", path)
    assert_exit 1, result
    assert_match(/the process has several Ractors, which cannot be stopped for a fork; --no-fork does without; nothing was kept$/,
                 result.stderr)
    assert_equal "2", target.run("1 + 1")
  end

  test "a dump that Ruby refuses says why, in one line" do
    target = start("console", load: false)
    target.run("require 'objspace'; %i[dump_all _dump_all].each { |name| ObjectSpace.define_singleton_method(name) { " \
               "|*| raise 'not here' } }")
    only_where_loading_is_possible
    [[], %w[--no-fork --yes]].each do |options|
      result = dump(target, "-q", "-o", "#{directory}/dump.json", *options)
      assert_exit 1, result
      overridden = /\bthe application has overridden ObjectSpace\._?dump_all /
      assert_match(/\Arbprobe: process \d+: .*Ruby's dump of the objects failed: .*#{overridden}.*; nothing was kept\n\z/,
                   result.stderr)
    end
  end

  test "wrong usage" do
    assert_refused 2, /--allocations takes seconds/, "heap", "dump", "-p", "1", "--allocations=x"
    assert_refused 2, /heap dump needs -p PID/, "heap", "dump"
  end
end
