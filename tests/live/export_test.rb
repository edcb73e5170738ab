# `rbprobe export` of recorded calls: what other programs read, compared with what is replayed.

require "open3"
require "pty"
require "zlib"
require_relative "helper"
require_relative "protobuf"

class ExportTest < LiveTest
  include Protobuf

  def file_of(name)
    "#{@directory ||= directory}/#{name}"
  end

  def record(code, *arguments, target: start("shop"))
    client = launch("record", "-v", "--yes", "-p", target.pid.to_s, "-o", file_of("calls.rec"), *arguments).wait_until_armed
    target.run(code)
    assert_exit 0, client.stop
    target
  end

  def export(format, *arguments)
    rbprobe("export", file_of("calls.rec"), "--to", format, *arguments).tap { |result| assert_exit 0, result }.stdout
  end

  def replayed
    rbprobe("replay", "--format", "json", file_of("calls.rec")).tap { |result| assert_exit 0, result }
  end

  # To its end, which a terminal tells as an error.
  def read_terminal(output)
    text = +""
    loop { text << output.readpartial(4096) }
  rescue EOFError, Errno::EIO
    text
  end

  # What the program says of the text, which it accepts.
  def read_by(text, *command)
    skip "needs #{command.first}" unless system("command -v #{command.first} >/dev/null")
    File.write(file_of("exported"), text)
    output, status = Open3.capture2e(*command, file_of("exported"))
    assert_predicate status, :success?, output
    output
  end

  # [name, start, duration] of all calls on a track, in microseconds; they must be nested.
  def slices(events)
    open = []
    done = events.flat_map do |event|
      case event["ph"]
      when "B" then open.push(event) && []
      when "E"
        begun = open.pop or flunk "#{event} ends nothing"
        [[begun["name"], begun["ts"], event["ts"] - begun["ts"]]]
      when "X" then [[event["name"], event["ts"], event["dur"]]]
      else flunk "what is #{event}?"
      end
    end
    assert_empty open
    done.combination(2) do |(_, start, duration), (_, other_start, other_duration)|
      overlap = [start + duration, other_start + other_duration].min - [start, other_start].max
      assert(overlap <= 0.0005 || (overlap - [duration, other_duration].min).abs < 0.0005, "#{done} overlap")
    end
    done
  end

  def us(nanoseconds)
    (nanoseconds / 1000.0).round(3)
  end

  # A message as protoc reads it: [[field, text, number or message], ...].
  def protobuf(bytes, schema, message)
    protobuf_text(bytes, schema, message).lines.each_with_object([[]]) do |line, open|
      case line.strip
      when /\A(\w+) \{\z/ then open.last << [$1, message = []] and open.push(message)
      when "}" then open.pop
      when /\A(\w+): (".*")\z/ then open.last << [$1, $2.undump]
      when /\A(\w+): (\d+)\z/ then open.last << [$1, $2.to_i]
      when /\A(\w+): (\w+)\z/ then open.last << [$1, $2]
      else flunk line
      end
    end.first
  end

  def field(message, *path)
    path.reduce(message) { |at, name| at&.assoc(name)&.last }
  end

  def fields(message, name)
    message.select { |one, _| one == name }.map(&:last)
  end

  TWO_THREADS = <<~RUBY.freeze
    [:tea, :cup].map { |item| Thread.new { Thread.current.name = item.to_s; $shop.sell_all([item, item]) } }.each(&:join)
    $shop.try(:cup)
  RUBY

  test "chrome: trace events, nested, with a track for each thread, and the times and values of the recording" do
    target = record(TWO_THREADS, "--args", "--return", "Shop#")
    trace = JSON.parse(export("chrome"))
    events = trace["traceEvents"]
    assert_equal [target.pid], events.map { |event| event["pid"] }.uniq
    names = events.select { |event| event["name"] == "thread_name" }.to_h { |event| [event["tid"], event["args"]["name"]] }
    assert_equal %w[cup main tea], names.values.sort
    calls = events.reject { |event| event["ph"] == "M" }.group_by { |event| event["tid"] }.transform_values { |of| slices(of) }
    expected = replayed.events("call")
    began = trace["otherData"]["began_ns"]
    assert_equal(expected.map { |call| [call["method"], us(call["start_ns"] - began), us(call["duration_ns"])] }.sort,
                 calls.values.flatten(1).map { |name, start, duration| [name, start, duration.round(3)] }.sort)
    raised = events.find { |event| event["name"] == "Shop#refuse" }
    assert_equal({ "item" => ":cup", "exception" => "Shop::SoldOut", "message" => "no cup" }, raised["args"])
    assert_equal [expected.size, 0], trace["otherData"].values_at("calls", "lost")
  end

  test "chrome: calls that have no end, and events beside calls" do
    record("thread = Thread.new { $shop.wait }; Thread.pass until thread.stop?; $shop.try(:cup)", "--raise", "Shop#")
    events = JSON.parse(export("chrome"))["traceEvents"]
    assert_equal %w[B], events.select { |event| event["name"] == "Shop#wait" }.map { |event| event["ph"] }
    raise_ = events.find { |event| event["ph"] == "i" }
    assert_equal ["raise", "Shop::SoldOut"], [raise_["name"], raise_["args"]["class"]]
  end

  test "perfetto: the same calls on tracks of threads, with names, categories and values" do
    target = record(TWO_THREADS, "--args", "--return", "Shop#")
    packets = fields(protobuf(export("perfetto"), "perfetto.proto", "perfetto.protos.Trace"), "packet")
    assert_equal([[1, 1]] + [[1, 2]] * (packets.size - 1),
                 packets.map { |packet| [field(packet, "trusted_packet_sequence_id"), field(packet, "sequence_flags")] })
    tracks = packets.map { |packet| field(packet, "track_descriptor") }.compact
    threads, processes = tracks.partition { |track| field(track, "thread") }
    assert_equal [target.pid], tracks.map { |track| field(track, "process", "pid") || field(track, "thread", "pid") }.uniq
    assert_equal %w[cup main tea], threads.map { |track| field(track, "thread", "thread_name") }.sort
    assert_equal processes.map { |track| field(track, "uuid") }.uniq, threads.map { |track| field(track, "parent_uuid") }.uniq
    names = packets.map { |packet| field(packet, "interned_data", "event_names") }.compact
                   .to_h { |name| [field(name, "iid"), field(name, "name")] }
    events = packets.map { |packet| [field(packet, "timestamp"), field(packet, "track_event")] }.select(&:last).map do |at, event|
      { "ts" => at, "track" => field(event, "track_uuid"), "name" => names[field(event, "name_iid")],
        "ph" => { "TYPE_SLICE_BEGIN" => "B", "TYPE_SLICE_END" => "E" }.fetch(field(event, "type")),
        "args" => fields(event, "debug_annotations").to_h { |note| [field(note, "name"), field(note, "string_value")] } }
    end
    assert_equal(replayed.events("call").map { |call| call.values_at("method", "start_ns", "duration_ns") }.sort,
                 events.group_by { |event| event["track"] }.values.flat_map { |of| slices(of) }.sort)
    assert_equal threads.map { |track| field(track, "uuid") }.sort, events.map { |event| event["track"] }.uniq.sort
    assert_includes events.map { |event| event["args"] }, { "exception" => "Shop::SoldOut", "message" => "no cup" }
  end

  test "pprof: calls and own time by stack, packed by gzip" do
    record(TWO_THREADS, "Shop#")
    profile = protobuf(Zlib.gunzip(export("pprof")), "pprof.proto", "perftools.profiles.Profile")
    strings = fields(profile, "string_table")
    assert_equal "", strings.first
    assert_equal([%w[calls count], %w[wall nanoseconds]],
                 fields(profile, "sample_type").map { |kind| [strings[field(kind, "type")], strings[field(kind, "unit")]] })
    functions = fields(profile, "function").to_h { |function| [field(function, "id"), strings[field(function, "name")]] }
    locations = fields(profile, "location").to_h { |place| [field(place, "id"), functions[field(place, "line", "function_id")]] }
    samples = fields(profile, "sample")
    found = samples.map do |sample|
      assert_equal "thread", strings[field(sample, "label", "key")]
      [strings[field(sample, "label", "str")], *fields(sample, "location_id").map { |id| locations.fetch(id) }.reverse,
       fields(sample, "value").first]
    end
    shop = %w[Shop#sell_all Shop#sell Shop#price]
    expected = %w[tea cup].flat_map { |name| [1, 2, 3].map { |depth| [name, *shop.first(depth), depth == 1 ? 1 : 2] } }
    expected += [["main", "Shop#try", 1], ["main", "Shop#try", "Shop#refuse", 1]]
    assert_equal expected.sort_by(&:join), found.sort_by(&:join)
    assert_equal(replayed.events("call").select { |call| call["depth"].zero? }.sum { |call| call["duration_ns"] },
                 samples.sum { |sample| fields(sample, "value").last })
  end

  test "a terminal gets no bytes of a binary format" do
    record("$shop.sell(:tea)", "Shop#")
    { "pprof" => /no text for a terminal/, "perfetto" => /no text for a terminal/, "otlp" => /no text for a terminal/,
      "collapsed" => /Shop#sell;Shop#price \d+/ }.each do |format, shown|
      PTY.spawn(RBPROBE, "export", "-q", file_of("calls.rec"), "--to", format) do |output, _, pid|
        assert_match shown, read_terminal(output), format
        Process.wait(pid)
      end
    end
    assert_operator export("pprof").size, :>, 0
  end

  # What is published, and never changes.
  test "the schemas have the numbers that Perfetto and pprof publish" do
    { "perfetto.proto" => ["TracePacket packet = 1;", "ClockSnapshot clock_snapshot = 6;", "uint64 timestamp = 8;",
                           "uint32 trusted_packet_sequence_id = 10;", "TrackEvent track_event = 11;",
                           "InternedData interned_data = 12;", "uint32 sequence_flags = 13;",
                           "TrackDescriptor track_descriptor = 60;", "DebugAnnotation debug_annotations = 4;", "Type type = 9;",
                           "uint64 name_iid = 10;", "uint64 track_uuid = 11;", "string categories = 22;", "string name = 23;",
                           "EventName event_names = 2;", "uint64 parent_uuid = 5;", "string thread_name = 5;",
                           "string string_value = 6;"],
      "pprof.proto" => ["ValueType sample_type = 1;", "Sample sample = 2;", "Location location = 4;", "Function function = 5;",
                        "string string_table = 6;", "uint64 location_id = 1;", "int64 value = 2;", "Label label = 3;",
                        "Line line = 4;", "uint64 function_id = 1;", "int64 filename = 4;", "int64 default_sample_type = 14;"] }
      .each do |schema, published|
      text = File.read("#{Processes::ROOT}/tracer/export/#{schema}")
      published.each { |line| assert_includes text, line }
    end
  end

  # A checkout of Perfetto, as no registry has its schema.
  test "perfetto: what its own schema reads is what ours reads" do
    checkout = ENV["RBPROBE_PERFETTO"] or skip "RBPROBE_PERFETTO names no checkout of Perfetto"
    record(TWO_THREADS, "--args", "--return", "--raise", "Shop#")
    bytes = export("perfetto")
    ours = protobuf_text(bytes, "perfetto.proto", "perfetto.protos.Trace")
    theirs = protobuf_text(bytes, "perfetto_trace.proto", "perfetto.protos.Trace", directory: "#{checkout}/protos/perfetto/trace")
    # What a schema does not know has a number for its name.
    refute_match(/^ *\d+[: ]/, theirs)
    assert_operator theirs.scan("packet {").size, :>, 10
    assert_equal theirs.delete(" ").lines.sort, ours.delete(" ").lines.sort
  end

  test "collapsed, speedscope and callgrind: the own time of calls by stack" do
    record(TWO_THREADS, "Shop#")
    own = Hash.new(0)
    inside = Hash.new(0)
    calls = replayed.events("call")
    calls.each { |call| own[call["method"]] += call["duration_ns"] }
    calls.each do |call|
      around = { "Shop#price" => "Shop#sell", "Shop#sell" => "Shop#sell_all", "Shop#refuse" => "Shop#try" }[call["method"]]
      inside[around] += call["duration_ns"] if around
    end
    own.each_key { |method| own[method] -= inside[method] }
    scope = JSON.parse(export("speedscope", "--threads"))
    times = Hash.new(0)
    scope["profiles"].each do |profile|
      profile["samples"].zip(profile["weights"]) do |stack, weight|
        times[scope["shared"]["frames"][stack.last]["name"]] += weight
      end
    end
    assert_equal own, times
    assert_equal %w[cup main tea], scope["profiles"].map { |profile| profile["name"] }.sort
    lines = export("collapsed", "--threads").lines
    expected = /\A((tea|cup);Shop#sell_all(;Shop#sell(;Shop#price)?)?|main;Shop#try(;Shop#refuse)?) \d+\n\z/
    assert(lines.all? { |line| line.match?(expected) }, lines.join)
    callgrind = export("callgrind")
    assert_match(/^cfn=Shop#sell\ncalls=4 \d+\n/, callgrind)
    assert_match(/PROGRAM TOTALS/, read_by(callgrind, "callgrind_annotate"))
    assert_equal "", read_by(export("svg"), "xmllint", "--noout")
  end

  test "chrome and perfetto: what has the same name stands for itself" do
    target = start("shop")
    target.run("class Shop; def note(message, result); message = 5; result + 1; end; end; nil")
    record("$shop.note(1, 2)", "--args", "--return", "--locals", "Shop#note", target: target)
    call = JSON.parse(export("chrome"))["traceEvents"].find { |event| event["name"] == "Shop#note" }
    assert_equal({ "message (argument)" => "1", "result (argument)" => "2", "result" => "3",
                   "locals" => { "message" => "5", "result" => "2" } }, call["args"])
    packets = fields(protobuf(export("perfetto"), "perfetto.proto", "perfetto.protos.Trace"), "packet")
    notes = packets.flat_map { |packet| fields(field(packet, "track_event") || [], "debug_annotations") }
    assert_equal({ "message (argument)" => "1", "result (argument)" => "2", "result" => "3", "locals.message" => "5",
                   "locals.result" => "2" }, notes.to_h { |note| [field(note, "name"), field(note, "string_value")] })
    assert_equal 5, notes.size
  end

  test "a method that calls itself very often makes no stacks without an end" do
    record("$shop.countdown(1499)", "Shop#countdown")
    result = rbprobe("export", file_of("calls.rec"), "--to", "callgrind")
    assert_exit 0, result
    assert_match(/^rbprobe: 476 calls are in the time of those around: a stack has 1024 calls at most/, result.stderr)
    collapsed = rbprobe("export", file_of("calls.rec"), "--to", "collapsed")
    assert_exit 0, collapsed
    assert_operator collapsed.stdout.lines.map { |line| line.count(";") }.max, :<, 1024
    # Its numbers are whole microseconds; these stacks have some hundreds of nanoseconds.
    own = JSON.parse(export("speedscope"))["profiles"].flat_map { |profile| profile["weights"] }
    small = own.select { |ns| ns < 500 }
    said = /: #{small.size} stacks? .* not written, .* less than half a microsecond: #{small.sum} ns in all$/
    assert_match said, collapsed.stderr if small.any?
  end

  test "calls are chosen as replay chooses them" do
    record(TWO_THREADS, "Shop#")
    events = JSON.parse(export("chrome", "-m", "Shop#sell", "--thread", "tea"))["traceEvents"]
    calls = events.reject { |event| event["ph"] == "M" }
    assert_equal [["Shop#sell"], 2], [calls.map { |event| event["name"] }.compact.uniq, calls.count { |event| event["name"] }]
    assert_equal(%w[tea], events.select { |event| event["name"] == "thread_name" }.map { |event| event["args"]["name"] })
    assert_refused 2, /export takes one file/, "export", file_of("calls.rec"), "other", "--to", "chrome"
    %w[--cpu --no-idle --held --objects].each do |option|
      assert_refused 2, /#{option} is for profiles/, "export", file_of("calls.rec"), "--to", "collapsed", option
      assert_refused 2, /--to html goes without .*#{option}/, "export", file_of("calls.rec"), "--to", "html", option
    end
    assert_refused 2, /is the recording itself/, "export", file_of("calls.rec"), "--to", "chrome", "-o", file_of("calls.rec")
    [%w[export --to chrome], %w[report]].each do |words|
      assert_refused 2, /one file of all processes: leave out the %p of /, *words, file_of("calls.rec"), "-o", file_of("%p")
    end
  end
end
