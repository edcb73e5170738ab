# --otlp: what a collector gets of calls and figures, and what is said where it does not take them.

require_relative "helper"
require_relative "otlp_receiver"
require "openssl"
require "zlib"

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
    target = start("shop")
    target.run("Process.setproctitle('puma: cluster worker 0: 1 [shop]')")
    spans, = spans_of(target, "Shop.new.price(:tea)", "Shop#price")
    assert_equal "puma", spans.first[:resource]["service.name"]
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

  # The calls that the code makes, with arguments.
  def recorded_by_shop(code)
    target = start("shop")
    file = "#{directory}/calls.rec"
    recorder = launch("record", "-v", "-p", target.pid.to_s, "--args", "-o", file, "Shop#try", "Shop#refuse").wait_until_armed
    target.run(code)
    assert_exit 0, recorder.stop
    file
  end

  test "recorded calls become the same spans, in a file or where --otlp says" do
    file = recorded_by_shop("3.times { Shop.new.try(:tea) }")
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
    assert_equal [@targets.last.pid], sent.map { |span| span[:resource]["process.pid"] }.uniq
    assert_refused 2, /\Arbprobe: --otlp sends spans: it goes with --to otlp\n\z/, "export", file, "--to", "chrome", "--otlp"
    %w[gzip json,gzip].each do |as|
      assert_refused 2, /\Arbprobe: --otlp-as gzip packs what --otlp sends, and no file; .*\| gzip >FILE\n\z/,
                     "export", file, "--to", "otlp", "-o", "#{directory}/packed", "--otlp-as", as
      refute_path_exists "#{directory}/packed"
    end
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

  test "a server that OTEL_EXPORTER_OTLP_CERTIFICATE vouches for gets spans over https" do
    target = start("shop")
    to = receiver
    file = "#{directory}/ca.pem"
    server, thread = https_server(forward: to.port)
    File.write(file, @certificate.to_pem)
    tracer = trace(target, "Shop#price", "--otlp", "https://127.0.0.1:#{server.addr[1]}",
                   env: { "OTEL_EXPORTER_OTLP_CERTIFICATE" => file })
    target.run("4.times { Shop.new.price(:tea) }")
    assert_exit 0, tracer.stop
    assert_equal 4, to.spans.size
  ensure
    thread&.kill
    server&.close
  end

  # forward: to the port of a server without TLS.
  def https_server(forward: nil)    key = OpenSSL::PKey::RSA.new(2048)
    name = OpenSSL::X509::Name.parse("/CN=127.0.0.1")
    certificate = OpenSSL::X509::Certificate.new
    certificate.version = 2
    certificate.serial = 1
    certificate.subject = certificate.issuer = name
    certificate.public_key = key.public_key
    certificate.not_before = Time.now - 60
    certificate.not_after = Time.now + 3600
    extensions = OpenSSL::X509::ExtensionFactory.new(certificate, certificate)
    certificate.add_extension(extensions.create_extension("subjectAltName", "IP:127.0.0.1"))
    certificate.sign(key, OpenSSL::Digest.new("SHA256"))
    @certificate = certificate
    context = OpenSSL::SSL::SSLContext.new
    context.cert = certificate
    context.key = key
    server = TCPServer.new("127.0.0.1", 0)
    thread = Thread.new { loop { accept_tls(server.accept, context, forward) } }
    [server, thread]
  end

  def accept_tls(socket, context, forward)
    outside = OpenSSL::SSL::SSLSocket.new(socket, context).accept
    forward or return
    inside = TCPSocket.new("127.0.0.1", forward)
    Thread.new { copy(inside, outside) }
    Thread.new { copy(outside, inside) }
  rescue OpenSSL::SSL::SSLError, SystemCallError
    socket.close
  end

  def copy(from, to)
    loop { to.write(from.readpartial(1 << 16)) }
  rescue IOError, SystemCallError, OpenSSL::SSL::SSLError
    to.close
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
    refute_includes result.stderr, "what is left"
  end

  test "an end that takes a while is said, and Ctrl-C cuts it short" do
    target = start("shop")
    free = TCPServer.new("127.0.0.1", 0).then { |server| server.addr[1].tap { server.close } }
    tracer = trace(target, "Shop#price", "--otlp", "http://127.0.0.1:#{free}", env: { "OTEL_EXPORTER_OTLP_TIMEOUT" => "600000" })
    target.run("Shop.new.price(:tea)")
    tracer.wait_for(/trying again/)
    Process.kill(:INT, tracer.pid)
    tracer.wait_for(%r{what is left is being sent to http://\S+/v1/traces, for 600 s at most; Ctrl-C ends that$})
    assert_exit 1, tracer.stop
  end

  test "of an answer that has no end the status counts, and the rest is not waited for" do
    server = TCPServer.new("127.0.0.1", 0)
    answering = Thread.new { loop { Thread.new(server.accept) { |socket| answer_without_end(socket) } } }
    target = start("shop")
    tracer = trace(target, "Shop#price", "--otlp", "http://127.0.0.1:#{server.addr[1]}",
                   env: { "OTEL_EXPORTER_OTLP_TIMEOUT" => "20000" })
    target.run("6.times { Shop.new.price(:tea) }")
    result = tracer.stop
    assert_exit 0, result
    assert_match(/^rbprobe: 6 spans sent to/, result.stderr)
  ensure
    answering&.kill
    server&.close
  end

  def answer_without_end(socket)
    length = 0
    while (line = socket.gets) && line != "\r\n"
      length = line[/\Acontent-length: (\d+)/i, 1].to_i if line.match?(/\Acontent-length:/i)
    end
    socket.read(length)
    socket.write("HTTP/1.1 200 OK\r\n\r\n")
    loop { socket.write("A" * 65_536) }
  rescue SystemCallError, IOError
    socket.close
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

  test "user and password of a URL are sent, and never shown" do
    target = start("shop")
    to = receiver
    url = to.url.sub("//", "//me:secret@")
    tracer = trace(target, "Shop#price", "--otlp", "#{url}/x?key=hidden")
    target.run("Shop.new.price(:tea)")
    wait_until("a span") { to.taken.any? { |request| Otlp.spans(request.body).any? } }
    result = tracer.stop
    assert_exit 0, result
    assert_equal "Basic #{["me:secret"].pack("m0")}", to.taken.last.headers["authorization"]
    assert_equal "/x/v1/traces?key=hidden", to.taken.last.path
    assert_includes result.stderr, "sent to #{to.url}/x/v1/traces?..."
    refute_match(/secret|hidden|me:/, result.stderr)
    # Those that are refused, and those that nobody answers.
    ["http://me:secret@", "htp://me:secret@host/", "http://me:secret@host name", "me:secret@host:4318", "http://me:sec/ret@host",
     "http://me:secret@127.0.0.1:99999", "http://me:secret@127.0.0.1:1/?key=secret"].each do |wrong|
      [["--otlp=#{wrong}", {}], ["--otlp", { "OTEL_EXPORTER_OTLP_ENDPOINT" => wrong }]].each do |option, env|
        result = rbprobe("trace", "-p", target.pid.to_s, "--duration", "0.2", "Shop#price", option,
                         env: env.merge("OTEL_EXPORTER_OTLP_TIMEOUT" => "300"))
        refute_equal 0, result.status unless wrong.include?(":1/")
        refute_match(/sec|ret@|me:/, result.stderr.gsub("Secure", ""))
      end
    end
  end

  test "JSON has what protobuf has, by the names of the standard, and gzip packs both" do
    file = recorded_by_shop('Shop.new.try("\u00e9\x00\"".b + "\xff".b)')
    bodies = [[], %w[--otlp-as json], %w[--otlp-as gzip], %w[--otlp-as json,gzip]].map do |as|
      to = receiver([200, {}, '{"partialSuccess":{}}'])
      assert_exit 0, rbprobe("export", file, "--to", "otlp", "--otlp", to.url, *as)
      last = to.taken.last
      assert_equal as.join.include?("json") ? "application/json" : "application/x-protobuf", last.headers["content-type"]
      body = last.headers["content-encoding"] == "gzip" ? Zlib.gunzip(last.body) : last.body
      assert_equal as.join.include?("gzip"), last.headers["content-encoding"] == "gzip"
      last.headers["content-type"].include?("json") ? JSON.parse(body) : body
    end
    spans = Otlp.spans(bodies[0])
    assert_equal %w[Shop#refuse Shop#try], spans.map { |span| span[:name] }
    [bodies[1], bodies[3]].each { |body| assert_equal spans.map { |span| comparable(span) }, spans_of_json(body) }
    assert_equal(spans.map { |span| span[:name] }, Otlp.spans(bodies[2]).map { |span| span[:name] })
    lines = rbprobe("export", file, "--to", "otlp", "--otlp-as", "json").stdout.lines
    assert_equal spans.size, lines.sum { |line| spans_of_json(JSON.parse(line)).size }
  end

  # Without its ids, which are chance.
  def comparable(span)
    span.slice(:name, :kind, :start, :end, :attributes, :events, :status, :resource)
  end

  def spans_of_json(body)
    body["resourceSpans"].flat_map do |of|
      of["scopeSpans"].flat_map { |scope| scope["spans"] }.map { |span| span_of_json(span, of["resource"]) }
    end
  end

  def span_of_json(span, resource)
    assert_match(/\A\h{32}\z/, span["traceId"])
    assert_match(/\A\h{16}\z/, span["spanId"])
    { name: span["name"], kind: span["kind"], start: Integer(span["startTimeUnixNano"]), end: Integer(span["endTimeUnixNano"]),
      attributes: attributes_of_json(span["attributes"]),
      events: span.fetch("events", []).map do |event|
        { time: Integer(event["timeUnixNano"]), name: event["name"], attributes: attributes_of_json(event["attributes"]) }
      end,
      status: span["status"] && [span["status"]["code"], span["status"]["message"].to_s],
      resource: attributes_of_json(resource["attributes"]) }
  end

  def attributes_of_json(list)
    list.to_h { |pair| [pair["key"], pair["value"]["stringValue"] || Integer(pair["value"]["intValue"])] }
  end

  test "what a server takes only in part is said in JSON, too" do
    target = start("shop")
    partial = receiver([200, {}, ""], [200, {}, '{"partialSuccess":{"rejectedSpans":"2","errorMessage":"too old"}}'])
    tracer = trace(target, "Shop#price", "--otlp", partial.url, env: { "OTEL_EXPORTER_OTLP_PROTOCOL" => "http/json" })
    target.run("5.times { Shop.new.price(:tea) }")
    wait_until("it is asked") { partial.count == 2 }
    result = tracer.stop
    assert_exit 1, result
    assert_match(/^rbprobe: 2 spans are lost: they were not taken: too old$/, result.stderr)
  end

  test "histograms of base 2, where they are wanted, have all calls between the least and the longest" do
    target = start("shop")
    [["--otlp-as=exponential", {}],
     ["--otlp-as=protobuf", { "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION" =>
                              "base2_exponential_bucket_histogram" }]].each do |option, env|
      to = receiver
      tracer = launch("stat", "-v", "-p", target.pid.to_s, "Shop#price", "--otlp", to.url, option, env: env)
      tracer.wait_until_armed
      target.run("30.times { Shop.new.price(:tea) }")
      assert_exit 0, tracer.stop
      point = to.metrics["rbprobe.method.duration"].first
      assert_equal [30, 30], [point[:count], point[:buckets].sum]
      base = 2**(2.0**-point[:scale])
      assert_operator base**point[:offset], :<=, point[:min] * base
      assert_operator base**(point[:offset] + point[:buckets].size), :>=, point[:max] / base
      assert_operator point[:buckets].size, :<=, 160
    end
  end

  # Of the TCP sockets of a process: whether a program that it starts would be left without them.
  def closed_by_exec(pid)
    connections = File.readlines("/proc/#{pid}/net/tcp").map { |line| line.split[9] }
    numbers = Dir.children("/proc/#{pid}/fd").select do |number|
      connections.include?(File.readlink("/proc/#{pid}/fd/#{number}")[/\Asocket:\[(\d+)\]/, 1])
    end
    numbers.map { |number| File.read("/proc/#{pid}/fdinfo/#{number}")[/^flags:\s*(\d+)/, 1].to_i(8).anybits?(0o2000000) }
  end

  test "the connection is rbprobe's alone: no program that it starts has it" do
    to = receiver
    tracer = trace(start("shop"), "--otlp", to.url, "Shop#price")
    wait_until("it is connected") { to.count.positive? }
    assert_equal [true], closed_by_exec(tracer.pid)
    assert_exit 0, tracer.stop
  end

  test "a program's calls from its first line on are sent, and its status is its own" do
    to = receiver
    code = "class Shop; def price(item); item; end; end; 3.times { Shop.new.price(:tea) }; exit 7"
    result = rbprobe("exec", "--otlp", to.url, "--args", "Shop#price", "--", *Processes::RUBY, "-e", code,
                     env: Processes::TARGET_ENV)
    assert_exit 7, result
    assert_match(/^rbprobe: 3 spans sent to /, result.stderr)
    assert_equal [["Shop#price", ":tea"]] * 3, to.spans.map { |span| [span[:name], span[:attributes]["rbprobe.args.item"]] }
  end

  test "what cannot be is refused in one line" do
    [[%w[--otlp-as json trace], /says how --otlp writes/], [%w[--otlp --otlp-as json,protobuf trace], /not both/],
     [%w[--otlp --otlp-as xml trace], /takes protobuf, json, gzip and exponential/],
     [%w[--otlp --otlp-as exponential trace], /is for histograms/]].each do |(*options, command), words|
      assert_refused 2, /\Arbprobe: .*#{words}.*\n\z/, command, "-p", Process.pid.to_s, "Shop#price", *options
    end
    { "PROTOCOL" => "http/xml", "COMPRESSION" => "zstd", "TIMEOUT" => "soon" }.each do |name, value|
      assert_refused 2, /\Arbprobe: OTEL_EXPORTER_OTLP_#{name} .*#{value}.*\n\z/, "trace", "-p", Process.pid.to_s, "Shop#price",
                     "--otlp", env: { "OTEL_EXPORTER_OTLP_#{name}" => value }
    end
    [%w[localhost:4318 takes\ a\ URL], %w[ftp://x takes\ a\ URL], %w[http://127.0.0.1:99999 is\ no\ URL]].each do |url, words|
      assert_refused 2, /\Arbprobe: --otlp.*#{words}.*\n\z/, "trace", "-p", Process.pid.to_s, "Shop#price", "--otlp", url
    end
    assert_refused 2, /\Arbprobe: --otlp sends what -o would write.*\n\z/, "trace", "-p", Process.pid.to_s, "A#b", "--otlp",
                   "-o", "x"
    assert_refused 2, /\Arbprobe: --otlp .*leave out --format\n\z/, "trace", "-p", Process.pid.to_s, "A#b", "--otlp",
                   "--format", "json"
    assert_refused 2, /\Arbprobe: --otlp has no place for a --tree\n\z/, "stat", "-p", Process.pid.to_s, "A#b", "--otlp", "--tree"
  end

  test "libcurl is loaded for --otlp alone, and where it cannot be, that is refused in one line" do
    libraries = directory
    File.write("#{libraries}/libcurl.so.4", "none")
    without = { "LD_LIBRARY_PATH" => libraries }
    assert_exit 0, rbprobe("--version", env: without)
    assert_refused 1, /\Arbprobe: --otlp needs libcurl, which cannot be loaded: .*; on Debian install libcurl4\n\z/,
                   "trace", "-p", start("shop").pid.to_s, "Shop#price", "--otlp", env: without
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
