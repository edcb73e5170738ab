# `rbprobe export` of recorded calls: what other programs read, compared with what is replayed.

require "open3"
require_relative "helper"

class ExportTest < LiveTest
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
    record("Thread.new { $shop.wait }; Thread.pass until $shop.try(:cup); :done", "--raise", "Shop#")
    events = JSON.parse(export("chrome"))["traceEvents"]
    assert_equal %w[B], events.select { |event| event["name"] == "Shop#wait" }.map { |event| event["ph"] }
    raise_ = events.find { |event| event["ph"] == "i" }
    assert_equal ["raise", "Shop::SoldOut"], [raise_["name"], raise_["args"]["class"]]
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

  test "calls are chosen as replay chooses them" do
    record(TWO_THREADS, "Shop#")
    events = JSON.parse(export("chrome", "-m", "Shop#sell", "--thread", "tea"))["traceEvents"]
    calls = events.reject { |event| event["ph"] == "M" }
    assert_equal [["Shop#sell"], 2], [calls.map { |event| event["name"] }.compact.uniq, calls.count { |event| event["name"] }]
    assert_equal(%w[tea], events.select { |event| event["name"] == "thread_name" }.map { |event| event["args"]["name"] })
    assert_refused 2, /export takes one file/, "export", file_of("calls.rec"), "other", "--to", "chrome"
    assert_refused 2, /--cpu is for profiles/, "export", file_of("calls.rec"), "--to", "collapsed", "--cpu"
    assert_refused 2, /is the recording itself/, "export", file_of("calls.rec"), "--to", "chrome", "-o", file_of("calls.rec")
  end
end
