# --otlp: a receiver that takes requests and does not answer. The queue is bounded, and each span that it has no room for is
# counted.

require_relative "helper"
require_relative "otlp_receiver"

class OtlpStuckTest < LiveTest
  def setup
    super
    @receiver = OtlpReceiver.new
  end

  def teardown
    @receiver.close
    super
  end

  # Far more spans than the queue has room for, and the ring of the process: calls that are made may still be in there.
  MANY = 1_000_000

  # The receiver has answered the first request, which is empty, and answers no other; the process makes its calls all the same.
  def flood(receiver, timeout_ms, *command)
    target = start("shop")
    tracer = launch(*command, "-v", "-p", target.pid.to_s, "Shop#price", "--otlp", receiver.url,
                    env: { "OTEL_EXPORTER_OTLP_TIMEOUT" => timeout_ms.to_s }).wait_until_armed
    wait_until("the first answer") { receiver.taken.any? }
    receiver.hold
    target.run("#{MANY}.times { $shop.price(:tea) }")
    [target, tracer]
  end

  def counted(result, words)
    result.stderr[/^rbprobe: (\d+) spans? #{words}/, 1].to_i
  end

  # With a full queue, and no CPU time meanwhile.
  def waits?(pid)
    used = -> { File.read("/proc/#{pid}/stat").split(") ").last.split[11, 2] }
    before = used.call
    sleep 0.3
    File.read("/proc/#{pid}/status")[/^VmHWM:\s*(\d+)/, 1].to_i > 32 << 10 && used.call == before
  end

  test "where the receiver is stuck, the queue is bounded, and what it has no room for is counted" do
    to = @receiver
    target, tracer = flood(to, 1_000, "trace", "--overflow", "block")
    assert_equal "2", target.run("1 + 1")
    largest = File.read("/proc/#{tracer.pid}/status")[/^VmHWM:\s*(\d+)/, 1].to_i
    result = tracer.stop
    assert_exit 1, result
    dropped = counted(result, "are lost: they came faster than they were taken")
    unsent = counted(result, "are lost: they could not be sent")
    assert_operator dropped, :>, 10_000
    assert_operator unsent, :>, 10_000
    assert_equal [MANY, 0], [dropped + unsent, counted(result, "sent to")], result.stderr
    assert_operator largest, :<, 150_000, "KiB" if Processes::TARGET_ENV.empty?
    assert_attachable target
  end

  test "where the receiver was stuck for a while, it gets what waited, and the rest is counted" do
    to = @receiver
    # Of a request that is sent again for its time being over, the receiver would count the spans twice.
    _, tracer = flood(to, (60_000 * [Processes::PATIENCE, 1].max).to_i, "trace", "--overflow", "block")
    to.release
    result = tracer.stop
    assert_exit 1, result
    dropped = counted(result, "are lost: they came faster than they were taken")
    sent = counted(result, "sent to")
    assert_operator dropped, :>, 10_000
    assert_equal [MANY, 0], [sent + dropped, counted(result, "are lost: they could not be sent")], result.stderr
    assert_equal sent, to.taken.sum { |request| Otlp.span_count(request.body) }
  end

  test "figures for which a receiver that is stuck has no time are counted, too" do
    to = @receiver
    target = start("shop")
    tracer = launch("stat", "-v", "-p", target.pid.to_s, "Shop#price", "--interval", "0.2", "--otlp", to.url,
                    env: { "OTEL_EXPORTER_OTLP_TIMEOUT" => "500" }).wait_until_armed
    wait_until("the first answer") { to.taken.any? }
    to.hold
    target.run("30.times { $shop.price(:tea) }")
    tracer.wait_for(/trying again/)
    result = tracer.stop
    assert_exit 1, result
    assert_match(/^rbprobe: \d+ data points are lost: they could not be sent$/, result.stderr)
  end

  test "one Ctrl-C ends an export that waits for a receiver that is stuck, and another one what it has still to send" do
    to = @receiver
    target = start("shop")
    file = "#{directory}/calls.rec"
    recorder = launch("record", "-v", "-p", target.pid.to_s, "--overflow", "block", "-o", file, "Shop#price").wait_until_armed
    target.run("200_000.times { $shop.price(:tea) }")
    assert_exit 0, recorder.stop
    to.hold
    export = launch("export", file, "--to", "otlp", "--otlp", to.url, env: { "OTEL_EXPORTER_OTLP_TIMEOUT" => "600000" })
    wait_until("the export waits") { waits?(export.pid) }
    export.signal("INT")
    export.wait_for(/ended: interrupted/)
    sleep 0.5 # a second one that comes sooner is taken for the first
    result = export.stop
    assert_match(/^rbprobe: \d+ spans are lost: they came faster than they were taken$/, result.stderr)
    assert_match(/^rbprobe: \d+ spans are lost: they could not be sent$/, result.stderr)
    refute_includes result.stderr, "trying again"
  end
end
