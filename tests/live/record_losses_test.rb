# What was lost while it was recorded is lost in the recording, and everything that reads one says how much.

require_relative "helper"

class RecordLossesTest < LiveTest
  CALLS = 300_000

  def file_of(suffix = "")
    "#{@directory ||= directory}/calls.rec#{suffix}"
  end

  def read(*arguments)
    rbprobe(*arguments).tap { |result| assert_exit 0, result }
  end

  # The recorder stands still while the target calls a method so often that its buffers are full.
  def record_with_losses(*arguments)
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "-o", file_of, *arguments, "Shop#price(item)").wait_until_armed
    client.signal(:STOP)
    target.run("item = %q(x) * 90; #{CALLS}.times { $shop.price(item) }; nil")
    client.signal(:CONT)
    client.stop.tap { |result| assert_exit 0, result }
  end

  # What record itself has said at its end.
  def lost_by(result)
    result.stderr[/^rbprobe: \d+ calls, (\d+) lost, /, 1].to_i.tap { |lost| assert_operator lost, :>, 0, result.stderr }
  end

  test "replay shows how many were lost, where they were, and all others" do
    lost = lost_by(record_with_losses)
    shown = read("replay", file_of)
    assert_equal CALLS - lost, shown.stdout.scan(/^Shop#price\(item="x+"/).size
    assert_equal lost, shown.stdout.scan(/^\.\.\. (\d+) calls? lost \(/).flatten.sum(&:to_i)
    assert_match(/^rbprobe: #{CALLS - lost} calls, #{lost} lost, /, shown.stderr)
    objects = read("replay", "--format", "json", file_of)
    assert_equal lost, objects.events("lost").sum { |object| object["calls"] }
    assert_equal [CALLS - lost, lost], objects.events("summary").last.values_at("calls", "lost")
    rbtrace = read("replay", "--format", "rbtrace", file_of).stdout
    assert_equal lost, rbtrace.scan(/^\.\.\. (\d+) calls? lost/).flatten.sum(&:to_i)
    # A condition says nothing of what is not there.
    assert_match(/ #{lost} lost, #{CALLS - lost} others do not meet/, read("replay", file_of, "--within", "Shop#sell").stderr)
  end

  test "report, export and --info say so, too" do
    lost = lost_by(record_with_losses("--overflow", "drop"))
    assert_match(/^rbprobe: #{CALLS - lost} calls, #{lost} lost, /, read("report", file_of).stderr)
    summary = read("report", "--format", "json", file_of).events("summary").last
    assert_equal [CALLS - lost, lost], summary.values_at("calls", "lost")
    %w[collapsed otlp perfetto html].each do |format|
      assert_match(/^rbprobe: #{CALLS - lost} calls, #{lost} lost, /, read("export", file_of, "--to", format).stderr, format)
    end
    chrome = JSON.parse(read("export", file_of, "--to", "chrome").stdout)
    assert_equal [CALLS - lost, lost], chrome["otherData"].values_at("calls", "lost")
    gaps = chrome["traceEvents"].select { |event| event["name"] == "lost calls" }
    assert_equal lost, gaps.sum { |event| event["args"]["calls"] }
    assert_match(/^   \d+ events from .* s; #{lost} calls lost; /, read("replay", "--info", file_of).stdout)
    assert_equal lost, read("replay", "--info", "--format", "json", file_of).objects.last["lost"]
  end

  test "a file of --last says it, too" do
    target = start("shop")
    client = launch("record", "-v", "-p", target.pid.to_s, "-o", file_of, "--last", "60", "Shop#price(item)").wait_until_armed
    client.signal(:STOP)
    target.run("item = %q(x) * 90; #{CALLS}.times { $shop.price(item) }; nil")
    client.signal(:CONT)
    lost = lost_by(client.stop)
    assert_match(/^rbprobe: #{CALLS - lost} calls, #{lost} lost, /, read("replay", file_of).stderr)
    assert_match(/; #{lost} calls lost; /, read("replay", "--info", file_of).stdout)
  end

  test "--info of a recording without losses says that, and of an old one nothing" do
    client = launch("record", "-v", "-p", start("shop").pid.to_s, "-o", file_of, "Shop#price").wait_until_armed
    assert_exit 0, client.stop
    assert_match(/; 0 calls lost; /, read("replay", "--info", file_of).stdout)
    File.binwrite(file_of(".old"), File.read("#{Processes::ROOT}/tests/recordings/version-1.base64").unpack1("m"))
    refute_includes read("replay", "--info", file_of(".old")).stdout, "lost"
    refute_includes read("replay", "--info", "--format", "json", file_of(".old")).objects.last, "lost"
  end
end
