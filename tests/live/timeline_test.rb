# `--timeline`: what threads do, recorded, exported, and why a call took long.

require_relative "helper"

class TimelineTest < LiveTest
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

  def only_with_states
    skip "this Ruby does not tell what its threads do" if Processes.target_ruby?("< 3.2")
  end

  # What a thread does without the GVL.
  def told_apart?
    Processes.target_ruby?(">= 3.3")
  end

  def objects(*arguments)
    result = rbprobe(*arguments, file_of("calls.rec"))
    assert_exit 0, result
    result.stdout.lines.map { |line| JSON.parse(line) }
  end

  test "a Ruby that does not tell what threads do is refused" do
    skip "this one does" unless Processes.target_ruby?("< 3.2")
    assert_refused 1, /needs Ruby 3\.2 or newer: this one does not tell what its threads do; `rbprobe profile --gvl` samples it/,
                   "trace", "-p", start("shop").pid.to_s, "--timeline", "--format", "json"
  end

  test "what each thread did adds up, and a slow call says who held the GVL, and in which call" do
    only_with_states
    record
    threads = objects("report", "--timeline", "--format", "json").to_h { |thread| [thread["name"], thread] }
    hog, web = threads.values_at("hog", "web")
    assert_operator hog["running_ns"] + hog["gc_ns"], :>, web["running_ns"] + web["gc_ns"]
    assert_operator web["waits"], :>=, 9
    asleep_ns = web["blocked_ns"] + web["sleeping_ns"]
    assert_operator asleep_ns, :>=, 80_000_000
    assert_equal 0, web["io_ns"]
    slow = objects("report", "--slowest", "1", "-m", "Web#request", "--format", "json").first
    assert_in_delta slow["duration_ns"], slow.values_at(*DOINGS).sum, 1_000_000
    assert_operator slow["waiting_ns"], :>, 0
    text = rbprobe("report", "--slowest", "1", "-m", "Web#request", file_of("calls.rec")).stdout
    assert_match(/ \[\d+ web\] Web#request .*\n   waited \d\.\d{6} s of \d\.\d{6} for the GVL, held by hog for \d\.\d{6} s/, text)
    slow = objects("report", "--slowest", "10", "--format", "json").find { |call| call["method"] == "Web#request" }
    assert_equal %w[hog Hog#hold], slow["held_by"].values_at("name", "method")
  end

  test "exports have a track of what each thread did, which leaves no gap and does not overlap" do
    only_with_states
    record
    result = rbprobe("export", file_of("calls.rec"), "--to", "chrome")
    assert_exit 0, result
    trace = JSON.parse(result.stdout)
    assert_equal 0, trace["otherData"]["states_lost"]
    events = trace["traceEvents"]
    names = events.select { |event| event["name"] == "thread_name" }.to_h { |event| [event["tid"], event["args"]["name"]] }
    tracks = events.select { |event| event["cat"] == "thread" }.group_by { |event| names[event["tid"]] }
    assert_includes tracks.keys, "hog: state"
    tracks.each_value do |spans|
      spans.each_cons(2) { |one, other| assert_in_delta one["ts"] + one["dur"], other["ts"], 0.002 }
    end
    doings = tracks["web: state"].map { |span| span["name"] }.uniq.sort
    assert_equal ["running", "waiting for the GVL"], doings - ["GC", "blocked", "sleeping"]
    assert_includes doings, told_apart? ? "sleeping" : "blocked"
    running = tracks.values.flatten.select { |span| %w[running GC].include?(span["name"]) }.sort_by { |span| span["ts"] }
    running.each_cons(2) { |one, other| assert_operator one["ts"] + one["dur"], :<=, other["ts"] + 100 }
  end

  test "a trace shows it as JSON alone" do
    assert_refused 2, /--timeline is shown with --format json alone/, "trace", "-p", "1", "--timeline"
    only_with_states
    target = start("shop")
    tracer = trace(target, "--timeline", "--format", "json")
    target.run("Thread.new { sleep 0.01 }.join")
    spans = tracer.stop.events("thread")
    assert_equal [target.pid], spans.map { |span| span["pid"] }.uniq
    assert_includes spans.map { |span| span["doing"] }, told_apart? ? "sleeping" : "blocked"
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
    "io_ns" => "$pipe[0].read(1)", "sleeping_ns" => "sleep 0.2", "thread_ns" => "$queue.pop",
    "process_ns" => "Process.wait(spawn(%(sleep 0.2)))"
  }.freeze

  test "what a thread does without the GVL is told apart" do
    only_with_states
    skip "this Ruby tells it when the GVL is gone" unless told_apart?
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec"), "Shop#").wait_until_armed
    threads = DOING.map { |name, code| "Thread.new { Thread.current.name = #{name.inspect}; $shop.price(:tea); #{code} }" }
    target.run("$pipe = IO.pipe; $queue = Queue.new; t = [#{threads.join(", ")}]; sleep 0.2; " \
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

  # GC.stat(:time) is time of processors: on a busy machine much less.
  test "collections last as long as the process itself sees by the clock on the wall" do
    only_with_states
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec")).wait_until_armed
    target.run("GC.disable")
    taken_ns = target.run("clock = lambda { Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond) }; " \
                          "began = clock.call; 20.times { GC.start }; taken = clock.call - began; GC.enable; taken").to_i
    assert_exit 0, client.stop
    gc_ns = objects("report", "--timeline", "--format", "json").map { |thread| thread["gc_ns"] }
    assert_operator gc_ns.max, :<=, taken_ns + 1_000_000
    assert_operator gc_ns.max, :>=, taken_ns / 2
  end

  test "threads that come and go, and nothing is left in the process" do
    only_with_states
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file_of("calls.rec")).wait_until_armed
    target.run("500.times { Thread.new { sleep 0.0001 }.join }; GC.start")
    assert_exit 0, client.stop
    threads = objects("report", "--timeline", "--format", "json")
    assert_operator threads.size, :>=, 500
    assert_operator threads.sum { |thread| thread["gc_ns"] }, :>, 0
    assert_equal "4", target.run("2 + 2")
  end
end
