# --otlp: what a collector gets of calls and figures, and what is said where it does not take them.

require_relative "helper"
require_relative "otlp_receiver"
require "openssl"

class OtlpTest < LiveTest
  PUBLISHED = ["", "#{__dir__}/../../build/chroots/trixie"].map { |root| "#{root}/usr/include" }

  def setup
    super
    @receivers = []
  end

  def teardown
    @receivers.each(&:close)
    super
  end

  def receiver(*answers)
    OtlpReceiver.new(*(answers.empty? ? [] : [answers])).tap { |receiver| @receivers << receiver }
  end

  # Traces what the code does, and returns the spans and the finished run, which sends what is left.
  def spans_of(target, code, *arguments, to: receiver, **options)
    tracer = trace(target, *arguments, "--otlp", to.url, **options)
    target.run(code)
    result = tracer.stop
    assert_exit 0, result
    assert_equal "", result.stdout
    [to.spans, result]
  end

  test "an outermost call is a trace, and each call inside of it has its caller as parent" do
    target = start("shop")
    spans, result = spans_of(target, "2.times { Shop.new.sell_all([:tea, :pot]) }", "--args", "Shop#sell_all", "Shop#sell",
                             "Shop#price")
    assert_equal 10, spans.size
    assert_includes result.stderr, "10 spans sent to"
    roots = spans.select { |span| span[:parent].nil? }
    assert_equal ["Shop#sell_all"] * 2, roots.map { |span| span[:name] }
    assert_equal 2, spans.map { |span| span[:trace] }.uniq.size
    assert_equal 10, spans.map { |span| span[:span] }.uniq.size
    by_id = spans.to_h { |span| [span[:span], span] }
    (spans - roots).each do |span|
      parent = by_id.fetch(span[:parent])
      assert_equal({ "Shop#price" => "Shop#sell", "Shop#sell" => "Shop#sell_all" }[span[:name]], parent[:name])
      assert_equal parent[:trace], span[:trace]
      assert_operator parent[:start], :<=, span[:start]
      assert_operator span[:end], :<=, parent[:end]
    end
    sell = spans.find { |span| span[:name] == "Shop#sell" }[:attributes]
    assert_equal ":tea", sell["rbprobe.args.item"]
    assert_equal "Shop#sell", sell["code.function.name"]
    assert_match(/shop\.rb\z/, sell["code.file.path"])
    assert_kind_of Integer, sell["code.line.number"]
    assert_kind_of Integer, sell["thread.id"]
    resource = spans.first[:resource]
    assert_equal target.pid, resource["process.pid"]
    assert_equal "ruby", resource["process.runtime.name"]
    assert_match(/\A\d+\.\d+/, resource["process.runtime.version"])
    assert_equal "#{resource["host.name"]}:#{target.pid}", resource["service.instance.id"]
    assert_equal spans.size, spans.count { |span| span[:resource] == resource }
  end

  test "an exception is an event of the span that it left, whose status is an error" do
    target = start("shop")
    spans, = spans_of(target, "Shop.new.try(:tea)", "Shop#try", "Shop#refuse")
    refused = spans.find { |span| span[:name] == "Shop#refuse" }
    assert_equal [2, "no tea"], refused[:status]
    assert_equal(["exception"], refused[:events].map { |event| event[:name] })
    assert_equal({ "exception.type" => "Shop::SoldOut", "exception.message" => "no tea" }, refused[:events].first[:attributes])
    assert_equal refused[:end], refused[:events].first[:time]
    assert_equal "raised", refused[:attributes]["rbprobe.ended"]
    assert_nil spans.find { |span| span[:name] == "Shop#try" }[:status]
  end

  test "what happens in a call is an event of its span, and outside of all a span of its own" do
    target = start("shop")
    spans, = spans_of(target, "Shop.new.try(:tea); begin; raise IOError, 'alone'; rescue IOError; end",
                      "Shop#try", "--raise")
    event = spans.find { |span| span[:name] == "Shop#try" }[:events].first
    assert_equal "raise", event[:name]
    assert_equal "Shop::SoldOut", event[:attributes]["exception.type"]
    alone = spans.find { |span| span[:name] == "raise" }
    assert_equal "alone", alone[:attributes]["exception.message"]
    assert_nil alone[:parent]
  end

  test "ids that expressions show by the names of the opentelemetry gem are a link to the application's own span" do
    target = start("shop")
    target.run(<<~RUBY)
      module OpenTelemetry
        SPAN = Struct.new(:hex_trace_id, :hex_span_id).new("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
        NONE = SPAN.class.new("0" * 32, "0" * 16)
      end
    RUBY
    ids = "OpenTelemetry::SPAN.hex_trace_id, OpenTelemetry::SPAN.hex_span_id"
    none = "OpenTelemetry::NONE.hex_trace_id, OpenTelemetry::NONE.hex_span_id"
    spans, = spans_of(target, "Shop.new.try(:tea); Shop.new.price(:tea)", "Shop#try(#{ids})", "Shop#price(#{none})",
                      "Shop#refuse")
    link = %w[0af7651916cd43dd8448eb211c80319c b7ad6b7169203331]
    assert_equal({ "Shop#try" => [link], "Shop#price" => [], "Shop#refuse" => [] },
                 spans.to_h { |span| [span[:name], span[:links]] })
  end

  test "bytes that are no UTF-8 and text of hostile names arrive as text" do
    target = start("shop")
    spans, = spans_of(target, 'Shop.new.price("\\xff\\e[2J".b)', "--args", "Shop#price")
    assert_equal "Shop#price", spans.first[:name]
    assert spans.first[:attributes]["rbprobe.args.item"].valid_encoding?
  end

  test "a service is called what the process calls it, or whoever runs rbprobe" do
    target = start("shop", env: { "OTEL_SERVICE_NAME" => "shop-front", "OTEL_RESOURCE_ATTRIBUTES" => "team=blue,process.pid=1" })
    spans, = spans_of(target, "Shop.new.price(:tea)", "Shop#price")
    assert_equal %w[shop-front blue], spans.first[:resource].values_at("service.name", "team")
    assert_equal target.pid, spans.first[:resource]["process.pid"]
    spans, = spans_of(target, "Shop.new.price(:tea)", "Shop#price", env: { "OTEL_SERVICE_NAME" => "other" })
    assert_equal "other", spans.first[:resource]["service.name"]
  end

  test "stat sends histograms, whose buckets have all calls, and only what grows" do
    target = start("shop")
    to = receiver
    tracer = launch("stat", "-v", "-p", target.pid.to_s, "Shop#price", "Shop#refuse", "--interval", "0.3", "--otlp", to.url)
    tracer.wait_until_armed
    target.run("30.times { Shop.new.price(:tea) }; 2.times { Shop.new.refuse(:x) rescue nil }")
    wait_until("all calls") { value_of(to, "rbprobe.method.calls", "Shop#price") == 30 }
    first = to.metrics["rbprobe.method.duration"].first[:from]
    target.run("5.times { Shop.new.price(:tea) }")
    wait_until("the others") { value_of(to, "rbprobe.method.calls", "Shop#price") == 35 }
    result = tracer.stop
    assert_exit 0, result
    assert_equal "", result.stdout
    point = to.metrics["rbprobe.method.duration"].find { |one| one[:attributes]["code.function.name"] == "Shop#price" }
    assert_equal [35, 35, point[:bounds].size + 1], [point[:count], point[:buckets].sum, point[:buckets].size]
    assert_equal [2, first], point.values_at(:temporality, :from)
    assert_equal point[:bounds].sort, point[:bounds]
    assert_operator point[:min], :<=, point[:sum] / 35
    assert_operator point[:sum] / 35, :<=, point[:max]
    assert_equal 2, value_of(to, "rbprobe.method.errors", "Shop#refuse")
    assert to.metrics["rbprobe.method.calls"].first[:monotonic]
    assert_equal target.pid, point[:resource]["process.pid"]
  end

  test "where its owner wants it, only what has come since the last time is sent" do
    target = start("shop")
    to = receiver
    tracer = launch("stat", "-v", "-p", target.pid.to_s, "Shop#price", "--interval", "0.3", "--otlp", to.url,
                    env: { "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE" => "delta" })
    tracer.wait_until_armed
    sums = lambda do
      to.taken.sum { |one| Otlp.metrics(one.body).fetch("rbprobe.method.calls", []).sum { |point| point[:value] } }
    end
    target.run("7.times { Shop.new.price(:tea) }")
    wait_until("the first") { sums.call == 7 }
    target.run("4.times { Shop.new.price(:tea) }")
    assert_exit 0, tracer.stop
    assert_equal 11, sums.call
    assert_equal(1, to.taken.flat_map { |one| Otlp.metrics(one.body).fetch("rbprobe.method.calls", []) }.last[:temporality])
  end

  def value_of(receiver, metric, method)
    receiver.metrics.fetch(metric, []).find { |point| point[:attributes]["code.function.name"] == method }&.fetch(:value)
  end

  test "recorded calls become the same spans, in a file or where --otlp says" do
    target = start("shop")
    file = "#{directory}/calls.rec"
    recorder = launch("record", "-v", "-p", target.pid.to_s, "--args", "-o", file, "Shop#try", "Shop#refuse").wait_until_armed
    target.run("3.times { Shop.new.try(:tea) }")
    assert_exit 0, recorder.stop
    to = receiver
    result = rbprobe("export", file, "--to", "otlp", "--otlp", to.url)
    assert_exit 0, result
    assert_match(/^rbprobe: 6 spans sent to/, result.stderr)
    result = rbprobe("export", file, "--to", "otlp", "-o", "#{file}.otlp")
    assert_exit 0, result
    sent, written = [to.spans, Otlp.spans(File.binread("#{file}.otlp"))].map do |spans|
      spans.map { |span| span.slice(:name, :start, :end, :attributes, :status, :resource) }
    end
    assert_equal sent, written
    assert_equal ["Shop#refuse", "Shop#try"] * 3, sent.map { |span| span[:name] }
    assert_equal [target.pid], sent.map { |span| span[:resource]["process.pid"] }.uniq
    assert_refused 2, /\Arbprobe: --otlp sends spans: it goes with --to otlp\n\z/, "export", file, "--to", "chrome", "--otlp"
  end

  test "a server that is busy is asked again when it wants, and nothing is lost" do
    target = start("shop")
    busy = receiver([503, { "Retry-After" => "1" }, ""], [429, {}, ""], [200, {}, ""])
    _, result = spans_of(target, "Shop.new.price(:tea)", "Shop#price", to: busy)
    assert_equal 1, result.stderr.scan("trying again").size
    assert_match(/it answers (503 Service Unavailable|429 Too Many Requests); trying again/, result.stderr)
    assert_equal 1, busy.spans.size
  end

  test "what a server takes only in part, or not at all, is lost, and said" do
    target = start("shop")
    partial = receiver([200, {}, ""], [200, {}, "\n\x0b\b\x02\x12\x07too old"], [200, {}, ""])
    tracer = trace(target, "Shop#price", "--otlp", partial.url)
    target.run("5.times { Shop.new.price(:tea) }")
    wait_until("it is asked") { partial.count == 2 }
    result = tracer.stop
    assert_exit 1, result
    assert_match(/^rbprobe: 2 spans are lost: they were not taken: too old$/, result.stderr)
    assert_match(/^rbprobe: 3 spans sent/, result.stderr)
  end

  test "a server that will never take anything ends the run with one line" do
    target = start("shop")
    { 401 => "it answers 401 Unauthorized: give what it wants in OTEL_EXPORTER_OTLP_HEADERS",
      404 => "it answers 404 Not Found: it takes no OTLP at this URL" }.each do |status, words|
      server = receiver([status, {}, ""])
      result = rbprobe("trace", "-p", target.pid.to_s, "Shop#price", "--otlp", server.url)
      assert_exit 1, result
      assert_equal 1, result.stderr.scan("cannot send to #{server.url}/v1/traces: #{words}").size, result.stderr
    end
    assert_attachable target
  end

  test "a server whose certificate nobody has signed gets nothing" do
    target = start("shop")
    server, thread = https_server
    result = rbprobe("trace", "-p", target.pid.to_s, "Shop#price", "--otlp", "https://127.0.0.1:#{server.addr[1]}")
    assert_exit 1, result
    assert_match(/cannot send to \S+: SSL.*certificate/i, result.stderr)
  ensure
    thread&.kill
    server&.close
  end

  def https_server
    key = OpenSSL::PKey::RSA.new(2048)
    name = OpenSSL::X509::Name.parse("/CN=127.0.0.1")
    certificate = OpenSSL::X509::Certificate.new
    certificate.version = 2
    certificate.serial = 1
    certificate.subject = certificate.issuer = name
    certificate.public_key = key.public_key
    certificate.not_before = Time.now - 60
    certificate.not_after = Time.now + 3600
    certificate.sign(key, OpenSSL::Digest.new("SHA256"))
    context = OpenSSL::SSL::SSLContext.new
    context.cert = certificate
    context.key = key
    server = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new { loop { accept_tls(server.accept, context) } }
    [server, thread]
  end

  def accept_tls(socket, context)
    OpenSSL::SSL::SSLSocket.new(socket, context).accept
  rescue OpenSSL::SSL::SSLError, SystemCallError
    socket.close
  end

  test "where nobody listens, that is said once, and what cannot be sent is counted" do
    target = start("shop")
    free = TCPServer.new("127.0.0.1", 0).then { |server| server.addr[1].tap { server.close } }
    tracer = trace(target, "Shop#price", "--otlp", "http://127.0.0.1:#{free}", env: { "OTEL_EXPORTER_OTLP_TIMEOUT" => "300" })
    tracer.wait_for(/trying again/)
    target.run("6.times { Shop.new.price(:tea) }")
    result = tracer.stop
    assert_exit 1, result
    assert_equal 1, result.stderr.scan("trying again").size
    assert_includes result.stderr, "rbprobe: 6 spans are lost: they could not be sent"
  end

  test "a name server that does not answer holds up nothing for longer than the timeout" do
    only_root
    server = UDPSocket.new.tap { |socket| socket.bind("127.53.0.1", 53) }
    # By itself the resolver would try for minutes.
    resolv = "#{directory}/resolv"
    File.write(resolv, "nameserver 127.53.0.1\noptions timeout:30 attempts:5\n")
    command = ["unshare", "-m", "sh", "-c", "mount --bind #{resolv} /etc/resolv.conf && exec \"$@\"", "sh"]
    target = start("shop")
    tracer = trace(target, "Shop#price", "--otlp", "http://collector.example.com:4318",
                   command: command, env: { "OTEL_EXPORTER_OTLP_TIMEOUT" => "300" })
    tracer.wait_for(/trying again/)
    target.run("6.times { Shop.new.price(:tea) }")
    result = tracer.stop
    assert_exit 1, result
    assert_includes result.stderr, "rbprobe: 6 spans are lost: they could not be sent"
  ensure
    server&.close
  end

  test "the environment says where to, and what has to be in the headers" do
    target = start("shop")
    to = receiver
    env = { "OTEL_EXPORTER_OTLP_ENDPOINT" => "#{to.url}/tenant", "OTEL_EXPORTER_OTLP_HEADERS" => "api-key=a%20b" }
    tracer = trace(target, "Shop#price", "--otlp", env: env)
    target.run("Shop.new.price(:tea)")
    wait_until("a span") { to.spans.size == 1 }
    assert_exit 0, tracer.stop
    assert_equal ["/tenant/v1/traces", "a b", "application/x-protobuf"],
                 [to.taken.last.path, *to.taken.last.headers.values_at("api-key", "content-type")]
  end

  test "what cannot be is refused in one line" do
    [%w[localhost:4318 takes\ a\ URL], %w[ftp://x takes\ a\ URL], %w[http://127.0.0.1:99999 is\ no\ URL]].each do |url, words|
      assert_refused 2, /\Arbprobe: --otlp.*#{words}.*\n\z/, "trace", "-p", Process.pid.to_s, "Shop#price", "--otlp", url
    end
    assert_refused 2, /\Arbprobe: --otlp sends what -o would write.*\n\z/, "trace", "-p", Process.pid.to_s, "A#b", "--otlp",
                   "-o", "x"
    assert_refused 2, /\Arbprobe: --otlp .*leave out --format\n\z/, "trace", "-p", Process.pid.to_s, "A#b", "--otlp",
                   "--format", "json"
    assert_refused 2, /\Arbprobe: --otlp has no place for a --tree\n\z/, "stat", "-p", Process.pid.to_s, "A#b", "--otlp", "--tree"
  end

  SCHEMAS = %w[common/v1/common resource/v1/resource trace/v1/trace collector/trace/v1/trace_service].freeze
  C_ESCAPES = { "n" => "\n", "r" => "\r", "t" => "\t" }.freeze

  def varint(number)
    number < 128 ? number.chr : ((number & 127) | 128).chr + varint(number >> 7)
  end

  # Debian's package has the schema as protoc's C++ alone, and in that the descriptors, each as one string.
  def published_schema(includes)
    SCHEMAS.map { |name|
      code = File.binread("#{includes}/opentelemetry/proto/#{name}.pb.cc")
      string = code[/descriptor_table_protodef_\w+\[\][^=]*=[\s{]*((?:"(?:[^"\\]|\\.)*"\s*)+)/m, 1]
      descriptor = string.scan(/"((?:[^"\\]|\\.)*)"/m).join.gsub(/\\([0-7]{3}|.)/m) do
        escaped = Regexp.last_match(1)
        escaped.size == 3 ? escaped.oct.chr : C_ESCAPES.fetch(escaped, escaped)
      end
      "\n#{varint(descriptor.bytesize)}".b + descriptor
    }.join
  end

  test "what arrives is what the published schema says" do
    includes = PUBLISHED.find { |directory| File.directory?("#{directory}/opentelemetry/proto") }
    skip "needs protoc, and libopentelemetry-proto-dev of Debian 13" unless includes && system("command -v protoc >/dev/null")
    target = start("shop")
    to = receiver
    spans_of(target, "Shop.new.try(:tea)", "--args", "Shop#", to: to)
    schema = "#{directory}/schema"
    File.binwrite(schema, published_schema(includes))
    decoded = IO.popen(["protoc", "--descriptor_set_in=#{schema}", "--decode",
                        "opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest"], "r+b") do |pipe|
      pipe.write(to.taken.last.body)
      pipe.close_write
      pipe.read
    end
    assert_match(/string_value: "Shop#refuse"/, decoded)
    assert_match(/code: STATUS_CODE_ERROR/, decoded)
    # A field that the schema does not have is shown by its number.
    refute_match(/^\s*\d+[: ]/, decoded)
  end
end
