# Arming very many methods: what it takes of the process, and that each call is still shown as what it is.

require_relative "helper"

class ArmingTest < LiveTest
  # So many classes, each with methods of its own of one `def`, which is one instruction sequence.
  def start_with_classes(count)
    start("console").tap do |target|
      target.run("#{count}.times { |i| Object.const_set(%(Wide\#{i}), Class.new { def a; :a; end; def b(n); n; end }) }; nil")
    end
  end

  test "methods that share their code share a TracePoint, however many they are" do
    target = start_with_classes(2000)
    tracer = trace(target, "Wide*#b(n)")
    assert_match(/tracing 2,?000 methods/, tracer.stderr)
    target.run("GC.start; nil")
    assert_operator Integer(target.run("ObjectSpace.each_object(TracePoint).count")), :<, 20
    target.run("Wide7.new.b(7); Wide1999.new.a; Wide1999.new.b(3); Class.new { def b(n); end }.new.b(1); nil")
    assert_equal "Wide7#b(n=7) <time>\nWide1999#b(n=3) <time>\n", tracer.stop.tree
  end

  test "of methods that share their code only those are shown that were asked for, each session its own" do
    target = start_with_classes(3)
    target.run("class Wide1; alias c b; end; class Sub < Wide2; end; nil")
    tracers = [["Wide0#b"], ["Wide1#b", "Wide2#a"], ["Wide1#c", "--return"], ["Wide*#"]].map { |selectors| trace(target, *selectors) }
    target.run("[Wide0, Wide1, Wide2].each { |wide| wide.new.b(1); wide.new.a }; Wide1.new.c(2); Sub.new.b(3); nil")
    trees = tracers.map { |tracer| tracer.stop.tree }
    assert_equal "Wide0#b <time>\n", trees[0]
    assert_equal "Wide1#b <time>\nWide2#a <time>\n", trees[1]
    assert_equal "Wide1#c => 2 <time>\n", trees[2]
    assert_equal %w[Wide0#b Wide0#a Wide1#b Wide1#a Wide2#b Wide2#a Wide1#c Wide2#b], trees[3].lines.map { |line| line[/\S+/] }
  end

  test "sessions that share a TracePoint come and go in any order" do
    target = start_with_classes(4)
    first = trace(target, "Wide0#b")
    second = trace(target, "Wide1#b")
    target.run("Wide0.new.b(1); Wide1.new.b(1); nil")
    assert_equal "Wide0#b <time>\n", first.stop.tree
    third = trace(target, "Wide0#b", "Wide2#b")
    target.run("Wide0.new.b(1); Wide1.new.b(1); Wide2.new.b(1); nil")
    assert_equal "Wide1#b <time>\n" * 2, second.stop.tree
    target.run("Wide2.new.b(1); GC.start; GC.compact if GC.respond_to?(:compact); Wide2.new.b(2); nil")
    assert_equal "Wide0#b <time>\n#{"Wide2#b <time>\n" * 3}", third.stop.tree
    fourth = trace(target, "Wide3#b")
    target.run("Wide3.new.b(1); Wide2.new.b(1); nil")
    assert_equal "Wide3#b <time>\n", fourth.stop.tree
  end

  test "a method that gets its former code back is shown once for each call" do
    target = start_with_classes(2)
    target.run("$former = Wide0.instance_method(:b); nil")
    tracer = trace(target, "Wide0#b(n)")
    target.run("Wide0.new.b(1); nil")
    target.run("class Wide0; def b(n); n + 1; end; end; Wide0.new.b(2); nil")
    target.run("Wide0.define_method(:b, $former); Wide0.new.b(3); $former.bind_call(Wide0.new, 4); nil")
    assert_equal (1..4).map { |n| "Wide0#b(n=#{n}) <time>\n" }.join, tracer.stop.tree
  end
end
