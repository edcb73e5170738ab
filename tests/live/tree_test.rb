# The text output: one tree a thread, every call with its end.

require_relative "helper"

class TreeTest < LiveTest
  # What tracing these selectors prints while the target runs the code.
  def tree_of(code, *selectors)
    result_of(code, *selectors).tree
  end

  def result_of(code, *arguments, app: "shop")
    target = start(app)
    tracer = trace(target, *arguments)
    target.run(code)
    tracer.stop.tap { |result| assert_exit 0, result }
  end

  test "a call without traced calls inside is one line" do
    assert_equal "Shop#price <time>\n", tree_of("$shop.price(:tea)", "Shop#price")
  end

  test "a nested call stands under its caller" do
    assert_equal <<~TREE, tree_of("$shop.sell_all([:tea, :cup])", "Shop#")
      Shop#sell_all
         Shop#sell
            Shop#price <time>
         Shop#sell <time>
         Shop#sell
            Shop#price <time>
         Shop#sell <time>
      Shop#sell_all <time>
    TREE
  end

  test "callers that are not traced leave no gap" do
    assert_equal <<~TREE, tree_of("$shop.sell_all([:tea, :cup])", "Shop#sell_all", "Shop#price")
      Shop#sell_all
         Shop#price <time>
         Shop#price <time>
      Shop#sell_all <time>
    TREE
  end

  test "recursion goes deeper" do
    assert_equal <<~TREE, tree_of("$shop.countdown(2)", "Shop#countdown")
      Shop#countdown
         Shop#countdown
            Shop#countdown <time>
         Shop#countdown <time>
      Shop#countdown <time>
    TREE
  end

  test "deep recursion has as many ends as starts" do
    result = result_of("$shop.countdown(2000)", "--format", "json", "Shop#countdown")
    calls = result.events("call")
    assert_equal 2001, calls.size
    assert_equal (0..2000).to_a, calls.map { |call| call["depth"] }.sort
    assert_equal ["returned"], calls.map { |call| call["ended"] }.uniq
  end

  test "an exception ends every call that it leaves" do
    assert_equal <<~TREE, tree_of("begin; $shop.let_through(:tea); rescue Shop::SoldOut; end", "Shop#")
      Shop#let_through
         Shop#refuse ! Shop::SoldOut: no tea <time>
      Shop#let_through ! Shop::SoldOut: no tea <time>
    TREE
  end

  test "a call that rescues returns" do
    assert_equal <<~TREE, tree_of("$shop.try(:tea)", "Shop#")
      Shop#try
         Shop#refuse ! Shop::SoldOut: no tea <time>
      Shop#try <time>
    TREE
  end

  test "throw ends every call that it goes through" do
    assert_equal <<~TREE, tree_of("catch(:closed) { $shop.give_up_inside }", "Shop#")
      Shop#give_up_inside
         Shop#give_up ~ thrown <time>
      Shop#give_up_inside ~ thrown <time>
    TREE
  end

  test "break out of a block returns from the method that yielded" do
    assert_equal <<~TREE, tree_of("$shop.each_item { break }; $shop.price(:tea)", "Shop#")
      Shop#each_item <time>
      Shop#price <time>
    TREE
  end

  test "break through an inner method throws there and returns outside" do
    assert_equal <<~TREE, tree_of("$shop.each_twice { break }; $shop.price(:tea)", "Shop#")
      Shop#each_twice
         Shop#each_item ~ thrown <time>
      Shop#each_twice <time>
      Shop#price <time>
    TREE
  end

  test "return in a block ends the method that yielded and returns from the one around the block" do
    assert_equal <<~TREE, tree_of("$shop.first_item", "Shop#")
      Shop#first_item
         Shop#each_item ~ thrown <time>
      Shop#first_item <time>
    TREE
  end

  test "calls of a thread that is killed end as killed" do
    tree = tree_of("t = Thread.new { $shop.wait }; Thread.pass until t.stop?; t.kill; t.join", "Shop#wait")
    assert_equal "Shop#wait ~ killed <time>\n", tree
  end

  test "a call that is under way when arming is not shown and leaves no end" do
    target = start("shop")
    target.run("$t = Thread.new { $shop.wait }; Thread.pass until $t.stop?")
    tracer = trace(target, "Shop#")
    target.run("$t.kill; $t.join; $shop.price(:tea)")
    assert_equal "Shop#price <time>\n", tracer.stop.tree
  end

  test "a call that is still open at the end is shown without a time" do
    target = start("shop")
    tracer = trace(target, "Shop#wait")
    target.run("$t = Thread.new { $shop.wait }; Thread.pass until $t.stop?")
    assert_equal "Shop#wait\n", tracer.stop.tree
  end

  test "a long call is seen while it runs" do
    target = start("shop")
    tracer = trace(target, "Shop#wait")
    target.run("$t = Thread.new { $shop.wait }; Thread.pass until $t.stop?")
    tracer.wait_for(/^Shop#wait$/)
    assert_exit 0, tracer.stop
  end

  test "each of eight threads has its own whole tree" do
    result = result_of(<<~RUBY.tr("\n", ";"), "--format", "json", "Shop#")
      gate = Queue.new
      threads = 8.times.map { Thread.new { gate.pop; 20.times { $shop.sell_all([:tea]) } } }
      8.times { gate << 1 }
      threads.each(&:join)
    RUBY
    expected = <<~TREE * 20
      Shop#sell_all
         Shop#sell
            Shop#price
    TREE
    assert_equal [expected] * 8, result.trees
  end

  test "threads that wait inside each other's calls are not mixed up" do
    result = result_of(<<~RUBY.tr("\n", ";"), "--format", "json", "Shop#each_item", "Shop#price")
      a, b = Queue.new, Queue.new
      t = Thread.new { $shop.each_item { a.pop; $shop.price(:b); b << 1 } }
      $shop.each_item { a << 1; b.pop; $shop.price(:a) }
      t.join
    RUBY
    expected = <<~TREE
      Shop#each_item
         Shop#price
         Shop#price
    TREE
    assert_equal [expected] * 2, result.trees
  end

  test "threads are headed by their names" do
    tree = tree_of('t = Thread.new { $shop.price(:a) }; t.name = "clerk"; t.join; $shop.price(:b); $shop.price(:c)', "Shop#price")
    assert_match(/\[thread T.*\]\nShop#price <time>\nShop#price <time>\n\z/, tree)
  end

  test "fibers of one thread have trees of their own" do
    code = "fiber = Fiber.new { $shop.each_item { Fiber.yield } }; fiber.resume; " \
           "$shop.each_item { fiber.resume; $shop.price(:tea) }"
    trees = result_of(code, "--format", "json", "Shop#each_item", "Shop#price").trees
    assert_equal ["Shop#each_item\n", "Shop#each_item\n   Shop#price\n   Shop#price\n"], trees.sort
    assert_match(/^\[thread T.*, fiber F of console:1\]$/, tree_of(code, "Shop#each_item", "Shop#price"))
  end

  test "a fiber whose block is written in C is not taken for its thread's own" do
    code = "items = $shop.to_enum(:each_item); items.next; $shop.price(:tea); items.next"
    assert_match(/^\[thread T.*, fiber F\]$/, tree_of(code, "Shop#each_item", "Shop#price"))
  end

  test "an enumerator's fiber that is never finished harms nothing" do
    result = result_of("e = $shop.enum_for(:each_item); e.next; e = nil; GC.start; $shop.price(:a)", "Shop#")
    assert_includes result.tree, "Shop#price <time>\n"
  end

  test "fibers that come and go by the hundred are not taken for one another" do
    calls = result_of(<<~RUBY.tr("\n", ";"), "--format", "json", "Shop#each_item", "Shop#price").events("call")
      require "fiber"
      12.times do |wave|
        fibers = Array.new(40) { Fiber.new { $shop.each_item { Fiber.yield; $shop.price(:tea) } } }
        3.times { fibers.each { |fiber| fiber.resume if fiber.alive? } }
        GC.start(full_mark: wave.odd?)
        Array.new(40) { Fiber.new { $shop.each_item { Fiber.yield } }.resume }
      end
    RUBY
    finished, left = calls.partition { |call| call["ended"] == "returned" }
    assert_equal [12 * 40 * 2], finished.select { |call| call["name"] == "price" }.map { |call| call["depth"] }.tally.values
    assert_equal [0], finished.select { |call| call["name"] == "each_item" }.map { |call| call["depth"] }.uniq
    assert_equal 12 * 40, finished.count { |call| call["name"] == "each_item" }
    assert_equal [0], left.map { |call| call["depth"] }.uniq
    assert_equal 12 * 40, left.size
    assert_empty left.map { |call| call["ended"] } - %w[unknown open]
  end

  test "-n leaves out the times, and marks ends that have a line of their own" do
    assert_equal "Shop#sell\n   Shop#price\nShop#sell <end>\n",
                 result_of("$shop.sell(:tea)", "-n", "Shop#price", "Shop#sell").stdout
    assert_equal "Shop#price\n", result_of("$shop.price(:tea)", "-n", "Shop#price").stdout
  end

  test "-t shows when each call began" do
    assert_match(/\A\d\d:\d\d:\d\d\.\d{6} Shop#price <0\.\d{6}>\n\z/, result_of("$shop.price(:tea)", "-t", "Shop#price").stdout)
  end

  test "-r sets the indentation" do
    assert_equal <<~TREE, tree_of("$shop.countdown(1)", "-r", "8", "Shop#countdown")
      Shop#countdown
              Shop#countdown <time>
      Shop#countdown <time>
    TREE
  end

  test "a pipe gets no colours, --color=always does, and NO_COLOR counts only for auto" do
    refute_includes result_of("$shop.price(:tea)", "Shop#price").stdout, "\e["
    assert_includes result_of("$shop.price(:tea)", "--color=always", "Shop#price").stdout, "\e["
  end

  test "methods of C are traced as well, with calls of Ruby methods inside" do
    target = start("shop")
    tracer = trace(target, "--engine", "hook", "Array#each", "Shop#price")
    target.run("[:tea, :cup].each { |item| $shop.price(item) }")
    # Array#each is written in Ruby where it is compiled best.
    assert_includes tracer.stop.tree, <<~TREE
      Array#each
         Shop#price <time>
         Shop#price <time>
      Array#each <time>
    TREE
  end

  test "the firehose of the whole hook shows everything" do
    target = start("shop")
    tracer = trace(target, "--firehose")
    target.run("$shop.sell(:tea, 2)")
    assert_match(/^( *)Shop#sell\n\1   Shop#price\n\1      Symbol#length <time>\n/, tracer.stop.tree)
  end

  test "the firehose needs no consent: every method by an engine of its own, later ones, too, " \
       "and nothing that rbprobe itself calls" do
    target = start("shop")
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "--firehose", "--timeout",
                    (5 * Processes::PATIENCE).to_s).wait_until_armed
    target.run("$shop.sell(:tea, 2)")
    target.run("class Shop; def shut; [:tea].reverse; end; end; $shop.shut")
    tree = tracer.stop.tree
    # Methods written in C have an engine of their own where there is patch.
    assert_match(/^( *)Shop#sell\n\1   Shop#price#{"\n" if ASSEMBLY}/, tree)
    assert_match(/^( *)Shop#shut\n\1   Array#reverse <time>\n\1Shop#shut <time>\n/, tree) if ASSEMBLY
    assert_match(/^ *Shop#shut/, tree)
    refute_match(/pending_interrupt|handle_interrupt/, tree)
  end

  test "times are those of the calls" do
    result = result_of("3.times { sleep 0.02 }", "--format", "json", "Kernel#sleep")
    durations = result.events("call").map { |call| call["duration_ns"] }
    assert_equal 3, durations.size
    assert(durations.all? { |ns| ns >= 20_000_000 && ns < 5_000_000_000 }, durations.inspect)
  end
end
