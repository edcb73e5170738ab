# --measure span and the links of --otlp: the application's own span, read from where its library keeps it.

require_relative "helper"
require_relative "otlp_receiver"

class ApplicationSpanTest < LiveTest
  TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

  # What must not be called: whoever reads a span leaves the application alone.
  UNTOUCHED = <<~RUBY
    class Untouched
      %i[hash eql? == === inspect to_s name context trace_id span_id id key value active_trace active_span].each do |name|
        define_method(name) { |*| $touched = name }
      end
    end
  RUBY

  # As the opentelemetry gem has it, but for the place of the stack.
  CONTEXTS = UNTOUCHED + <<~RUBY
    class Key < Untouched
      def initialize(name)
        @name = name
      end
    end
    class SpanContext < Untouched
      def initialize(trace, span)
        @trace_id, @span_id = [trace].pack("H*"), [span].pack("H*")
      end
    end
    class Span < Untouched
      def initialize(*ids)
        @context = SpanContext.new(*ids)
      end
    end
    class Context < Untouched
      def initialize(*entries)
        @entries = {}.compare_by_identity
        entries.each_slice(2) { |key, value| @entries[key] = value }
        @entries.freeze
      end
    end
    OTHER, CURRENT = Key.new("baggage"), Key.new("current-span")
    OUTER = Context.new(CURRENT, Span.new("11" * 16, "22" * 8))
    INNER = Context.new(OTHER, 1, CURRENT, Span.new("#{TRACE}", "#{SPAN}"))
    NONE = Context.new(CURRENT, Span.new("00" * 16, "00" * 8))
  RUBY

  DATADOG = UNTOUCHED + <<~RUBY
    class Part < Untouched
      def initialize(values)
        values.each { |name, value| instance_variable_set(name, value) }
      end
    end
    module Datadog
      @components = Part.new(:@tracer => Part.new(:@provider => Part.new(:@context => Part.new(:@key => :datadog_context_7))))
    end
    def traced(trace, span)
      active = span && Part.new(:@id => span)
      Part.new(:@active_trace => Part.new(:@id => trace, :@active_span => active))
    end
  RUBY

  # Each Shop#price's ids, in order.
  def ids_of(before, code)
    target = start("shop")
    target.run("#{before}\n$touched = nil")
    tracer = trace(target, "--measure", "span", "--format", "json", "Shop#price")
    target.run("#{code}\nnil")
    result = tracer.stop
    assert_exit 0, result
    target.run("raise $touched.to_s if $touched")
    result.events("call").map { |call| [call.fetch("trace_id"), call.fetch("span_id")] }
  end

  test "of the opentelemetry gem up to its API's 1.4, the innermost span of the fiber" do
    code = <<~RUBY
      shop, key = Shop.new, :__opentelemetry_context_storage__
      shop.price(:tea)
      Thread.current[key] = [OUTER, INNER]
      shop.price(:tea)
      Thread.current[key] = [OUTER]
      shop.price(:tea)
      Fiber.new { shop.price(:tea) }.resume
      Thread.current[key] = [NONE]
      shop.price(:tea)
      Thread.current[key] = nil
    RUBY
    assert_equal [[nil, nil], [TRACE, SPAN], ["11" * 16, "22" * 8], [nil, nil], [nil, nil]], ids_of(CONTEXTS, code)
  end

  test "of the opentelemetry gem since its API's 1.5" do
    code = <<~RUBY
      require "fiber"
      shop = Shop.new
      Fiber.current.instance_variable_set(:@opentelemetry_context, [OUTER, INNER])
      shop.price(:tea)
      Fiber.new { shop.price(:tea) }.resume
      Fiber.current.instance_variable_set(:@opentelemetry_context, [])
      shop.price(:tea)
    RUBY
    assert_equal [[TRACE, SPAN], [nil, nil], [nil, nil]], ids_of(CONTEXTS, code)
  end

  test "of Datadog's gem" do
    code = <<~RUBY
      shop = Shop.new
      Thread.current[:datadog_context_7] = traced(0x#{TRACE}, 0x#{SPAN})
      shop.price(:tea)
      Thread.current[:datadog_context_7] = traced(5, 6)
      shop.price(:tea)
      Thread.current[:datadog_context_7] = traced(5, nil)
      shop.price(:tea)
      Thread.current[:datadog_context_7] = Part.new({})
      shop.price(:tea)
      Thread.current[:datadog_context_7] = nil
    RUBY
    # Loaded, and configured anew, while the trace is running.
    code = "Shop.new.price(:tea)\n#{DATADOG}\n#{code}\n" + <<~RUBY
      Datadog.instance_variable_get(:@components).instance_variable_get(:@tracer).instance_variable_get(:@provider)
             .instance_variable_set(:@context, Part.new(:@key => :datadog_context_8))
      Thread.current[:datadog_context_8] = traced(5, 6)
      shop.price(:tea)
      Thread.current[:datadog_context_8] = nil
    RUBY
    small = [format("%032x", 5), format("%016x", 6)]
    assert_equal [[nil, nil], [TRACE, SPAN], small, [nil, nil], [nil, nil], small], ids_of("", code)
  end

  test "what is kept where a span's ids would be, and is none, is none" do
    code = <<~RUBY
      shop, key = Shop.new, :__opentelemetry_context_storage__
      odd = [1, :stack, "stack", [nil], [1], [[]], [Context.new], [Context.new(CURRENT, 7)],
             [Context.new(CURRENT, Span.new("11" * 15, "22" * 8))], [Context.new(CURRENT, Span.new("11" * 16, ""))]]
      odd.each { |stack| Thread.current[key] = stack; shop.price(:tea) }
      Thread.current[key] = nil
    RUBY
    assert_equal [[nil, nil]] * 10, ids_of(CONTEXTS, code)
  end

  test "in the text they stand beside the call's time" do
    target = start("shop")
    target.run(CONTEXTS)
    tracer = trace(target, "--measure", "gc,span", "Shop#price")
    target.run("Shop.new.price(:tea); Thread.current[:__opentelemetry_context_storage__] = [INNER]; Shop.new.price(:tea)")
    result = tracer.stop
    assert_exit 0, result
    ends = result.stdout.scan(/<\d\.\d+ gc \d\.\d+(.*)>$/).flatten
    assert_equal ["", " trace #{TRACE} span #{SPAN}"], ends
  end

  test "a call that is sent has its span as a link" do
    target = start("shop")
    target.run(CONTEXTS)
    receiver = OtlpReceiver.new
    tracer = trace(target, "Shop#price", "--otlp", receiver.url)
    target.run("Shop.new.price(:tea); Thread.current[:__opentelemetry_context_storage__] = [INNER]; Shop.new.price(:tea)")
    assert_exit 0, tracer.stop
    assert_equal [[], [[TRACE, SPAN]]], receiver.spans.map { |span| span[:links] }
  ensure
    receiver&.close
  end

  test "a recorded call that is exported has its span as a link" do
    target = start("shop")
    target.run(CONTEXTS)
    file = "#{directory}/calls.rec"
    recorder = launch("record", "-v", "-p", target.pid.to_s, "-o", file, "--measure", "span", "Shop#price").wait_until_armed
    target.run("Shop.new.price(:tea); Thread.current[:__opentelemetry_context_storage__] = [INNER]; Shop.new.price(:tea)")
    assert_exit 0, recorder.stop
    receiver = OtlpReceiver.new
    assert_exit 0, rbprobe("export", file, "--to", "otlp", "--otlp", receiver.url)
    assert_equal [[], [[TRACE, SPAN]]], receiver.spans.map { |span| span[:links] }
    lines = rbprobe("export", file, "--to", "otlp", "--otlp-as", "json").tap { |result| assert_exit 0, result }.objects
    spans = lines.flat_map { |line| line["resourceSpans"] }.flat_map { |of| of["scopeSpans"] }.flat_map { |of| of["spans"] }
    links = spans.map { |span| span.fetch("links", []).map { |link| link.values_at("traceId", "spanId") } }
    assert_equal [[], [[TRACE, SPAN]]], links
    assert_match(/ trace #{TRACE} span #{SPAN}>$/, rbprobe("replay", file).stdout)
  ensure
    receiver&.close
  end

  test "stat has no single call whose span it could show" do
    result = rbprobe("stat", "-p", Process.pid.to_s, "--measure", "span", "Shop#price")
    assert_exit 2, result
    assert_equal "rbprobe: --measure=span shows in which span each call was; stat sums calls up: use trace\n", result.stderr
  end
end
