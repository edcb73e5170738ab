# Local variables as they are when a call ends: --locals with methods. Those at a line: lines_test.rb.

require_relative "helper"

class LocalsTest < LiveTest
  PROGRAM = <<~'RUBY'
    class Order
      def total(items, tax = 2, *rest, unit: "EUR", **more, &block)
        sum = 0
        items.each do |item|
          inner = item
          sum += inner
        end
        never = nil if sum > 1_000
        items = [sum * tax]
        items.first
      end

      def fails(count)
        doubled = count * 2
        raise ArgumentError, "no"
      ensure
        after = true
      end

      def rescued(count)
        raise ArgumentError, "no" if count > 1
      rescue ArgumentError => e
        count = 0
      end

      def down(level)
        before = level
        down(level - 1) if level > 0
        level = "was #{level}"
        nil
      end

      def early(list)
        list.each { |item| found = item; list = nil; return item }
        missed = true
      end

      def stopped
        seen = 1
        yield
        seen = 2
      end

      def thrown
        gone = 1
        throw :done
      end

      def slept
        begun = 1
        sleep
      end

      def empty
      end

      def pair(first, (second, *others))
        second
      end

      define_method(:block) do |first, second = (first + 1), *rest|
        sum = first + second
        first = "changed"
        sum
      end

      define_method(:block_next) { |first| next first if (last = first); 3 }

      define_method(:block_fails) do |first|
        last = first
        raise "no"
      end

      define_method(:block_down) do |level|
        block_down(level - 1) if level > 0
        level = -level
      end

      def around(n)
        n += 1
        block(n)
      end
    end
    nil
  RUBY

  def prepared
    start("console").tap { |target| target.run("eval(#{PROGRAM.dump}, TOPLEVEL_BINDING, '/srv/order.rb', 1)") }
  end

  # What tracing these selectors shows while the target runs the code.
  def traced(code, *arguments, target: prepared)
    tracer = trace(target, "--locals", *arguments)
    target.run("o = Order.new\n#{code}\nnil")
    tracer.stop.tap { |result| assert_exit 0, result }
  end

  def tree_of(code, *arguments, **options)
    traced(code, *arguments, **options).tree
  end

  def locals_of(result)
    result.events("call").map { |call| call["locals"] }
  end

  test "arguments of all kinds and variables, as they are at the end; those of blocks are not among them" do
    assert_equal <<~TREE, tree_of("o.total([1, 2], 3, 4, unit: 'USD', note: 1) { 1 }", "--return", "Order#total")
      Order#total items=[9] tax=3 rest=[4] unit="USD" more={:note=>1} block=#<Proc console:2> sum=3 never=nil => 9 <time>
    TREE
    assert_equal <<~TREE, tree_of("o.total([1])", "Order#total")
      Order#total items=[2] tax=2 rest=[] unit="EUR" more={} block=nil sum=1 never=nil <time>
    TREE
    assert_equal "Order#pair first=1 second=2 others=[3] <time>\n", tree_of("o.pair(1, [2, 3])", "Order#pair")
  end

  test "beside arguments and expressions, which are of the beginning" do
    assert_equal <<~TREE, tree_of("o.rescued(2); o.pair(1, [2])", "--args", "Order#rescued(count.class)", "Order#pair")
      Order#rescued(count.class=Integer, count=2) count=0 e=#<ArgumentError: no> <time>
      Order#pair(first=1, second=2, others=[]) first=1 second=2 others=[] <time>
    TREE
  end

  test "when an exception leaves the call, or a rescue clause or a return in a block ends it" do
    selectors = %w[Order#fails Order#rescued Order#early]
    assert_equal <<~TREE, tree_of("(o.fails(2) rescue 0); o.rescued(2); o.early([7, 8])", *selectors)
      Order#fails count=2 doubled=4 after=true ! ArgumentError: no <time>
      Order#rescued count=0 e=#<ArgumentError: no> <time>
      Order#early list=nil missed=nil <time>
    TREE
  end

  test "a break gives the call a value; a throw or a kill leaves none, and no variables" do
    target = prepared
    code = "o.stopped { break 3 }; catch(:done) { o.thrown }; catch(:done) { o.stopped { throw :done } }; o.empty\n" \
           "t = Thread.new { Thread.current.report_on_exception = false; o.slept }; Thread.pass until t.stop?; t.kill.join"
    assert_equal <<~TREE, tree_of(code, "--return", "Order#", target: target).sub(/^\[thread.*\n/, "")
      Order#stopped seen=1 => 3 <time>
      Order#thrown ~ thrown <time>
      Order#stopped ~ thrown <time>
      Order#empty => nil <time>
      Order#slept ~ killed <time>
    TREE
  end

  test "each level of a recursion has its own" do
    expected = <<~TREE
      Order#down
         Order#down
            Order#down level="was 0" before=0 <time>
         Order#down level="was 1" before=1 <time>
      Order#down level="was 2" before=2 <time>
    TREE
    assert_equal expected, tree_of("o.down(2)", "Order#down")
  end

  test "methods of define_method have those of their blocks, not of the caller" do
    code = "o.around(1); o.block_next(4); (o.block_fails(5) rescue 0); o.block_down(2)"
    selectors = %w[Order#around Order#block Order#block_next Order#block_fails Order#block_down]
    expected = <<~TREE
      Order#around
         Order#block first="changed" second=3 rest=[] sum=5 => 5 <time>
      Order#around n=2 => 5 <time>
      Order#block_next first=4 last=4 => 4 <time>
      Order#block_fails first=5 last=5 ! RuntimeError: no <time>
      Order#block_down
         Order#block_down
            Order#block_down level=0 => 0 <time>
         Order#block_down level=-1 => -1 <time>
      Order#block_down level=-2 => -2 <time>
    TREE
    assert_equal expected, tree_of(code, "--return", *selectors)
  end

  test "a condition at the end of such a method sees its own variables" do
    target = prepared
    code = "first = 5; o.around(1); o.around(2)"
    assert_equal <<~TREE, tree_of(code, "--if", "result == 5 && first == 'changed'", "Order#block", target: target)
      Order#block first="changed" second=3 rest=[] sum=5 <time>
    TREE
    result = traced(code, "--if", "result == 5 && first == 2", "Order#block", target: target)
    assert_equal "", result.tree
    assert_match(/0 calls, 0 lost, 2 others do not meet the conditions/, result.stderr)
  end

  test "in JSON they are an object of their own" do
    arguments = %w[--args --return --measure alloc --format json Order#down Order#fails Order#empty]
    down, fails, empty = traced("o.down(0); (o.fails(2) rescue 0); o.empty", *arguments).events("call")
    assert_equal({ "level" => "0" }, down["values"])
    assert_equal({ "level" => '"was 0"', "before" => "0" }, down["locals"])
    assert_equal "nil", down["result"]
    assert_equal({ "count" => "2", "doubled" => "4", "after" => "true" }, fails["locals"])
    assert_equal "ArgumentError", fails["exception"]["class"]
    refute empty.key?("locals")
    assert_kind_of Integer, down["objects"]
    assert_kind_of Integer, fails["objects"]
    assert_kind_of Integer, empty["objects"]
  end

  test "only calls that are shown have theirs made: --raised, --every, --depth" do
    target = prepared
    code = "o.down(3); (o.fails(1) rescue 0); 3.times { |i| o.rescued(i) }"
    result = traced(code, "--raised", "Order#fails", "Order#down", target: target)
    assert_equal "Order#fails count=1 doubled=2 after=true ! ArgumentError: no <time>\n", result.tree
    assert_match(/1 call, 0 lost, 4 others do not meet the conditions/, result.stderr)
    assert_equal <<~TREE, tree_of(code, "--every", "2", "Order#rescued", target: target)
      Order#rescued count=0 e=nil <time>
      Order#rescued count=0 e=#<ArgumentError: no> <time>
    TREE
    assert_equal <<~TREE, tree_of(code, "--depth", "2", "Order#down", target: target)
      Order#down
         Order#down level="was 2" before=2 <time>
      Order#down level="was 3" before=3 <time>
    TREE
  end

  test "a slow call, and with --tree what happened in it" do
    target = prepared
    target.run("class Order; def slow(n); n += 1; down(0); sleep 0.2; n = [n]; end; end; nil")
    arguments = %w[--format json --slow 100 Order#slow Order#down]
    result = traced("o.down(0); o.slow(1)", *arguments, target: target)
    assert_equal [{ "n" => "[2]" }], locals_of(result)
    result = traced("o.down(0); o.slow(1)", "--tree", *arguments, target: target)
    assert_equal [{ "level" => '"was 0"', "before" => "0" }, { "n" => "[2]" }], locals_of(result)
    assert_equal [1, 0], result.events("call").map { |call| call["depth"] }
    assert_equal [2, 1], result.events("summary").first.values_at("calls", "left_out")
  end

  test "methods written in C have none, and are shown without; it is said where no method can have any" do
    target = prepared
    result = traced("'a'.upcase; o.down(0); 'a'.frozen?", "String#upcase", "Order#down", target: target)
    assert_equal "String#upcase <time>\nOrder#down level=\"was 0\" before=0 <time>\n", result.tree
    refute_match(/local variables/, result.stderr)
    result = traced("2.times { 'a'.upcase }", "String#upcase", target: target)
    assert_equal "String#upcase <time>\n" * 2, result.tree
    assert_equal 1, result.stderr.scan("no method that is traced is written in Ruby: there are no local variables to show").size
  end

  test "lines have theirs, too" do
    line = PROGRAM.lines.index { |text| text.include?("inner = item") } + 1
    assert_equal <<~TREE, tree_of("o.total([1])", "--return", "Order#total", "order.rb:#{line}")
      Order#total
         order.rb:#{line} items=[1] tax=2 rest=[] unit="EUR" more={} block=nil sum=0 never=nil item=1 inner=nil
      Order#total items=[2] tax=2 rest=[] unit="EUR" more={} block=nil sum=1 never=nil => 2 <time>
    TREE
  end

  test "values are rendered without calling the application; --inspect calls it" do
    target = prepared
    target.run(<<~RUBY)
      class Loud
        def inspect
          $asked = ($asked || 0) + 1
          "loud"
        end
      end
      class Order
        def holds
          loud = Loud.new
          list = [loud]
          nil
        end
      end
      nil
    RUBY
    assert_equal "Order#holds loud=#<Loud> list=[#<Loud>] <time>\n", tree_of("o.holds", "Order#holds", target: target)
    assert_equal "nil", target.run("$asked")
    assert_equal "Order#holds loud=loud list=[loud] <time>\n", tree_of("o.holds", "--inspect", "Order#holds", target: target)
  end

  test "two sessions at once, of which one wants them, and threads" do
    target = prepared
    without = trace(target, "--return", "Order#down", "Order#block")
    code = "4.times.map { |i| Thread.new { 50.times { |k| o.down(1); o.block(1000 * i + k) } } }.each(&:join)"
    calls = traced(code, "--format", "json", "Order#down", "Order#block", target: target).events("call")
    assert_equal 600, calls.size
    blocks = calls.select { |call| call["name"] == "block" }.map { |call| call["locals"] }
    numbers = blocks.map { |locals| locals["second"].to_i - 1 }.sort
    assert_equal 4.times.flat_map { |i| 50.times.map { |k| 1000 * i + k } }, numbers
    assert(blocks.all? { |locals| locals["sum"].to_i == 2 * locals["second"].to_i - 1 && locals["first"] == '"changed"' })
    downs = calls.select { |call| call["name"] == "down" }
    assert_equal({ ['"was 0"', "0", 1] => 200, ['"was 1"', "1", 0] => 200 },
                 downs.map { |call| [*call["locals"].values_at("level", "before"), call["depth"]] }.tally)
    refute_match(/before=|sum=/, without.stop.tree)
  end

  test "collection and compaction while calls are open take nothing away" do
    target = prepared
    compact = target.run("GC.respond_to?(:compact)") == "true" ? "GC.compact" : "GC.start"
    target.run(<<~RUBY)
      class Order
        def swept(n)
          text = "text of " + n.to_s
          #{compact}
          GC.start
          list = [text, n]
          nil
        end
        define_method(:block_swept) do |n|
          text = "text of " + n.to_s
          #{compact}
          n > 0 ? block_swept(n - 1) : GC.start
          list = [text, n]
          nil
        end
      end
      nil
    RUBY
    code = "GC.stress = true; o.swept(1); o.down(0); o.block_swept(2); GC.stress = false; o.swept(2)"
    result = traced(code, "--format", "json", "Order#swept", "Order#block_swept", "Order#down", target: target)
    of = lambda do |n, text = "\"text of #{n}\""|
      { "n" => n.to_s, "text" => text, "list" => "[#{text}, #{n}]" }
    end
    assert_equal [of[1], { "level" => '"was 0"', "before" => "0" }, of[0], of[1], of[2], of[2]], locals_of(result)
  end

  test "a method that is defined later has its own names" do
    target = prepared
    tracer = trace(target, "--locals", "Order#down", "Order#later")
    target.run("class Order; def later(a); b = a; end; def down(other); mine = other; end; end; Order.new.later(1); " \
               "Order.new.down(2); nil")
    assert_equal "Order#later a=1 b=1 <time>\nOrder#down other=2 mine=2 <time>\n", tracer.stop.tree
  end

  test "where there is nothing to have variables, and where calls are counted, the option is refused" do
    assert_refused 2, /--locals shows the variables of methods and lines; give selectors such as/, "trace", "-p", "1", "--locals",
                   "--gc"
    assert_refused 2, /stat has no option --locals/, "stat", "-p", "1", "--locals", "Order#total"
  end
end
