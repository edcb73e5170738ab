# Expressions of selectors that are about the end of a call.

require_relative "helper"

class EndExpressionsTest < LiveTest
  CODE = <<~RUBY.freeze
    class Order
      def initialize; @total = 5; end
      def add(count, result = 7); @total += count; end
      def take(count); raise ArgumentError, "no" if count > 100; rest = @total -= count; [rest, count]; end
      def leave; throw :closed, 1; end
      def result; :of_a_method; end
      define_method(:times) { |count| "x" * count }
      def loops; 3.times { |i| return i if i == 1 }; end
      def nested(depth); depth.zero? ? [] : nested(depth - 1) << depth; end
    end
    $order = Order.new
  RUBY

  def start_with_orders
    start("shop").tap { |target| target.run("eval(#{CODE.dump}); nil") }
  end

  # What is shown, without times.
  def trace_of(code, *arguments)
    target = start_with_orders
    tracer = trace(target, "--no-duration", *arguments)
    target.run(code)
    tracer.stop.stdout
  end

  test "result, error and elapsed are known, and what the call began with" do
    shown = trace_of("$order.take(2); ($order.take(1000) rescue nil); nil",
                     "Order#take(count, result && result.size, why: error&.message, elapsed < 60, elapsed.class)")
    assert_equal ['Order#take(count=2) result && result.size=2 why=nil elapsed < 60=true elapsed.class=Float',
                  'Order#take(count=1000) result && result.size=nil why="no" elapsed < 60=true elapsed.class=Float ' \
                  '! ArgumentError: no'], shown.lines.map(&:chomp)
  end

  test "a parameter of such a name is itself, and so is what is called so elsewhere" do
    shown = trace_of("$order.add(1); nil", "Order#add(result, later: error.inspect + result.to_s, self.result)")
    assert_equal "Order#add(result=7, self.result=:of_a_method) later=\"nil7\"\n", shown
  end

  test "beside results, local variables and arguments, each once" do
    shown = trace_of("$order.take(2); nil", "--return", "--args", "--locals", "Order#take(result.first)", "Order#*(result.first)")
    assert_equal "Order#take(count=2) result.first=3 count=2 rest=3 => [3, 2]\n", shown
  end

  test "methods that a block or C code is, and methods that end in another way" do
    shown = trace_of("$order.times(3); $order.loops; catch(:closed) { $order.leave }; 'abc'.upcase; $order.nested(2); nil",
                     "Order#times(count, result.size)", "Order#loops(result)", "Order#leave(result)", "String#upcase(result)",
                     "Order#nested(result.size)")
    lines = shown.lines.map(&:strip)
    assert_includes lines, "Order#times(count=3) result.size=3"
    assert_includes lines, "Order#loops result=1"
    # A throw has neither.
    assert_includes lines.grep(/leave/).join, "Order#leave"
    refute_includes lines.grep(/leave/).join, "result="
    assert_includes lines, 'String#upcase result="ABC"'
    assert_equal %w[0 1 2], shown.scan(/nested result\.size=(\d)/).flatten
  end

  test "what raises is its value, and what does not compile is refused" do
    assert_match(/^Order#take result\.no=#<NoMethodError: .*\bno\b.*>$/,
                 trace_of("$order.take(2); nil", "Order#take(result.no)"))
    target = start_with_orders
    result = rbprobe("trace", "-p", target.pid.to_s, "Order#take(result +)")
    assert_exit 1, result
    assert_match(/an expression does not compile, "result \+"/, result.stderr)
  end

  test "with conditions, in trees and in JSON" do
    code = "3.times { |i| $order.take(i) }; nil"
    assert_equal "Order#take result.last=2\n", trace_of(code, "Order#take(result.last)", "--if", "result.last > 1")
    assert_equal 3, trace_of(code, "--tree", "--slow", "0.00001", "Order#take(result.last)").scan("result.last=").size
    events = trace_of(code, "--format", "json", "Order#take(result.last)").lines.map { |line| JSON.parse(line) }
    assert_equal %w[0 1 2], events.filter_map { |event| event["locals"] && event["locals"]["result.last"] }
  end

  test "as rbtrace shows calls, they are about the start" do
    shown = trace_of("$order.take(2); nil", "--format", "rbtrace", "Order#take(result)")
    assert_match(/Order#take\(result=:of_a_method\)/, shown)
  end

  test "the tree of what the client leaves behind is the one from before" do
    target = start_with_orders
    3.times do
      tracer = trace(target, "Order#take(result)", "Order#times(result)")
      target.run("$order.take(1); $order.times(2); GC.start; nil")
      assert_match(/result=/, tracer.stop.stdout)
    end
    assert_equal "[1, 1]", target.run("GC.start; $order.instance_variable_set(:@total, 2); $order.take(1)")
  end
end
