# Calls that were lost while recording: each format that has room for it says how many, and those that know times say when.

require "open3"
require "zlib"
require_relative "helper"
require_relative "protobuf"
require_relative "otlp_receiver"

class ExportLossesTest < LiveTest
  include Protobuf

  def file_of(name)
    "#{@directory ||= directory}/#{name}"
  end

  # A client that stands still takes nothing out of the ring, which then has no room for calls.
  def setup
    super
    target = start("busy")
    client = launch("record", "-v", "-p", target.pid.to_s, "--overflow", "drop", "-o", file_of("rec"), "Work#step")
    client.wait_until_armed
    Process.kill("STOP", client.pid)
    target.run("go")
    wait_until("the ring is full") { target.run("steps").to_i > 2_000_000 }
    made = target.run("halt").to_i
    Process.kill("CONT", client.pid)
    result = client.stop
    assert_exit 0, result
    recorded, @lost = result.stderr.match(/^rbprobe: (\d+) calls, (\d+) lost/).captures.map(&:to_i)
    assert_operator @lost, :>, 100_000
    assert_equal made, recorded + @lost
  end

  # short: no call is in it. Each is shorter than that.
  def export(format, short: false)
    result = rbprobe("export", file_of("rec"), "--to", format, *(short ? %w[--slow 100000] : []))
    assert_exit 0, result
    result.stdout
  end

  def said
    "#{@lost} calls were lost while recording, and are not in here"
  end

  test "chrome, perfetto, otlp and the page say how many calls were lost, and when" do
    trace = JSON.parse(export("chrome", short: true))
    assert_equal @lost, trace["otherData"]["lost"]
    gaps = trace["traceEvents"].select { |event| event["name"] == "lost calls" }
    assert_equal @lost, gaps.sum { |event| event["args"]["calls"] }
    assert_operator gaps.first["args"]["duration_ns"], :>, 0
    spans = Otlp.spans(export("otlp", short: true)).select { |span| span[:name] == "rbprobe: calls lost" }
    assert_equal @lost, spans.sum { |span| span[:attributes]["rbprobe.lost_calls"] }
    assert(spans.all? { |span| span[:start] < span[:end] })
    page = JSON.parse(export("html")[%r{id='about'>(.*?)</script>}m, 1])
    assert_equal [@lost, @lost], [page["counts"]["lost"], page["gaps"].sum { |gap| gap[2] }]
    assert_equal @lost, lost_of_perfetto(export("perfetto", short: true))
  end

  def lost_of_perfetto(bytes)
    text = protobuf_text(bytes, "perfetto.proto", "perfetto.protos.Trace")
    assert_includes text, 'name: "lost calls"'
    text.scan(/string_value: "(\d+)"\s+name: "calls"/).sum { |number,| number.to_i }
  end

  test "callgrind, speedscope, SVG and pprof say how many" do
    assert_match(/^desc: Losses: #{said}$/, export("callgrind"))
    assert_equal said, JSON.parse(export("speedscope"))["name"]
    assert_match(%r{>rbprobe: wall time, [^<]*; #{said}</text>}, export("svg"))
    text = protobuf_text(Zlib.gunzip(export("pprof")), "pprof.proto", "perftools.profiles.Profile")
    strings = text.scan(/^string_table: (".*")$/).map { |one,| one.undump }
    assert_equal said, strings[text[/^comment: (\d+)$/, 1].to_i]
    assert_empty read_by_callgrind(export("callgrind"))
  end

  # What callgrind_annotate has against it.
  def read_by_callgrind(text)
    skip "needs callgrind_annotate" unless system("command -v callgrind_annotate >/dev/null")

    File.write(file_of("callgrind.out"), text)
    shown, problems, status = Open3.capture3("callgrind_annotate", file_of("callgrind.out"))
    assert_predicate status, :success?, problems
    assert_match(/PROGRAM TOTALS/, shown)
    problems
  end

  test "where nothing was lost, nothing is said" do
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "-o", file_of("rec"), "Shop#price").wait_until_armed
    target.run("$shop.price(:tea)")
    assert_exit 0, client.stop
    %w[callgrind speedscope svg].each { |format| refute_match(/lost/, export(format)) }
  end
end
