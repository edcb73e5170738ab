# rbprobe record and replay: a recording shows what a trace shows, whenever it is looked at, and whatever ended it.

require_relative "helper"
require_relative "terminal"

class RecordTest < LiveTest
  def file_of(name = "calls.rec")
    "#{@directory ||= directory}/#{name}"
  end

  def directory_of
    File.dirname(file_of)
  end

  # `rbprobe record`, in the background, armed.
  def recorder(target, *arguments)
    launch("record", "-v", "--yes", "-p", target.pid.to_s, "-o", file_of, *arguments).wait_until_armed
  end

  def record(code, *arguments, target: start("shop"))
    client = recorder(target, *arguments)
    target.run(code)
    client.stop.tap { |result| assert_exit 0, result }
  end

  def replay(*arguments, file: file_of)
    rbprobe("replay", *arguments, file).tap { |result| assert_exit 0, result }
  end

  test "what is replayed is what a trace of the same calls shows" do
    code = "$shop.sell_all([:tea, :cup]); $shop.try(:cup)"
    target = start("shop")
    tracer = trace(target, "--args", "--return", "Shop#")
    target.run(code)
    traced = tracer.stop
    record(code, "--args", "--return", "Shop#", target: target)
    replayed = replay
    assert_equal traced.tree, replayed.tree
    assert_match(/^rbprobe: 7 calls, 0 lost, \d+\.\d s; ended: interrupted$/, replayed.stderr)
    assert_equal 7, replay("--format", "json").events("call").size
    assert_equal "interrupted", replay("--format", "json").objects.last["reason"]
  end

  test "what the process warned of is told again, and with -v all that it told, wherever the recording is read" do
    target = start("shop")
    target.run("class Shelf; 4.times { |i| attr_reader \"place\#{i}\" }; def first; place0; end; end; 1")
    client = launch("record", "-v", "--no-hook", "-p", target.pid.to_s, "-o", file_of, "Shelf#").wait_until_armed
    target.run("Shelf.new.first")
    assert_exit 0, client.stop
    # On 2.7 attributes give no events.
    warning = /^rbprobe: process #{target.pid}: 4 methods (left out|cannot be traced).* and 1 more \(-v names them\)/
    [["replay"], ["report"], ["export", "--to", "chrome"]].each do |command, *arguments|
      read = ->(*more) { rbprobe(command, *arguments, *more, file_of).tap { |result| assert_exit 0, result }.stderr }
      assert_match warning, read.call
      refute_match(/Shelf#place\d left out:/, read.call)
      assert_equal 4, read.call("-v").scan(/Shelf#place\d left out:/).size, command
      refute_match(/left out/, read.call("-q"))
    end
    notes = replay("--format", "json").events("note")
    assert_equal [[target.pid, true]], notes.map { |note| [note["pid"], note["text"].match?(/\A4 methods (left out|cannot)/)] }
  end

  test "what could not be read behind what a file has is not appended to it" do
    target = start("shop")
    record("$shop.sell(:tea)", "Shop#", target: target)
    whole = File.binread(file_of)
    { "cut" => [whole[0..-3], /cannot append to it: \S+cut was cut short/],
      "other" => ["words\n", /cannot append to it: \S+other is no recording/] }.each do |name, (bytes, message)|
      File.binwrite(file_of(name), bytes)
      assert_refused 1, message, "record", "-p", target.pid.to_s, "-a", "-o", file_of(name), "Shop#"
      assert_equal bytes.b, File.binread(file_of(name))
    end
    assert_exit 0, rbprobe("profile", "-p", target.pid.to_s, "--duration", "0.2", "-q", "-o", file_of("profile"))
    assert_refused 1, /profile is a profile/, "record", "-p", target.pid.to_s, "-a", "-o", file_of("profile"), "Shop#"
    record("$shop.sell(:tea)", "-a", "Shop#", target: target)
    assert_equal 4, replay("--format", "json").events("call").size
  end

  test "two recorders do not spoil one file" do
    target = start("shop")
    client = recorder(target, "Shop#")
    busy = /another rbprobe is writing to \S+calls\.rec/
    assert_refused 1, busy, "record", "-p", target.pid.to_s, "-o", file_of, "Shop#"
    assert_refused 1, busy, "record", "-p", target.pid.to_s, "-o", file_of, "--last", "5", "Shop#"
    assert_refused 1, busy, "profile", "-p", target.pid.to_s, "-o", file_of
    target.run("$shop.sell(:tea)")
    assert_exit 0, client.stop
    assert_equal 2, replay("--format", "json").events("call").size
  end

  test "a trace that is refused leaves no file, and the file that there was" do
    target = start("shop")
    file = "#{directory}/calls.rec"
    refused = ["record", "-p", target.pid.to_s, "-o", file, "shop#price"]
    assert_refused 1, /"shop" is no class\. Did you mean Shop#price\?\n\z/, *refused
    refute File.exist?(file)
    File.write(file, "what was there")
    assert_refused 1, /"shop" is no class\. Did you mean Shop#price\?\n\z/, *refused
    assert_equal "what was there", File.read(file)
  end

  test "SIGUSR1 without --last writes what there is so far" do
    target = start("shop")
    file = "#{directory}/calls.rec"
    recorder = launch("record", "-v", "-p", target.pid.to_s, "-o", file, "Shop#price").wait_until_armed
    target.run("3.times { $shop.price(:a) }")
    wait_until("it has what was called") do
      said = recorder.stderr.scan("has all that was recorded up to now").size
      Process.kill(:USR1, recorder.pid)
      wait_until("it has written") { recorder.stderr.scan("has all that was recorded up to now").size > said }
      rbprobe("replay", file).stdout.scan("Shop#price").size == 3
    end
    target.run("$shop.price(:a)")
    assert_exit 0, recorder.stop
    assert_equal 4, rbprobe("replay", file).stdout.scan("Shop#price").size
  end

  test "what cannot be replayed is not advised" do
    target = start("shop")
    result = rbprobe("record", "-p", target.pid.to_s, "-o", "/dev/null", "--duration", "0.1", "Shop#price")
    assert_exit 0, result
    assert_match(%r{^rbprobe: /dev/null got \d+ B; it is no file that can be replayed$}, result.stderr)
    result = rbprobe("record", "-p", target.pid.to_s, "-o", "-calls", "--duration", "0.1", "Shop#price",
                     command: ["env", "--chdir=#{directory}"])
    assert_match(%r{^rbprobe: -calls has \d+ B; `rbprobe replay \./-calls` shows it$}, result.stderr)
  end

  test "how it is shown is chosen when it is replayed" do
    record("$shop.sell(:tea)", "Shop#")
    assert_equal "Shop#sell\n Shop#price\nShop#sell <end>\n", replay("-n", "-r", "1").stdout
    assert_match(/\A\d\d:\d\d:\d\d\.\d{6} Shop#sell\n/, replay("-t").stdout)
    assert_equal "Shop#sell\n", replay("-n", "--count", "1").stdout
    copy = file_of("text")
    assert_equal "", replay("-o", copy).stdout
    assert_match(/\AShop#sell\n/, File.read(copy))
  end

  test "-o - is standard output, for a program after a pipe, and not for a terminal" do
    target = start("shop")
    recorder = launch("record", "-v", "-p", target.pid.to_s, "-o", "-", "Shop#price(item)").wait_until_armed
    target.run("$shop.price(:tea)")
    result = recorder.stop
    assert_exit 0, result
    assert_match(/^rbprobe: the recording has \d+ B$/, result.stderr)
    file = file_of("calls.rec")
    File.binwrite(file, result.stdout)
    assert_equal "Shop#price(item=:tea) <time>\n", replay(file: file).tree
    terminal = Terminal.new(["record", "-p", target.pid.to_s, "-o", "-", "Shop#"]).tap { |one| @tracers << one }
    terminal.expect(/no text for a terminal/)
    assert_equal 2, terminal.wait
  end

  test "with %p a process that cannot be traced leaves the file that it had, and makes none" do
    kept = file_of("4194303.rec")
    File.write(kept, "as before")
    assert_exit 3, rbprobe("record", "-p", "4194303", "-o", file_of("%p.rec"), "Shop#")
    assert_equal "as before", File.read(kept)
    %w[record trace stat].each { |name| assert_exit 3, rbprobe(name, "-p", "4194303", "-o", file_of("%p.#{name}"), "Shop#") }
    assert_equal ["4194303.rec"], Dir.children(File.dirname(kept))
  end

  test "replayed, each process has a file of its own with %p" do
    targets = Array.new(2) { start("shop") }
    client = launch("record", "-v", "-p", targets.map(&:pid).join(","), "-o", file_of, "Shop#price")
    targets.each { |target| client.wait_for(/process #{target.pid}: tracing 1 method/) }
    targets.each { |target| target.run("$shop.price(:tea)") }
    assert_exit 0, client.stop
    assert_equal "", replay("-o", file_of("out-%p.txt")).stdout
    assert_equal targets.map { |target| "out-#{target.pid}.txt" }.sort, Dir.children(directory_of).grep(/out/).sort
    targets.each { |target| assert_match(/\A#{target.pid}: Shop#price <.*>\n\z/, File.read(file_of("out-#{target.pid}.txt"))) }
    # No process of a recording writes over it.
    FileUtils.cp(file_of, name = file_of("#{targets.first.pid}.rec"))
    refused = rbprobe("replay", "-o", file_of("%p.rec"), name)
    assert_exit 1, refused
    assert_includes refused.stderr, "is the recording itself"
    assert_equal File.binread(file_of), File.binread(name)
    assert_exit 2, rbprobe("replay", "--info", "-o", file_of("%p"), file_of)
  end

  test "measures, callers, lines and other events are in it" do
    record("$shop.sell(:tea); $shop.try(:cup); GC.start", "--measure", "alloc", "--stack=2", "--raise", "--gc", "Shop#")
    shown = replay
    assert_match(/<\d\.\d+ alloc \d+>/, shown.stdout)
    assert_match(/from .* in /, shown.stdout)
    assert_match(/! raised Shop::SoldOut: no cup/, shown.stdout)
    assert_match(/# gc major/, shown.stdout)
    assert_match(/garbage collection took/, shown.stderr)
  end

  test "where a process does not confirm the end, nobody is told that all is there" do
    target = start("shop")
    client = recorder(target, "--timeout", "1", "Shop#price")
    target.run("3.times { $shop.price(:tea) }")
    Process.kill(:STOP, target.pid)
    wait_until("it is stopped") { Processes.status_of(target.pid, "State").start_with?("T") }
    result = client.stop
    assert_exit 0, result
    said = /ended: interrupted, unconfirmed: calls may be missing that nobody counted$/
    assert_match said, result.stderr
    assert_match said, replay.stderr
  ensure
    Process.kill(:CONT, target.pid)
  end

  test "a client that is killed leaves a recording of all that came before" do
    target = start("shop")
    client = recorder(target, "Shop#price")
    target.run("50.times { $shop.price(:tea) }")
    wait_until("the calls are in the file") { replay("-q").stdout.lines.size >= 50 }
    client.kill
    result = replay
    assert_equal 50, result.stdout.lines.size
    assert_match(/^rbprobe: 50 calls, 0 lost, .* ended: the recording breaks off, unconfirmed: calls may be/, result.stderr)
    assert_match(/its end is missing$/, replay("--info").stdout)
    assert_match(/was killed: calls may be missing that nobody counted/, rbprobe("export", "-q", "--to", "html", file_of).stdout)
  end

  test "a file that was cut in the middle shows what is whole, and says where it was cut" do
    record("50.times { $shop.price(:tea) }", "Shop#price")
    bytes = File.binread(file_of)
    cut = file_of("cut.rec")
    File.binwrite(cut, bytes[0, bytes.size - 7])
    result = replay(file: cut)
    assert_equal 50, result.stdout.lines.size
    assert_match(/^rbprobe: .*cut\.rec was cut short, at byte \d+: /, result.stderr)
    packed = bytes.index("\x28\xb5\x2f\xfd".b)
    File.binwrite(cut, bytes[0, packed + 20])
    assert_match(/^   0 events; 0 calls lost; 0 B in 0 blocks, /, replay("--info", file: cut).stdout)
    bytes.setbyte(packed + 20, bytes.getbyte(packed + 20) ^ 1)
    File.binwrite(cut, bytes)
    assert_refused 1, /cut\.rec is damaged at byte \d+ /, "replay", "-q", cut
  end

  test "several processes in one file, or each in its own" do
    targets = [start("shop"), start("shop")]
    both = targets.map { |target| target.pid.to_s }
    client = launch("record", "-v", "-p", both.join(","), "-o", file_of, "Shop#price")
    both.each { |pid| client.wait_for(/^rbprobe: process #{pid}: tracing/) }
    targets.each { |target| target.run("$shop.price(:tea)") }
    assert_exit 0, client.stop
    assert_equal both.map { |pid| "#{pid}: Shop#price <time>" }.sort, replay.tree.lines(chomp: true).sort
    assert_equal both.sort, replay("--info").stdout.scan(/^process (\d+):/).flatten.sort
  end

  # Of both, armed.
  def recorder_of(targets, *arguments)
    launch("record", "-v", "-p", targets.map(&:pid).join(","), *arguments).tap do |client|
      targets.each { |target| client.wait_for(/^rbprobe: process #{target.pid}: tracing/) }
    end
  end

  test "what one process has sent is soon in the file, however busy another is" do
    silent = start("shop")
    busy = start("shop")
    client = recorder_of([silent, busy], "-o", file_of, "Shop#price")
    recorded = lambda do |target|
      replay("--info", "--format", "json").objects.any? { |one| one["pid"] == target.pid && one["events"].positive? }
    end
    busy.run("$busy = true; Thread.new { $shop.price(:tea) while $busy }; nil")
    wait_until("the busy one is in the file") { recorded.call(busy) }
    silent.run("$shop.price(:cup)")
    wait_until("the silent one is, too") { recorded.call(silent) }
    busy.run("$busy = false")
    assert_exit 0, client.stop
  end

  test "--max-size is about all files together, also those of processes that have ended" do
    ended = start("shop")
    goes_on = start("shop")
    client = recorder_of([ended, goes_on], "-o", file_of("%p.rec"), "--max-size", "40K", "Shop#price(item)")
    # Times of a slow processor take more bytes.
    ended.run("2000.times { $shop.price(rand.to_s.to_sym) }; nil")
    ended.run_in_background("exit")
    client.wait_for(/^rbprobe: #{ended.pid}: .*; ended: the process exited$/)
    assert_includes 16..39, File.size(file_of("#{ended.pid}.rec")) >> 10
    goes_on.run("Thread.new { loop { sleep 0.002; $shop.price(rand.to_s.to_sym) } }; nil")
    result = client.wait
    assert_exit 0, result
    assert_match(/ended: --max-size reached$/, result.stderr)
    assert_operator File.size(file_of("#{goes_on.pid}.rec")), :<, 36 << 10
  end

  test "appended to, a file has as many bytes as is said, and --max-size is about all of them" do
    target = start("shop")
    record("$shop.sell(:tea)", "Shop#", target: target)
    before = File.size(file_of)
    result = record("$shop.sell(:tea)", "-a", "Shop#", target: target)
    size = File.size(file_of)
    assert_operator size, :>, before
    assert_match(/calls\.rec has #{size} B; /, result.stderr)
    assert_refused 1, /calls\.rec has #{size} B already, .*; name another file/,
                   "record", "-p", target.pid.to_s, "-a", "-o", file_of, "--max-size", before.to_s, "Shop#"
    assert_equal size, File.size(file_of)
  end

  test "where each process has its own file, those that are full are said to be, and no process is attached to" do
    pids = Array.new(2) { start("shop").pid }
    one, other = pids.map { |pid| file_of("#{pid}.rec") }
    again = ["record", "-p", pids.join(","), "-o", file_of("%p.rec"), "-a", "--max-size"]
    assert_exit 0, rbprobe("record", "-p", pids.join(","), "-o", file_of("%p.rec"), "--duration", "0.1", "-q", "Shop#")
    sum = File.size(one) + File.size(other)
    assert_refused 1, /%p\.rec has #{sum} B already, .* --max-size .*; name another file/, *again, sum.to_s, "Shop#"
    assert_equal sum, File.size(one) + File.size(other)
    assert_exit 0, rbprobe(*again, (sum + 4096).to_s, "--duration", "0.1", "-q", "Shop#")
    assert_operator File.size(one) + File.size(other), :>, sum
  end

  test "--info says what is in it without a call" do
    target = start("shop")
    record("$shop.sell(:tea)", "Shop#", target: target)
    text = replay("--info").stdout
    assert_match(/\Arecorded by rbprobe \S+ on .*, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\nselectors: Shop#\n/, text)
    assert_match(/^process #{target.pid}: Ruby \d\.\d+\.\d+, /, text)
    assert_match(/^   3 events from .*; ended: interrupted$/, text)
    objects = replay("--info", "--format", "json").objects
    assert_equal %w[recording session], objects.map { |object| object["type"] }
    assert_equal [target.pid, 3], objects.last.values_at("pid", "events")
  end

  test "--info says how many selectors are a tracer's, which have no text" do
    tracer = "#{directory}/shop.tracer"
    File.write(tracer, "Shop#sell(item)\nShop#try\n")
    [[%w[Shop#price], " Shop#price and 2"], [[], " 2"]].each do |selectors, said|
      record("$shop.sell(:tea)", "-c", tracer, *selectors)
      assert_match(/^selectors:#{said} of tracers$/, replay("--info").stdout)
    end
  end

  test "--max-size ends it" do
    target = start("shop")
    client = recorder(target, "--max-size", "1K", "Shop#price")
    target.run("Thread.new { loop { $shop.price(rand.to_s.to_sym) } }; nil")
    result = client.wait
    assert_exit 0, result
    assert_match(/ended: --max-size reached$/, result.stderr)
    assert_operator File.size(file_of), :>=, 1024
  end

  test "a replay that waits for more ends with Ctrl-C as a trace does" do
    record("$shop.sell(:tea)", "Shop#")
    whole = File.binread(file_of)
    pipe = file_of("pipe")
    File.mkfifo(pipe)
    client = launch("replay", pipe)
    File.open(pipe, "wb") do |writer|
      # All but the end of the session: then it waits, and has shown nothing yet, or perhaps all.
      writer.write(whole[0...whole.rindex("\x52\x2A\x4D\x18".b)])
      writer.flush
      wait_until("it has taken all") { waiting_in(pipe).zero? }
      sleep 0.3 * Processes::PATIENCE # and looked at it
      result = client.stop
      assert_exit 0, result
      assert_match(/; ended: interrupted$/, result.stderr)
      assert_match(/\AShop#sell/, result.stdout)
    end
  end

  FIONREAD = Etc.uname[:machine].start_with?("ppc") ? 0x4004667F : 0x541B

  # Bytes in a FIFO that nobody has read.
  def waiting_in(path)
    count = [0].pack("i")
    File.open(path, File::RDONLY | File::NONBLOCK) { |file| file.ioctl(FIONREAD, count) }
    count.unpack1("i")
  end

  test "wrong usage, and files that are no recordings" do
    assert_refused 2, /record writes to a file; name it with -o FILE/, "record", "-p", "1", "Shop#"
    assert_refused 2, /--max-size takes a number of bytes, such as 500M or 2G, not "much"/, "record", "--max-size", "much"
    assert_refused 2, /--max-size takes a number of bytes, .*, not "5 "/, "record", "--max-size", "5 "
    assert_refused 2, /which recording\?/, "replay"
    assert_refused 1, /is no recording of `rbprobe record`/, "replay", __FILE__
    File.write(file_of("dump"), "{\"type\":\"ROOT\"}\n")
    assert_refused 1, /it is JSON; `rbprobe heap report` shows heap dumps/, "report", file_of("dump")
    system("gzip", file_of("dump"))
    assert_refused 1, /it is compressed; `rbprobe heap report` shows heap dumps/, "report", file_of("dump.gz")
    assert_refused 1, %r{cannot read /nowhere: No such file}, "replay", "/nowhere"
    assert_refused 1, %r{cannot read /tmp: Is a directory}, "replay", "/tmp"
    record("$shop.sell(:tea)", "Shop#")
    assert_refused 1, /is no heap dump: it is a recording, which `rbprobe report` shows$/, "heap", "report", file_of
    before = File.binread(file_of)
    assert_refused 2, /is the recording itself/, "replay", "-o", file_of, file_of
    assert_equal before, File.binread(file_of)
  end
end
