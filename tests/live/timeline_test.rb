# `--timeline`: what threads do, recorded, exported, and why a call took long.

require_relative "helper"
require_relative "protobuf"

class TimelineTest < LiveTest
  include Protobuf

  # A thread that computes in Hog#hold, and one whose Web#request sleeps, and has to wait for the GVL then.
  CODE = <<~RUBY.freeze
    class Hog; def hold; x = 0; 2_000_000.times { |i| x += i }; x; end; end
    class Web; def request; 3.times { sleep 0.01 }; end; end
    hog = Thread.new { Thread.current.name = "hog"; Hog.new.hold until $over }
    web = Thread.new { Thread.current.name = "web"; 3.times { Web.new.request } }
    web.join
    $over = true
    hog.join
  RUBY

  DOINGS = %w[running_ns waiting_ns blocked_ns io_ns sleeping_ns thread_ns process_ns gc_ns].freeze

  def file_of(name)
    "#{@directory ||= directory}/#{name}"
  end

  # Both methods are there before they are called, and traced.
  def record
    target = start("shop")
    target.run(CODE.lines.first(2).join)
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec"), "Hog#", "Web#")
    client.wait_until_armed
    target.run(CODE.lines.drop(2).join(";"))
    assert_exit 0, client.stop
  end

  # The threads are looked at, since this Ruby does not tell what they do.
  def sampled?
    Processes.target_ruby?("< 3.2")
  end

  # What a thread does without the GVL.
  def told_apart?
    sampled? || Processes.target_ruby?(">= 3.3")
  end

  def objects(*arguments)
    result = rbprobe(*arguments, file_of("calls.rec"))
    assert_exit 0, result
    result.stdout.lines.map { |line| JSON.parse(line) }
  end

  test "what each thread did adds up, and a slow call says who held the GVL, and in which call" do
    record
    threads = objects("report", "--timeline", "--format", "json").to_h { |thread| [thread["name"], thread] }
    hog, web = threads.values_at("hog", "web")
    assert_operator hog["running_ns"] + hog["gc_ns"], :>, web["running_ns"] + web["gc_ns"]
    assert_operator web["waits"], :>=, sampled? ? 1 : 9
    asleep_ns = web["blocked_ns"] + web["sleeping_ns"]
    assert_operator asleep_ns, :>=, sampled? ? 1 : 80_000_000
    assert_equal 0, web["io_ns"]
    slow = objects("report", "--slowest", "1", "-m", "Web#request", "--format", "json").first
    known_ns = slow.values_at(*DOINGS).sum
    assert_operator known_ns, :<=, slow["duration_ns"] + 1_000_000
    # Where nobody looked, nothing is known.
    assert_operator known_ns, :>=, sampled? ? slow["duration_ns"] / 10 : slow["duration_ns"] - 1_000_000
    assert_operator slow["waiting_ns"], :>, 0
    text = rbprobe("report", "--slowest", "1", "-m", "Web#request", file_of("calls.rec")).stdout
    assert_match(/ \[\d+ web\] Web#request .*\n   waited \d\.\d{6} s of \d\.\d{6} for the GVL, held by hog for \d\.\d{6} s/, text)
    [[], ["-m", "Web#"], ["--slow", "1"], ["--thread", "web"]].each do |filter|
      slow = objects("report", "--slowest", "10", "--format", "json", *filter).find { |call| call["method"] == "Web#request" }
      assert_equal %w[hog Hog#hold], slow["held_by"].values_at("name", "method"), filter.inspect
    end
  end

  test "exports have a track of what each thread did, which leaves no gap and does not overlap" do
    record
    result = rbprobe("export", file_of("calls.rec"), "--to", "chrome")
    assert_exit 0, result
    trace = JSON.parse(result.stdout)
    assert_equal 0, trace["otherData"]["states_lost"]
    events = trace["traceEvents"]
    names = events.select { |event| event["name"] == "thread_name" }.to_h { |event| [event["tid"], event["args"]["name"]] }
    tracks = events.select { |event| event["cat"] == "thread" }.group_by { |event| names[event["tid"]] }
    how = sampled? ? ", sampled at 1000 Hz" : ""
    assert_includes tracks.keys, "hog: state#{how}"
    tracks.each_value do |spans|
      spans.each_cons(2) do |one, other|
        assert_operator one["ts"] + one["dur"], :<=, other["ts"] + 0.002
        assert_in_delta one["ts"] + one["dur"], other["ts"], 0.002 unless sampled?
      end
    end
    doings = tracks["web: state#{how}"].map { |span| span["name"] }.uniq.sort
    held = tracks["web: state#{how}"].select { |span| span["name"] == "waiting for the GVL" }.max_by { |span| span["dur"] }
    assert_equal %w[hog Hog#hold], held["args"].values_at("held by", "in"), held.inspect
    assert_in_delta held["dur"] * 1000, held["args"]["held_ns"], held["dur"] * 500
    other = JSON.parse(rbprobe("export", "-q", file_of("calls.rec"), "--to", "chrome", "-m", "Web#").stdout)["traceEvents"]
    assert_equal held["args"], other.find { |span| span["name"] == held["name"] && span["dur"] == held["dur"] }["args"]
    text = protobuf_text(rbprobe("export", file_of("calls.rec"), "--to", "perfetto").stdout, "perfetto.proto",
                         "perfetto.protos.Trace")
    assert_match(/name: "waiting for the GVL"/, text)
    assert_match(/string_value: "hog"\s+name: "held by"/, text)
    assert_match(/string_value: "Hog#hold"\s+name: "in"/, text)
    # It runs for microseconds, which samples may all miss.
    doings |= ["running"] if sampled?
    assert_equal ["running", "waiting for the GVL"], doings.sort - ["GC", "blocked", "sleeping"]
    assert_includes doings, told_apart? ? "sleeping" : "blocked"
    running = tracks.values.flatten.select { |span| %w[running GC].include?(span["name"]) }.sort_by { |span| span["ts"] }
    # A collection tells when it begins; that another thread has let go of the GVL is seen a sample later.
    late = sampled? ? 25_000 : 100
    running.each_cons(2) { |one, other| assert_operator one["ts"] + one["dur"], :<=, other["ts"] + late }
  end

  # Two threads that wake each other, while the client stands still.
  def record_with_gap
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec"), "Shop#").wait_until_armed
    target.run("sleep 0.1")
    client.signal(:STOP)
    target.run("a, b = Queue.new, Queue.new; one = Thread.new { 200_000.times { a << 1; b.pop } }; " \
               "200_000.times { a.pop; b << 1 }; one.join; nil")
    client.signal(:CONT)
    target.run("Thread.new { sleep 0.1 }.join")
    client.stop.tap { |result| assert_exit 0, result }
  end

  test "changes that were lost are counted in each export, where they are missing" do
    skip "what is sampled is too little to lose any" if sampled?
    said = record_with_gap.stderr[/ changes of threads' states, (\d+) such events lost, /, 1].to_i
    result = rbprobe("replay", "--format", "json", file_of("calls.rec"))
    lost = result.events("threads_lost").sum { |line| line["changes"] }
    assert_operator lost, :>, 0
    assert_equal [lost, lost], [said, result.events("summary").last["events_lost"]]
    assert(result.events("threads_lost").all? { |line| line["from_ns"] <= line["to_ns"] })
    trace = JSON.parse(rbprobe("export", file_of("calls.rec"), "--to", "chrome").stdout)
    gaps = trace["traceEvents"].select { |event| event["name"] == "lost thread states" }
    assert_equal [lost, lost], [trace["otherData"]["states_lost"], gaps.sum { |gap| gap["args"]["changes"] }]
    text = protobuf_text(rbprobe("export", file_of("calls.rec"), "--to", "perfetto").stdout, "perfetto.proto",
                         "perfetto.protos.Trace")
    assert_includes text, 'name: "lost thread states"'
    assert_equal lost, text.scan(/string_value: "(\d+)"\s+name: "changes"/).sum { |number,| number.to_i }
    assert_match(/"states_lost":#{lost}\b/, rbprobe("export", file_of("calls.rec"), "--to", "html").stdout)
  end

  test "a trace shows it as JSON alone" do
    assert_refused 2, /--timeline is shown with --format json alone/, "trace", "-p", "1", "--timeline"
    target = start("shop")
    tracer = trace(target, "--timeline", "--format", "json")
    target.run("Thread.new { sleep 0.1 }.join")
    spans = tracer.stop.events("thread")
    assert_equal [target.pid], spans.map { |span| span["pid"] }.uniq
    assert_includes spans.map { |span| span["doing"] }, told_apart? ? "sleeping" : "blocked"
    assert_equal [sampled? ? 1000 : nil], spans.map { |span| span["sampled_hz"] }.uniq
  end

  test "a recording without it says so" do
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "-o", file_of("calls.rec"), "Shop#").wait_until_armed
    target.run("$shop.sell(:tea)")
    assert_exit 0, client.stop
    assert_match(/does not have what threads did; `rbprobe record --timeline` keeps it/,
                 rbprobe("report", "--timeline", file_of("calls.rec")).stderr)
    assert_refused 2, /--timeline shows what threads did, and no calls/, "report", "--timeline", "--slowest", "3", "x.rec"
    refute_match(/waited/, rbprobe("report", "--slowest", "3", file_of("calls.rec")).stdout)
  end

  # A thread for each, by its name.
  DOING = {
    "io_ns" => "$pipe[0].read(1)", "sleeping_ns" => "sleep 1", "thread_ns" => "$queue.pop",
    "process_ns" => "Process.wait(spawn(%(sleep 1)))"
  }.freeze

  test "what a thread does without the GVL is told apart" do
    skip "this Ruby tells it when the GVL is gone" unless told_apart?
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec"), "Shop#").wait_until_armed
    threads = DOING.map { |name, code| "Thread.new { Thread.current.name = #{name.inspect}; $shop.price(:tea); #{code} }" }
    target.run("$pipe = IO.pipe; $queue = Queue.new; t = [#{threads.join(", ")}]; sleep 1; " \
               "$pipe[1].write('x'); $queue << 1; t.each(&:join)")
    assert_exit 0, client.stop
    done = objects("report", "--timeline", "--format", "json").to_h { |thread| [thread["name"], thread] }
    DOING.each_key do |doing|
      of = done.fetch(doing)
      most = (DOING.keys + ["blocked_ns"]).max_by { |key| of[key] }
      assert_equal doing, most, of.inspect
      assert_operator of[doing], :>=, 100_000_000, of.inspect
    end
    assert_match(/ I\/O +SLEEP +LOCK +CHILD /, rbprobe("report", "-q", "--timeline", file_of("calls.rec")).stdout)
  end

  test "threads that make no traced call have their names: old and new ones, and one that got another" do
    target = start("shop")
    target.run("$old = Thread.new { Thread.current.name = 'old'; loop { sleep 0.01 } }; sleep 0.1")
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec")).wait_until_armed
    target.run("Thread.new { Thread.current.name = 'web'; 300.times { sleep 0.01 } }.join; $old.name = 'renamed'; sleep 0.1")
    assert_exit 0, client.stop
    names = objects("report", "--timeline", "--format", "json").map { |thread| thread["name"] }
    assert_equal %w[renamed web], (names & %w[old renamed web]).sort, names.inspect
    assert_equal "4", target.run("2 + 2")
  end

  # GC.stat(:time) is time of processors: on a busy machine much less.
  test "collections last as long as the process itself sees by the clock on the wall" do
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec")).wait_until_armed
    target.run("GC.disable")
    taken_ns = target.run("clock = lambda { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }; " \
                          "began = clock.call; 20.times { GC.start }; taken = clock.call - began; GC.enable; taken").to_i
    assert_exit 0, client.stop
    gc_ns = objects("report", "--timeline", "--format", "json").map { |thread| thread["gc_ns"] }
    # One more may follow GC.enable.
    assert_operator gc_ns.max, :<=, taken_ns + taken_ns / 10 + 1_000_000
    assert_operator gc_ns.max, :>=, taken_ns / 2
  end

  test "threads that come and go, and nothing is left in the process" do
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec")).wait_until_armed
    target.run("500.times { Thread.new { sleep 0.0001 }.join }; GC.start; sleep 0.05")
    assert_exit 0, client.stop
    threads = objects("report", "--timeline", "--format", "json")
    # Many of them are there between two samples alone.
    assert_operator threads.size, :>=, 500 unless sampled?
    assert_operator threads.sum { |thread| thread["gc_ns"] }, :>, 0
    assert_equal "4", target.run("2 + 2")
  end

  # Where the VM does not tell what threads do.

  SORT = <<~RUBY.freeze
    class Hog; def sort; $numbers.sort; end; end
    class Web; def request; sleep 0.005; end; end
    $numbers = Array.new(1_500_000) { |i| (i * 7919) % 1_000_003 }
    1
  RUBY

  test "why a request took long: another thread was in C code that does not let go of the GVL" do
    target = start("shop")
    target.run(SORT)
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec"), "Hog#", "Web#")
    client.wait_until_armed
    target.run("hog = Thread.new { Thread.current.name = 'hog'; 20.times { Hog.new.sort } }; " \
               "web = Thread.new { Thread.current.name = 'web'; Web.new.request while hog.alive? }; [hog, web].each(&:join)")
    assert_exit 0, client.stop
    slow = objects("report", "--slowest", "60", "--format", "json").find { |call| call["method"] == "Web#request" }
    known_ns = slow.values_at(*DOINGS).sum
    assert_operator known_ns, :>, slow["duration_ns"] / 10
    assert_operator slow["waiting_ns"], :>=, known_ns / 2
    assert_equal %w[hog Hog#sort], slow["held_by"].values_at("name", "method")
  end

  test "threads that compute share the time" do
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec"), "Shop#").wait_until_armed
    taken_ns = target.run(<<~RUBY).to_i
      now = lambda { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }
      began = now.call
      over = lambda { now.call > began + 1_500_000_000 }
      busy = Array.new(2) { |i| Thread.new { Thread.current.name = "busy #\#{i}"; $shop.price(:tea); 1 until over.call } }
      busy.each(&:join)
      now.call - began
    RUBY
    assert_exit 0, client.stop
    busy = objects("report", "--timeline", "--format", "json").select { |thread| thread["name"].start_with?("busy") }
    assert_equal 2, busy.size
    assert_operator busy.sum { |thread| thread["running_ns"] + thread["gc_ns"] }, :<=, 1.2 * taken_ns
    busy.each do |thread|
      known_ns = thread.values_at(*DOINGS).sum
      assert_operator known_ns, :>, 0.1 * taken_ns, busy.inspect
      assert_operator thread["running_ns"], :>, 0.1 * known_ns, busy.inspect
      assert_operator thread["waiting_ns"], :>, 0.1 * known_ns, busy.inspect
      assert_operator thread.values_at("io_ns", "sleeping_ns", "thread_ns", "process_ns").sum, :<, 0.1 * known_ns, busy.inspect
    end
  end

  test "a Ruby that does not tell what threads do is sampled, and that is said everywhere" do
    skip "this one tells" unless sampled?
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline-rate", "200", "-o", file_of("calls.rec"), "Shop#")
    client.wait_until_armed
    target.run("$shop.sell(:tea); Thread.new { sleep 0.3 }.join; $shop.sell(:pot)")
    result = client.stop
    assert_exit 0, result
    assert_match(/: they are looked at 200 times a second; what is shorter than 5 ms may not be seen/, result.stderr)
    assert_match(/changes? of (a thread's state|threads' states) sampled at 200 Hz/, result.stderr)
    assert_match(/^sampled at 200 Hz: what is shorter than 5 ms may be missing$/,
                 rbprobe("report", "--timeline", file_of("calls.rec")).stdout)
    assert_equal [200], objects("report", "--timeline", "--format", "json").map { |thread| thread["sampled_hz"] }.uniq
    assert_match(/\(sampled at 200 Hz\)$/, rbprobe("report", "--slowest", "1", file_of("calls.rec")).stdout)
    trace = JSON.parse(rbprobe("export", file_of("calls.rec"), "--to", "chrome").stdout)
    assert_equal 200, trace["otherData"]["states_sampled_hz"]
    assert_includes rbprobe("export", file_of("calls.rec"), "--to", "perfetto").stdout, "state, sampled at 200 Hz"
    assert_match(/"states_sampled_hz":200/, rbprobe("export", file_of("calls.rec"), "--to", "html").stdout)
    assert_match(/sampled at 200 Hz/, rbprobe("replay", file_of("calls.rec")).stderr)
  end

  test "how often is between once and 1000 times a second" do
    %w[0 1001 x].each do |rate|
      assert_refused 2, /--timeline-rate/, "record", "-p", "1", "--timeline-rate", rate, "-o", "x.rec", "Shop#"
    end
  end

  test "the thread that looks is gone with the session, and comes again with the next" do
    skip "this Ruby tells what its threads do" unless sampled?
    target = start("shop")
    looks = lambda { Dir["/proc/#{target.pid}/task/*/comm"].count { |file| File.read(file).chomp == "rbprobe-threads" } }
    2.times do
      client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec"), "Shop#").wait_until_armed
      assert_equal 1, looks.call
      target.run("Thread.new { sleep 0.1 }.join")
      assert_exit 0, client.stop
      wait_until("it is gone") { looks.call.zero? }
      refute_empty objects("report", "--timeline", "--format", "json")
    end
    assert_equal "1", target.run("GC.start; Thread.new { 1 }.value")
  end
end
