# --stack: who called.

require_relative "helper"

class StackTest < LiveTest
  CODE = <<~'RUBY'
    class Called
      def inner(value)
        value
      end

      def middle
        inner(1)
      end

      def outer
        middle
        inner(2)
      end

      def each_of
        [1, 2].each do |value|
          inner(value)
        end
      end

      def fail_here
        raise ArgumentError, "no"
      end

      def failing
        fail_here
      rescue ArgumentError
        nil
      end

      define_method(:by_block) { |value| value }

      def calls_block
        by_block(1)
      end

      def replaces
        "abc".gsub("b", "c")
      end

      def descend(depth)
        depth.zero? ? inner(0) : descend(depth - 1)
      end

      def slow
        sleep 0.03
      end

      def sometimes(slowly)
        slowly ? slow : inner(3)
      end
    end
    $called = Called.new
  RUBY


  def start_called
    start("console").tap { |target| target.run("eval(#{CODE.inspect}, TOPLEVEL_BINDING, 'called.rb', 1)") }
  end

  # The calls, by method; a frame as "line label".
  def calls_of(code, *arguments)
    target = start_called
    tracer = trace(target, "--format", "json", *arguments)
    target.run(code)
    result = tracer.stop
    assert_exit 0, result
    result.events("call").group_by { |call| call["name"] }
  end

  # Of the application's file, "line method".
  def own_frames(call)
    call["stack"].select { |frame| frame["file"] == "called.rb" }.map { |frame| "#{frame["line"]} #{frame["label"]}" }
  end

  def frames_of(code, selector, *arguments)
    calls_of(code, "--stack", *arguments, selector).fetch(selector[/\w+\z/]).map { |call| own_frames(call) }
  end

  test "the callers of a call, innermost first" do
    assert_equal [["7 Called#middle", "11 Called#outer"], ["12 Called#outer"]], frames_of("$called.outer", "Called#inner")
    assert_equal [["11 Called#outer"]], frames_of("$called.outer", "Called#middle")
  end

  test "a block's call has the block's line, and that of the method around it" do
    stacks = frames_of("$called.each_of", "Called#inner")
    assert_equal 2, stacks.size
    stacks.each do |stack|
      assert_equal %w[17 16], stack.map { |frame| frame[/\d+/] }
      assert_match(/Called#each_of\z/, stack.first)
    end
  end

  test "a call that raises" do
    assert_equal [["26 Called#failing"]], frames_of("$called.failing", "Called#fail_here")
  end

  test "a method made by define_method" do
    assert_equal [["34 Called#calls_block"]], frames_of("$called.calls_block", "Called#by_block")
  end

  test "a method written in C, by engine patch and by engine hook" do
    %w[patch hook].each do |engine|
      assert_equal [["38 Called#replaces"]], frames_of("$called.replaces", "String#gsub", "--engine", engine, "--return")
    end
  end

  test "methods written in Ruby, by engine hook" do
    assert_equal [["7 Called#middle", "11 Called#outer"], ["12 Called#outer"]],
                 frames_of("$called.outer", "Called#inner", "--engine", "hook")
    assert_equal [["34 Called#calls_block"]], frames_of("$called.calls_block", "Called#by_block", "--engine", "hook")
    assert_equal [["26 Called#failing"]], frames_of("$called.failing", "Called#fail_here", "--engine", "hook")
  end

  # In a block, the method around it is among them. A variable that is not there is no number.
  test "a line, with and without values" do
    [[%w[called.rb:17], "$called.each_of", [["16 Called#each_of"]] * 2],
     [["called.rb:16(value, self)"], "$called.each_of", [[]]],
     [["called.rb:3(value)"], "$called.outer", [["7 Called#middle", "11 Called#outer"], ["12 Called#outer"]]]].each do |row|
      lines, code, stacks = row
      target = start_called
      tracer = trace(target, "--format", "json", "--stack", *lines)
      target.run(code)
      assert_equal stacks, tracer.stop.events("line").map { |line| own_frames(line) }
    end
  end

  test "a line in text, and as rbtrace prints it" do
    target = start_called
    tracer = trace(target, "--stack=1", "called.rb:3(value)", "Called#middle")
    target.run("$called.middle")
    assert_equal <<~TREE, tracer.stop.tree.gsub(/from \S+ in <main>/, "from MAIN").sub(/^   from .*\n\z/, "   from MAIN\n")
      Called#middle
         called.rb:3 value=1
            from called.rb:7 in Called#middle
      Called#middle <time>
         from MAIN
    TREE
    tracer = trace(target, "--stack=1", "--format", "rbtrace", "called.rb:3(value)")
    target.run("$called.middle")
    assert_match(/called.rb:3\(value=1\)$/, tracer.stop.stdout)
  end

  test "at most so many frames" do
    { ["--stack"] => 20, ["--stack=3"] => 3, ["--stack=128"] => 101 }.each do |arguments, count|
      call = calls_of("$called.descend(100)", *arguments, "Called#inner")["inner"].first
      frames = own_frames(call)
      assert_equal count, frames.size
      assert_equal ["42 Called#descend"], frames.uniq
    end
  end

  test "of calls that meet the conditions alone" do
    code = "$called.sometimes(false); $called.sometimes(true)"
    calls = calls_of(code, "--stack", "--slow", "20", "Called#slow", "Called#inner")
    assert_equal %w[slow], calls.keys
    assert_equal ["50 Called#sometimes"], own_frames(calls["slow"].first)
  end

  test "with results, arguments and measures" do
    calls = calls_of("$called.middle", "--stack", "--args", "--return", "--measure", "alloc,gc", "Called#inner")
    call = calls["inner"].first
    assert_equal [{ "value" => "1" }, "1"], call.values_at("values", "result")
    assert_kind_of Integer, call["objects"]
    assert_kind_of Integer, call["gc_ns"]
    assert_equal ["7 Called#middle"], own_frames(call)
  end

  test "in text they stand below the call" do
    target = start_called
    tracer = trace(target, "--stack=2", "Called#inner", "Called#middle")
    target.run("$called.outer")
    assert_equal <<~TEXT, tracer.stop.tree.lines.grep_v(/console/).join
      Called#middle
         Called#inner <time>
            from called.rb:7 in Called#middle
            from called.rb:11 in Called#outer
      Called#middle <time>
         from called.rb:11 in Called#outer
      Called#inner <time>
         from called.rb:12 in Called#outer
    TEXT
  end

  test "an exception has the stack of where it is raised" do
    target = start_called
    tracer = trace(target, "--stack", "--raise", "--format", "json", "Called#failing")
    target.run("$called.failing; Thread.new { Fiber.new { $called.failing }.resume }.join; nil")
    raised = tracer.stop.events("raise")
    assert_equal [["22 Called#fail_here", "26 Called#failing"]] * 2, raised.map { |event| own_frames(event) }
  end

  test "an exception without --stack has none, and in text the stack stands below it, at most so many frames" do
    target = start_called
    plain = trace(target, "--raise", "--format", "json")
    tracer = trace(target, "--stack=2", "--raise=ArgumentError", "Called#failing")
    target.run("$called.failing; nil")
    assert_equal [["ArgumentError", false]], plain.stop.events("raise").map { |event| [event["class"], event.key?("stack")] }
    assert_equal <<~TEXT, tracer.stop.tree.lines.grep_v(/console/).join
      Called#failing
         ! raised ArgumentError: no at called.rb:22
            from called.rb:22 in Called#fail_here
            from called.rb:26 in Called#failing
      Called#failing <time>
    TEXT
  end

  test "exceptions again and again, in threads, with collections meanwhile, each with its stack" do
    target = start_called
    tracer = trace(target, "--stack", "--raise=ArgumentError", "--overflow", "block", "--format", "json")
    target.run("4.times.map { Thread.new { 200.times { |i| $called.failing; GC.start if i % 50 == 0 } } }.each(&:join); nil")
    stacks = tracer.stop.events("raise").map { |event| own_frames(event) }
    assert_equal [["22 Called#fail_here", "26 Called#failing"]] * 800, stacks
  end

  MAKING = <<~'RUBY'
    class Order; end
    class Maker
      def build; Order.new; end
      def one; build; end
      def many; 3.times { build }; end
      def text; "a" + "b"; end
    end
    nil
  RUBY

  test "an object has the stack of where it is made, also the first one, before the end of the call that makes it" do
    target = start_called
    target.run(MAKING)
    tracer = trace(target, "--stack=2", "--allocations", "Order", "Maker#build", "Maker#one")
    target.run("Maker.new.one; nil")
    lines = tracer.stop.tree.lines.map { |line| line.gsub(/eval\S*|\(\S*\)|<\S*?:\d+(?=:)/, "made") }
    assert_equal ["Maker#one", "   Maker#build", "      + Order made at", "in Maker#build", "in Maker#one"],
                 lines.first(5).map { |line| line[/^ *\+ \w+ made at|(?<=from ).*/]&.sub(/.* in /, "in ") || line.chomp }
    assert_match(/^   Maker#build <time>$/, lines[5])
  end

  test "objects again and again, in threads, with collections meanwhile, each with its stack" do
    target = start_called
    target.run(MAKING)
    tracer = trace(target, "--stack", "--allocations", "Order", "--format", "json")
    target.run(<<~'RUBY')
      maker = Maker.new
      maker.one
      maker.many
      work = proc { |i| maker.one; maker.many if i % 10 == 0; Thread.pass; GC.start if i % 50 == 0 }
      4.times.map { Thread.new { 200.times(&work) } }.each(&:join)
      nil
    RUBY
    result = tracer.stop
    shown = result.events("allocation")
    made, lost = result.stderr[/(\d+) objects of Order were made/, 1].to_i, result.stderr[/(\d+) lost/, 1].to_i
    assert_equal [4 + 4 * (200 + 60), made], [made, shown.size + lost]
    assert_empty(shown.reject { |event| event["stack"].first["label"] == "Maker#build" })
    callers = shown.map { |event| event["stack"][1]["label"] }.tally
    assert_includes callers, "Maker#one"
    assert_operator callers.keys.grep(/Maker#many/).size, :>=, 1
  end

  test "names that are made for a stack are no objects of the application's" do
    target = start_called
    target.run(MAKING)
    tracer = trace(target, "--stack", "--allocations", "String", "Maker#text")
    target.run("$maker = Maker.new; 2.times { $maker.text }; nil")
    first, second = tracer.stop.tree.split(/^Maker#text <time>$/).map { |part| part.scan(/^ +\+ String made/).size }
    assert_operator second, :>, 0
    assert_equal second, first
  end

  test "--stack of nothing that has one is refused" do
    assert_refused 2, /--stack does not apply to --gc and --gvl/, "trace", "-p", "1", "--gc", "--stack"
  end

  test "what is defined, collected and moved meanwhile keeps its frames" do
    calls = calls_of(<<~'RUBY', "--stack=4", "Called#inner")["inner"]
      60.times do |i|
        eval "def $called.made; inner(#{i}); end", nil, "made#{i % 3}.rb", i + 1
        $called.made
        GC.start if i % 10 == 0
        GC.compact if i % 20 == 0 && GC.respond_to?(:compact)
      end
    RUBY
    places = calls.map { |call| call["stack"].first.values_at("file", "line") }
    assert_equal (0...60).map { |i| ["made#{i % 3}.rb", i + 1] }, places
  end

  test "what is no number of frames is refused" do
    %w[0 129 x].each { |text| assert_refused 2, /--stack takes a whole number/, "trace", "-p", "1", "--stack=#{text}", "A#b" }
  end
end
