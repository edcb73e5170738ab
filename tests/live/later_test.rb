# What becomes of a trace while its process goes on to change: methods are defined anew, classes get methods and names after the methods are there.

require_relative "helper"

class LaterTest < LiveTest
  # What tracing these selectors prints while the target runs the pieces of code, one after the other, each as a program of its own.
  def tree_of(*pieces, selectors:, options: [])
    target = start("shop")
    tracer = trace(target, *options, *Array(selectors))
    pieces.each { |piece| target.run("#{piece}\nnil") }
    tracer.stop.tree
  end

  # --- Methods that are defined anew

  test "arguments and expressions are those of the new definition" do
    assert_equal <<~TREE, tree_of("class Till; def f(a, b); a + b; end; end", "Till.new.f(1, 2)", "class Till; def f(x); x; end; end", "Till.new.f(3)",
      Till#f(a=1, b=2) => 3 <time>
      Till#f(x=3) => 3 <time>
    TREE
                                  selectors: "Till#f", options: %w[--args --return])
  end

  test "an expression that names what only one of the definitions has" do
    assert_equal <<~TREE, tree_of("class Till; def f(a); a; end; end; Till.new.f(1)", "class Till; def f(b, a = 5); b; end; end; Till.new.f(2)", selectors: "Till#f(a, a + 1)")
      Till#f(a=1, a + 1=2) <time>
      Till#f(a=5, a + 1=6) <time>
    TREE
  end

  test "a former definition that is still called has its own arguments" do
    tree = tree_of("class Till; def f(a, b); a + b; end; end; $till = Till.new; $former = $till.method(:f)", "class Till; def f(x); x; end; end",
                   "$till.f(1); $former.call(2, 3); $till.f(4)", selectors: "Till#f", options: %w[--args])
    assert_equal "Till#f(x=1) <time>\nTill#f(a=2, b=3) <time>\nTill#f(x=4) <time>\n", tree
  end

  test "a definition that is made again from the same code is one" do
    tree = tree_of("$till = Class.new; 3.times { class Till; def f(a); a; end; end }", "3.times { class Till; def f(a); a; end; end }; Till.new.f(1)",
                   "class Till; define_method(:f, instance_method(:f)); end; Till.new.f(2)", selectors: "Till#f", options: %w[--args])
    assert_equal "Till#f(a=1) <time>\nTill#f(a=2) <time>\n", tree
  end

  test "a method that is defined anew while it runs" do
    tree = tree_of("class Till; def f(a); self.class.class_eval('def f(b, c); b; end'); f(2, 3); end; end", "Till.new.f(1); Till.new.f(4, 5)",
                   selectors: "Till#f", options: %w[--args --return])
    assert_equal <<~TREE, tree
      Till#f(a=1)
         Till#f(b=2, c=3) => 2 <time>
      Till#f => 2 <time>
      Till#f(b=4, c=5) => 4 <time>
    TREE
  end

  %w[auto hook].each do |engine|
    test "defined anew, from Ruby to C and back, engine #{engine}" do
      tree = tree_of("class Till; def f(a); a; end; end; Till.new.f([1])", "class Till; define_method(:f, Kernel.instance_method(:instance_of?)); end; Till.new.f(Object)",
                     "class Till; def f(b); b; end; end; Till.new.f([2])", selectors: "Till#f", options: ["--engine", engine])
      assert_equal "Till#f <time>\n" * 3, tree
    end
  end

  test "a method is defined anew a thousand times" do
    target = start("shop")
    tracer = trace(target, "Shop#price", "--args")
    target.run("1000.times { |i| Shop.class_eval(%(def price(p\#{i}); p\#{i}; end)); $shop.price(i) }; nil")
    lines = tracer.stop.stdout.lines
    assert_equal((0...1000).map { |i| "Shop#price(p#{i}=#{i})" }, lines.map { |line| line[/\A[^ ]*/] })
  end

  # --- Selectors that match nothing

  test "a selector that never matched is named at the end, one that matched late is not" do
    target = start("shop")
    tracer = trace(target, "Shop#price", "Shop#nothing(self)", "Late#come", "No*.thing", "--format", "json")
    target.run("$shop.price(:a); class Late; def come; end; end; Late.new.come; nil")
    result = tracer.stop
    assert_equal ["Shop#nothing(self)", "No*.thing"], result.events("unmatched").map { |object| object["selector"] }
    assert_equal([target.pid], result.events("unmatched").map { |object| object["pid"] }.uniq)
    assert_equal ["Shop#nothing(self)", "No*.thing"], result.stderr.scan(/^rbprobe: process #{target.pid}: (.*) never matched a method$/).flatten
  end

  test "of several selectors that name one method, all have matched" do
    target = start("shop")
    tracer = trace(target, "Shop#price", "price", "Sh*#pri*", "Late#come", "L*#come", "come")
    target.run("class Late; def come; end; end; Late.new.come; nil")
    refute_match(/never matched/, tracer.stop.stderr)
  end

  test "a selector that never matched in a process that exits, or is killed" do
    ["exit!(0)", "Process.kill(:KILL, $$)", "exit"].each do |ending|
      target = start("shop")
      tracer = trace(target, "Shop#price", "Shop#nothing", "-q")
      louder = trace(target, "Shop#nothing", "Shop#price")
      target.run_in_background(ending)
      result = louder.wait
      assert_equal ["Shop#nothing"], result.stderr.scan(/: (\S*) never matched/).flatten, ending
      refute_match(/never matched/, tracer.wait.stderr)
      abandon(target)
    end
  end
end
