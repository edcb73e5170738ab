# Recordings: how many events a second go into a file, and what they take there; how long it takes to read them again. A call is
# two events, its start and its end, also where they are recorded as one.

require_relative "../../live/browser"

class Measurements
  RECORDING_EVENTS = 100_000_000

  measurement :record do
    kept = or_reason { recorded("block") }
    dropping = or_reason { recorded("drop", lost_shares: @recorded_lost = []) }
    recent = or_reason { recorded("block", "--last=64M") }
    [Row.new(key: "record", what: "`record`: sustained rate from one thread, none lost (`--overflow=block`)", unit: :events_per_s,
             requirement: 13_000_000, rbprobe: kept, notes: "from the first call to the client's end"),
     Row.new(key: "record-drop", what: "`record` without waiting (`--overflow=drop`): delivered", unit: :events_per_s,
             rbprobe: dropping,
             notes: dropping.is_a?(Samples) ? format("lost: %.2f %%", 100 * median(@recorded_lost)) : nil),
     Row.new(key: "record-last", what: "`record --last 64M`, none lost", unit: :events_per_s, rbprobe: recent)]
  end

  # What a call costs the process: the same stream leaves it, whoever takes that.
  measurement :record_cost do
    costs = %w[trace record].to_h do |name|
      [name, Array.new(amount(:repetitions)) { recorded_call_ns(name) }]
    end
    less = costs["record"].zip(costs["trace"]).map { |record, trace| record / trace }
    [Row.new(key: "record-cost", what: "`record` to a file: a call, against `trace` to a file", unit: :ratio, requirement: 1.0,
             rbprobe: Samples.new(less), noise: Samples.new(trace_against_trace(costs["trace"])),
             notes: format("trace %.0f ns, record %.0f ns a call", *costs.values_at("trace", "record").map { |ns| median(ns) }))]
  end

  measurement :record_client do
    with_recording do |calls, seconds|
      [Row.new(key: "record-client", what: "`record`: what the client alone could take, by its CPU time", unit: :events_per_s,
               requirement: 13_000_000, rbprobe: Samples.new([2 * calls / seconds]))]
    end
  end

  # Without values.
  measurement :record_web do
    raise NotMeasured, WebServer.missing if WebServer.missing

    web_recording do |calls|
      size = File.size(output)
      [Row.new(key: "record-web", what: "`record` of Sinatra on Puma, its #{HOTTEST} most called methods: an event in the file",
               unit: :bytes, requirement: 4, rbprobe: Samples.new([size / (2.0 * calls)]),
               notes: format("%.2f bytes a call; %d calls", size.fdiv(calls), calls)),
       Row.new(key: "replay-web", what: "`replay` of that to text, a second of one core's time", unit: :events_per_s,
               requirement: 10_000_000, rbprobe: Samples.new(readings(calls, "replay"))),
       Row.new(key: "report-web", what: "`report` of that, likewise", unit: :events_per_s,
               rbprobe: Samples.new(readings(calls, "report")))]
    end
  end

  # A quick run has a part of the events, and of the time that they may take.
  measurement :replay do
    with_recording do |calls, _|
      seconds, mebibytes = usage_of(RbprobeTool::PROGRAM, "report", "-q", output, out: File::NULL)
      millions = (2 * calls / 1e6).round
      [Row.new(key: "replay", what: "`replay` to text, of calls of one method, a second of one core's time", unit: :events_per_s,
               requirement: 10_000_000, rbprobe: Samples.new(readings(calls, "replay"))),
       Row.new(key: "replay-json", what: "`replay --format json` of the same", unit: :events_per_s,
               rbprobe: Samples.new(readings(calls, "replay", "--format", "json"))),
       Row.new(key: "report", what: "`report` of #{millions} million events, time of one core", unit: :s,
               requirement: 15.0 * 2 * calls / RECORDING_EVENTS, rbprobe: Samples.new([seconds])),
       Row.new(key: "report-memory", what: "the same, memory at most", unit: :mib, requirement: 512,
               rbprobe: Samples.new([mebibytes]))]
    end
  end

  # The page that a colleague gets, and a headless browser that shows it.
  measurement :export_html do
    with(Target.new(RbprobeTool)) do |target|
      calls, lost = record_calls(target, 1_000_000, "--overflow=block")
      raise NotMeasured, "#{lost} calls lost" if lost > 0

      command = [RbprobeTool::PROGRAM, "export", "-q", output, "--to", "html", "-o", page]
      seconds = Array.new(amount(:repetitions)) { usage_of(*command).first }
      [Row.new(key: "export-html", what: "`export --to html` of #{calls / 1_000_000} million calls, time of one core", unit: :s,
               requirement: 3, rbprobe: Samples.new(seconds), notes: "#{(File.size(page) / 1e6).round(1)} MB"),
       Row.new(key: "open-html", what: "until headless Chromium has drawn that page", unit: :s, requirement: 2,
               rbprobe: Browser::PROGRAM ? Samples.new(openings) : "needs chromium")]
    end
  ensure
    FileUtils.rm_f([output, page])
  end

  private

  def page
    "#{SCRATCH}/page.html"
  end

  def openings
    browser = Browser.new(patience: 60)
    Array.new(amount(:repetitions)) { browser.open(page, "timeline") }
  ensure
    browser&.close
  end

  # Events a second of each repetition.
  def recorded(overflow, *options, lost_shares: [])
    count = amount(:sustained_calls)
    Samples.new(Array.new(amount(:repetitions)) do
      with(Target.new(RbprobeTool)) do |target|
        calls, lost, client, began_ns = record_calls(target, count, "--overflow=#{overflow}", *options)
        raise NotMeasured, "#{calls} + #{lost} calls of #{count}" unless calls + lost == count
        raise NotMeasured, "#{lost} calls lost" if lost > 0 && overflow == "block"

        lost_shares << lost.to_f / count
        2 * calls / ((client.ended_ns - began_ns) / 1e9)
      end
    end)
  end

  # The fastest of some rounds.
  def recorded_call_ns(subcommand)
    with(Target.new(RbprobeTool)) do |target|
      client = RbprobeTool.attach_by(target, subcommand, "-o", output, SELECTOR)
      Array.new(amount(:alternations)) { target.each_ns("traced", CALLS) }.min
    ensure
      client&.kill
      FileUtils.rm_f(output)
    end
  end

  # How far one trace is from another: more than that is a difference.
  def trace_against_trace(times)
    times.map { |time| time / times.min }
  end

  def record_calls(target, count, *options)
    client = RbprobeTool.attach_by(target, "record", "-o", output, *options, SELECTOR)
    _, began_ns = target.run("traced", count)
    [*RbprobeTool.stop(client, count, lines: nil), client, began_ns]
  ensure
    client&.kill
  end

  # The block gets how many calls are in it, and how many seconds of a processor the client took.
  def with_recording
    with(Target.new(RbprobeTool)) do |target|
      before = Process.times
      calls, lost = record_calls(target, amount(:recorded_calls), "--overflow=block")
      after = Process.times
      raise NotMeasured, "#{lost} calls lost" if lost > 0

      yield calls, after.cutime + after.cstime - before.cutime - before.cstime
    end
  ensure
    FileUtils.rm_f(output)
  end

  def web_recording
    selectors = hottest(:calls)
    with(WebServer.new(RbprobeTool)) do |server|
      server.load(1, "/orders/17")
      client = RbprobeTool.attach_by(server, "record", "-o", output, *selectors)
      server.load(amount(:recorded_web_s), "/orders/17")
      calls, lost = RbprobeTool.stop(client, nil, lines: nil)
      raise NotMeasured, "#{lost} calls lost" if lost > 0

      yield calls
    ensure
      client&.kill
    end
  ensure
    FileUtils.rm_f(output)
  end

  def readings(calls, *command)
    Array.new(amount(:repetitions)) do
      seconds, = usage_of(RbprobeTool::PROGRAM, *command, "-q", output, out: File::NULL)
      2 * calls / seconds
    end
  end
end
