# What `rbprobe export` writes, as the programs read it that it is for: speedscope in Chromium, pprof-format and OpenTelemetry's
# own decoder from npm (mk/consumers installs them), flamegraph.pl, callgrind_annotate and VictoriaMetrics from Debian. Of
# recorded calls, of a recording with a timeline, and of profiles of each kind.

require "net/http"
require "open3"
require "rexml/document"
require_relative "browser"
require_relative "helper"
require_relative "otlp_receiver"

class ConsumersTest < LiveTest
  FOLDER = "#{Processes::BUILD}/consumers"
  SCRIPTS = "#{Processes::ROOT}/tests/consumers"
  FLAMEGRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"
  # Debian's Prometheus is built without OTLP; this takes it from Debian 13 on, whose chroot has it.
  VICTORIA = "#{Processes::ROOT}/build/chroots/trixie/usr/bin/victoria-metrics".freeze

  def teardown
    @browser&.close
    super
  end

  def only_with_npm
    return if File.exist?("#{FOLDER}/installed") && system("command -v node >/dev/null")

    skip "needs npm and its registry: mk/consumers"
  end

  def file_of(name)
    "#{@directory ||= directory}/#{name}"
  end

  CALLS = <<~RUBY.freeze
    [:tea, :cup].map { |item| Thread.new { Thread.current.name = item.to_s; $shop.sell_all([item, item]) } }.each(&:join)
    $shop.try(:cup)
  RUBY

  def record(*arguments)
    target = start("shop")
    client = launch("record", "-v", "--yes", "-p", target.pid.to_s, "-o", file_of("rec"), *arguments, "Shop#")
    client.wait_until_armed
    target.run(CALLS)
    assert_exit 0, client.stop
    file_of("rec")
  end

  def replayed
    rbprobe("replay", "--format", "json", file_of("rec")).events("call")
  end

  # A profile of a process whose threads compute, allocate, and wait for each other; nil where this Ruby or
  # this machine has no such profile.
  def profile(*arguments)
    target = start("shop")
    target.run("2.times { Thread.new { loop { 1000.times { [rand.to_s].map { |one| one * 2 } } } } }; nil")
    result = rbprobe("profile", "-q", "-p", target.pid.to_s, "--duration", "1", "-o", file_of("prof"), *arguments)
    result.status.zero? ? file_of("prof") : nil
  end

  PROFILES = [[], %w[--gvl], %w[--alloc], %w[--native]].freeze

  def each_profile
    made = PROFILES.count do |arguments|
      file = profile(*arguments)
      yield file, arguments if file
    end
    assert_operator made, :>=, 2
  end

  def export(file, format, *arguments)
    result = rbprobe("export", "-q", file, "--to", format, *arguments)
    assert_exit 0, result
    result.stdout
  end

  def node(script, *arguments)
    output, status = Open3.capture2e({ "NODE_PATH" => "#{FOLDER}/node_modules" }, "node", "#{SCRIPTS}/#{script}", *arguments)
    assert_predicate status, :success?, output
    JSON.parse(output)
  end

  # What collapsed stacks add up to, by stack.
  def collapsed(file)
    export(file, "collapsed").scan(/^(.*) (\d+)$/).to_h { |stack, sum| [stack, sum.to_i] }
  end

  # As speedscope's own command line opens a file: a script that hands it over.
  def open_in_speedscope(json)
    skip "needs chromium" unless Browser::PROGRAM
    @browser ||= Browser.new(patience: 30 * ENV.fetch("RBPROBE_PATIENCE", "1").to_i)
    script = file_of("profile.js")
    File.write(script, "speedscope.loadFileFromBase64(\"shop\", #{[json].pack("m0").to_json})")
    @browser.go("#{FOLDER}/node_modules/speedscope/dist/release/index.html#localProfilePath=#{script}")
    @browser.wait("document.body && /Sandwich/.test(document.body.innerText)")
    @browser.press("3")
    @browser.wait("document.querySelectorAll('tr, td').length > 2")
    @browser.value("document.body.innerText")
  end

  test "speedscope shows recorded calls, and profiles of each kind" do
    only_with_npm
    shown = open_in_speedscope(export(record("--args", "--timeline"), "speedscope"))
    %w[Shop#sell_all Shop#sell Shop#price Shop#refuse].each { |name| assert_includes shown, name }
    each_profile do |file, arguments|
      json = export(file, "speedscope")
      hottest = collapsed(file).max_by(&:last).first.split(";").last
      shown = open_in_speedscope(json)
      assert_includes shown, hottest, arguments.inspect
    end
    assert_empty @browser.messages.grep(/exceptionId/)
  end

  test "pprof-format reads the calls and the time of each stack, and profiles of each kind" do
    only_with_npm
    File.binwrite(file_of("pb"), export(record("--timeline"), "pprof"))
    read = node("pprof.js", file_of("pb"))
    calls = replayed
    assert_equal [%w[calls count], %w[wall nanoseconds]], read["kinds"]
    assert_equal calls.size, read["samples"].sum { |sample| sample["values"].first }
    assert_equal calls.select { |call| call["depth"].zero? }.sum { |call| call["duration_ns"] },
                 read["samples"].sum { |sample| sample["values"].last }
    assert_includes read["samples"].map { |sample| sample["stack"] }, %w[Shop#sell_all Shop#sell Shop#price]
    assert_equal %w[cup main tea], read["samples"].map { |sample| sample["thread"] }.uniq.sort
    each_profile do |file, arguments|
      File.binwrite(file_of("pb"), export(file, "pprof"))
      read = node("pprof.js", file_of("pb"))
      refute_empty read["samples"], arguments.inspect
      assert_equal [read["kinds"].size], read["samples"].map { |sample| sample["values"].size }.uniq
      assert(read["samples"].all? { |sample| sample["stack"].all?(String) })
    end
  end

  test "flamegraph.pl draws collapsed stacks of calls, and of profiles" do
    skip "needs flamegraph.pl of libdevel-nytprof-perl" unless File.exist?(FLAMEGRAPH)
    files = [record("--timeline")]
    assert_flamegraph(files.first)
    each_profile { |file, _| assert_flamegraph(file) }
  end

  # All frames; it writes (main) for <main>.
  def assert_flamegraph(file)
    stacks = collapsed(file)
    text, said, status = Open3.capture3("perl", FLAMEGRAPH, "--minwidth=0", stdin_data: export(file, "collapsed"))
    assert_predicate status, :success?, said
    titles = REXML::Document.new(text).get_elements("//title").map(&:text)
    total = stacks.values.sum.to_s.reverse.scan(/\d{1,3}/).join(",").reverse
    assert(titles.any? { |title| title.start_with?("all (#{total} ") }, titles.first(5).inspect)
    names = stacks.keys.flat_map { |stack| stack.split(";") }.uniq
    assert_empty(names.reject { |name| titles.any? { |title| title.start_with?(name.tr("<>", "()").sub(/_\[[kwij]\]\z/, "")) } })
  end

  test "callgrind_annotate reads calls, and profiles of each kind" do
    skip "needs callgrind_annotate" unless system("command -v callgrind_annotate >/dev/null")
    assert_match(/Shop#sell_all/, annotated(record("--timeline")))
    each_profile { |file, _| assert_match(/PROGRAM TOTALS/, annotated(file)) }
  end

  def annotated(file)
    File.write(file_of("callgrind.out"), export(file, "callgrind"))
    output, status = Open3.capture2e("callgrind_annotate", file_of("callgrind.out"))
    assert_predicate status, :success?, output
    output
  end

  test "OpenTelemetry's own decoder reads spans and metrics" do
    only_with_npm
    record("--args")
    to = OtlpReceiver.new
    assert_exit 0, rbprobe("export", file_of("rec"), "--to", "otlp", "--otlp", to.url)
    File.binwrite(file_of("otlp"), to.taken.last.body)
    scopes = node("otlp.js", "traces", file_of("otlp"))["resourceSpans"].flat_map { |of| of["scopeSpans"] }
    spans = scopes.flat_map { |of| of["spans"] }
    assert_equal replayed.map { |call| call["method"] }.sort, spans.map { |span| span["name"] }.sort
    refused = spans.find { |span| span["name"] == "Shop#refuse" }
    assert_equal ["exception", 2], [refused["events"].first["name"], refused["status"]["code"]]
    %w[protobuf exponential].zip(%w[histogram exponentialHistogram]).each { |as, kind| assert_metrics(to, as, kind) }
  ensure
    to&.close
  end

  def assert_metrics(receiver, manner, kind)
    target = start("shop")
    tracer = launch("stat", "-v", "-p", target.pid.to_s, "Shop#price", "--otlp", receiver.url, "--otlp-as", manner)
    tracer.wait_until_armed
    target.run("30.times { Shop.new.price(:tea) }")
    assert_exit 0, tracer.stop
    File.binwrite(file_of("metrics"), receiver.taken.last.body)
    metrics = node("otlp.js", "metrics", file_of("metrics"))["resourceMetrics"].flat_map { |of| of["scopeMetrics"] }
                                                                              .flat_map { |of| of["metrics"] }
    point = metrics.find { |metric| metric["name"] == "rbprobe.method.duration" }[kind]["dataPoints"].first
    counts = point["bucketCounts"] || point["positive"]["bucketCounts"]
    assert_equal [30, 30], [Integer(point["count"]), counts.sum { |count| Integer(count) }]
  end

  def with_victoria
    skip "needs victoria-metrics of Debian 13: tests/matrix/chroot trixie" unless File.executable?(VICTORIA)
    address = TCPServer.open("127.0.0.1", 0) { |server| "127.0.0.1:#{server.addr[1]}" }
    pid = spawn(VICTORIA, "-storageDataPath=#{directory}/victoria", "-httpListenAddr=#{address}", %i[out err] => File::NULL)
    wait_until("VictoriaMetrics answers") { victoria(address, "health") == "OK" }
    yield address
  ensure
    Process.kill(:KILL, pid) && Process.wait(pid) if pid
  end

  def victoria(address, path, **form)
    Net::HTTP.get(URI("http://#{address}/#{path}?#{URI.encode_www_form(form)}"))
  rescue SystemCallError
    nil
  end

  # What it has of a metric: the newest value, by the words of one of its labels.
  def newest(address, metric, label)
    victoria(address, "api/v1/export", "match[]" => "{__name__=\"#{metric}\"}").lines.to_h do |line|
      series = JSON.parse(line)
      [series["metric"][label], series["values"].last]
    end
  end

  test "VictoriaMetrics has all calls in its histograms, and each method by its name" do
    with_victoria do |address|
      target = start("shop")
      tracer = launch("stat", "-v", "-p", target.pid.to_s, "Shop#price", "Shop#refuse", "--interval", "0.2",
                      "--otlp", "http://#{address}/opentelemetry", "--otlp-as", "gzip")
      tracer.wait_until_armed
      target.run("30.times { Shop.new.price(:tea) }; 5.times { Shop.new.try(:tea) }")
      assert_exit 0, tracer.stop
      counts = { "Shop#price" => 30, "Shop#refuse" => 5 }
      wait_until("all is there") { newest(address, "rbprobe.method.duration_count", "code.function.name") == counts }
      assert_equal 5, newest(address, "rbprobe.method.errors", "code.function.name")["Shop#refuse"]
      buckets = newest(address, "rbprobe.method.duration_bucket", "le")
      assert_includes buckets.keys, "+Inf"
    end
  end
end
