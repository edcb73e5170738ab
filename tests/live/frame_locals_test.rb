# Parameters are read from the frame. What a Binding says of them is the same: `(name)` is an expression, which is given its
# parameters through a Binding.

require_relative "helper"

class FrameLocalsTest < LiveTest
  METHODS = <<~'RUBY'
    class Kinds
      def plain(a, b); [a, b]; end
      def self.singleton(a, b); [a, b]; end
      def optional(a, b = 2, c = [b], *d); nil; end
      def rest(a, *b, c); nil; end
      def keywords(a, b:, c: 3, d: [c], **e); nil; end
      def destructured(a, (b, (c, *d)), *e); nil; end
      def block(a, &b); nil; end
      def block_used(a, b = b_of { 1 }, &c); c; end
      def b_of; yield; end
      def escaped(a, b = -> { a }, c = [a], d: binding)
        a = :changed
        [b, c, d]
      end
      def many(a, b)
        c = d = e = f = g = h = i = j = k = l = m = n = a
        [1].each { |o| p = q = o }
        c
      end
      def deep(a, b)
        a.zero? ? b : deep(a - 1, b + [a])
      end
      def shadowed(a, _b, _b2, c = a)
        [1].map { |a| a }
      end
      define_method(:by_block) { |a, b = 7, *c, d: 8, **e| [a, b, c, d, e] }
      outer = Object.new
      define_method(:by_closure) { |a, b| [outer, a, b] }
      define_method(:by_method, instance_method(:plain))
      alias_method :aliased, :plain
      def in_fiber(a, b); Fiber.new { plain(a, b) }.resume; end
    end
    class Forwards
      eval "def forward(a, ...) = take(...)" if RUBY_VERSION >= "3.0"
      eval "def forward(a); end" if RUBY_VERSION < "3.0"
      def take(*a, **b); nil; end
    end
    $kinds = Kinds.new
    $values = [1, nil, true, -5, 2**70, 1.5, 1e300, :sym, "text", "\u00e9\x00\"", [1, [2]], { a: 1 }, $kinds, Kinds,
               "x" * 300, 3r]
  RUBY

  CALLS = <<~'RUBY'
    $values.each_cons(2) { |a, b| $kinds.plain(a, b); Kinds.singleton(b, a) }
    $kinds.optional(1); $kinds.optional(1, 3); $kinds.optional(1, 3, 4, 5, 6)
    $kinds.rest(1, 2); $kinds.rest(1, 2, 3, 4)
    $kinds.keywords(1, b: 2); $kinds.keywords(1, b: 2, c: 4, d: 5, e: 6, "f": 7)
    $kinds.destructured(1, [2, [3, 4, 5]], 6); $kinds.destructured(1, 2)
    $kinds.block(1); $kinds.block(1) { 2 }; $kinds.block(1, &:to_s); $kinds.block_used(1) { 3 }; $kinds.block_used(1)
    $kinds.escaped("e"); $kinds.escaped("e", 1, 2, d: 3)
    $kinds.many([1], "two"); $kinds.deep(20, []); $kinds.shadowed(1, 2, 3); $kinds.shadowed(1, 2, 3, 4)
    $kinds.by_block(1); $kinds.by_block(1, 2, 3, d: 4, e: 5); $kinds.by_closure(1, "b"); $kinds.by_method(1, 2)
    $kinds.aliased(3, 4); $kinds.in_fiber(5, 6); Thread.new { $kinds.plain(7, 8) }.join
    Forwards.new.forward(1); Forwards.new.forward("f") if RUBY_VERSION < "3.0"
    Forwards.new.forward("f", 2, [3], g: 4) if RUBY_VERSION >= "3.0"
    5.times { GC.start; GC.respond_to?(:compact) && GC.compact; $kinds.plain("moved", [1]) }
  RUBY

  PARAMETERS = {
    "Kinds#plain" => %w[a b], "Kinds.singleton" => %w[a b], "Kinds#optional" => %w[a b c d], "Kinds#rest" => %w[a b c],
    "Kinds#keywords" => %w[a b c d e], "Kinds#destructured" => %w[a b c d e], "Kinds#block" => %w[a b],
    "Kinds#block_used" => %w[a b c], "Kinds#escaped" => %w[a b c d], "Kinds#many" => %w[a b], "Kinds#deep" => %w[a b],
    "Kinds#shadowed" => %w[a _b _b2 c], "Kinds#by_block" => %w[a c e], "Kinds#by_closure" => %w[a b],
    "Kinds#by_method" => %w[a b], "Kinds#aliased" => %w[a b], "Kinds#in_fiber" => %w[a b], "Forwards#forward" => %w[a]
  }.freeze

  def values_of(*arguments)
    target = start("console")
    target.run(METHODS)
    selectors = PARAMETERS.map { |method, names| "#{method}(#{names.map { |name| "#{name}, (#{name})" }.join(", ")})" }
    tracer = trace(target, "--format", "json", *arguments, *selectors)
    target.run(CALLS)
    result = tracer.stop
    assert_exit 0, result
    result.events("call")
  end

  def assert_same_both_ways(calls)
    assert_equal PARAMETERS.keys.sort, calls.map { |call| call["method"] }.uniq.sort
    calls.each do |call|
      names = PARAMETERS.fetch(call["method"])
      assert_equal names, call["values"].keys.reject { |key| key.start_with?("(") }, call["method"]
      names.each { |name| assert_equal call["values"]["(#{name})"], call["values"][name], "#{call["method"]} #{name}" }
    end
  end

  test "every kind of parameter is what a Binding says that it is" do
    calls = values_of
    assert_same_both_ways(calls)
    assert_equal ["1", "3", "[3]", "[]"],
                 calls.select { |call| call["name"] == "optional" }[1]["values"].values_at("a", "b", "c", "d")
    assert_equal %w["moved" [1]], calls.last["values"].values_at("a", "b")
  end

  test "with engine hook, too" do
    assert_same_both_ways(values_of("--engine", "hook"))
  end

  test "with instance variables, and by inspect" do
    assert_same_both_ways(values_of("--ivars"))
    assert_same_both_ways(values_of("--inspect"))
  end

  test "the place of parameters is found in this Ruby" do
    target = start("console")
    target.run(METHODS)
    trace(target, "--args", "Kinds#plain").stop
    result = rbprobe("selftest", "-p", target.pid.to_s, env: { "RBPROBE_DEBUG" => "request" })
    assert_match(/layout: environment\.locals: word -3 /, result.stderr)
  end
end
