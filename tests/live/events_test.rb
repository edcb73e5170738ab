# Other events in the tree of calls: what is raised, where, and in which call.

require_relative "helper"

class EventsTest < LiveTest
  SHOP = <<~'RUBY'
    class Broken < StandardError; def message; raise "asked"; end; end
    module Retriable; end
    class Late < StandardError; include Retriable; end
    class Shop
      def sell(n); price(n); end
      def price(n)
        raise ArgumentError, "no #{n}" if n == 3
        n * 2
      end
      def quietly(n)
        sell(n)
      rescue ArgumentError
        -1
      end
      def late; (raise Late, "too late" rescue 0); end
      def broken; (raise Broken, "was never asked" rescue 0); end
    end
  RUBY

  test "an exception is shown where it is raised, in the call that raises it" do
    target = shop
    tracer = trace(target, "--raise", "Shop#")
    assert_equal "-1", target.run("Shop.new.quietly(3)")
    result = tracer.stop
    assert_equal <<~TREE, result.tree
      Shop#quietly
         Shop#sell
            Shop#price
               ! raised ArgumentError: no 3 at shop.rb:7
            Shop#price ! ArgumentError: no 3 <time>
         Shop#sell ! ArgumentError: no 3 <time>
      Shop#quietly <time>
    TREE
    assert_match(/^rbprobe: 3 calls, 0 lost, 1 raised, .* s; ended: interrupted$/, result.stderr)
  end

  test "lines before the first one of code of eval are negative: of a method, who calls, what is raised and made" do
    target = start("shop")
    target.run('eval(%(class Early; def go; Object.new; raise "x"; rescue; end; end), binding, "k.erb", -9); nil')
    assert_match(/^Early#go  k\.erb:-9  /, rbprobe("methods", "-p", target.pid.to_s, "Early#go").stdout)
    tracer = trace(target, "--raise", "--allocations", "Object", "--stack=1", "--format", "json", "Early#go")
    target.run('eval("Early.new.go", binding, "c.erb", -2); nil')
    result = tracer.stop
    assert_equal [["k.erb", -9]], result.events("call").map { |event| event.values_at("file", "line") }
    assert_equal [["c.erb", -2]], result.events("call").map { |event| event["stack"][0].values_at("file", "line") }
    assert_equal [["k.erb", -9]], result.events("raise").map { |event| event.values_at("file", "line") }
    assert_equal [["k.erb", -9]], result.events("allocation").map { |event| event.values_at("file", "line") }
  end

  test "--raise needs no selector" do
    target = shop
    tracer = trace(target, "--raise", "--count", "2")
    target.run("s = Shop.new; s.quietly(3); s.quietly(4); s.late")
    result = tracer.wait
    assert_exit 0, result
    assert_equal "! raised ArgumentError: no 3 at shop.rb:7\n! raised Late: too late at shop.rb:15\n", result.tree
  end

  test "a class that cannot match is told, once, and one that is loaded later counts" do
    target = start("shop")
    target.run("class Later < StandardError; end; module Fleeting; end; Alias = Later; nil")
    { "Nope" => "there is no such class yet; it counts once it is loaded", "Shop" => "that is no class of exceptions",
      "String" => "that is no class of exceptions",
      "Alias" => nil, "Later" => nil, "Fleeting" => nil, "No*" => nil, "Object" => nil }.each do |name, message|
      %w[--raise --raised].each do |option|
        result = trace(target, "#{option}=#{name}", "Shop#price").stop
        message = "the name of that class is Later" if name == "Alias"
        separator = name == "Nope" ? ": " : " matches nothing: "
        told = result.stderr.lines.grep(/#{option}=/)
        assert_equal message ? ["rbprobe: process #{target.pid}: #{option}=#{name}#{separator}#{message}\n"] : [], told
      end
    end
    tracer = trace(target, "--raise=Nope", "--format", "json")
    target.run("class Nope < StandardError; end; begin; raise Nope; rescue Nope; end; nil")
    assert_equal(%w[Nope], tracer.stop.events("raise").map { |event| event["class"] })
  end

  test "--raise=CLASS means classes below it, modules, and patterns, as rescue does" do
    target = shop
    expected = {"ArgumentError" => %w[ArgumentError], "StandardError" => %w[ArgumentError Late], "Retriable" => %w[Late],
                "L*" => %w[Late], "IOError" => []}
    expected.each do |pattern, classes|
      tracer = trace(target, "--raise=#{pattern}", "--format", "json")
      target.run("s = Shop.new; s.quietly(3); s.late; nil")
      result = tracer.stop
      assert_equal classes, result.events("raise").map { |event| event["class"] }, pattern
      assert_equal classes.size, result.events("summary").first["raised"]
    end
  end

  test "no code of the application runs for it, not even with --inspect" do
    target = shop
    tracer = trace(target, "--raise", "--inspect", "--format", "json", "Shop#broken")
    assert_equal "0", target.run("Shop.new.broken")
    event, = tracer.stop.events("raise")
    assert_equal ["Broken", "shop.rb", 16, 1], event.values_at("class", "file", "line", "depth")
    assert_equal "was never asked (its own message method was not called)", event["message"]
  end

  test "threads, fibers, timeouts and exceptions without end go on as before" do
    target = shop
    tracer = trace(target, "--raise", "--format", "json", "Shop#price")
    counts = target.run(<<~'RUBY')
      require "timeout"
      seen = Hash.new(0)
      threads = 4.times.map do
        Thread.new do
          50.times do
            Fiber.new { Shop.new.price(3) }.resume
          rescue ArgumentError
            seen[:argument] += 1
          end
        end
      end
      threads.each(&:join)
      begin
        Timeout.timeout(0.002) { loop { begin; raise "again"; rescue RuntimeError; sleep 0.0001; end } }
      rescue Timeout::Error
        seen[:timeout] += 1
      end
      def deeper; deeper; end
      begin; deeper; rescue SystemStackError; seen[:stack] += 1; end
      seen.sort.to_s
    RUBY
    assert_equal "[[:argument, 200], [:stack, 1], [:timeout, 1]]".dump, counts
    result = tracer.stop
    summary, = result.events("summary")
    shown = result.events("raise")
    assert_equal summary["raised"], shown.size
    # What leaves a fiber is raised once more where that was resumed.
    shown_there = shown.select { |event| event["class"] == "ArgumentError" }
    in_fibers, outside = shown_there.partition { |event| event["fiber_created_at"] }
    assert_equal [200, 200], [in_fibers.size, outside.size]
    assert_includes shown.map { |event| event["class"] }, "Timeout::Error"
  end

  MAKERS = <<~'RUBY'
    class Order; def initialize(n = 0); end; end
    class Special < Order; end
    class Maker
      def one; Order.new; end
      def many(n); n.times { |i| Order.new(i) }; end
      def special; Special.new; end
      def copy(order); order.dup; end
    end
  RUBY

  def makers
    start("console").tap do |target|
      path = "#{shared_directory}/makers.rb"
      File.write(path, MAKERS)
      target.run("load #{path.dump}; $order = Order.new; nil")
    end
  end

  test "--allocations shows where objects of a class are made, in the call that makes them" do
    target = makers
    tracer = trace(target, "--allocations", "Order", "Maker#")
    target.run("maker = Maker.new; maker.one; maker.special; maker.copy($order); nil")
    result = tracer.stop
    assert_equal <<~TREE, result.tree.gsub(%r{/\S*/}, "")
      Maker#one
         + Order made at makers.rb:4 in Maker#one
      Maker#one <time>
      Maker#special <time>
      Maker#copy
         + Order made at makers.rb:7 in Maker#copy
      Maker#copy <time>
    TREE
    assert_match(/process \d+: 2 objects of Order were made, 2 shown$/, result.stderr)
    assert_match(/^rbprobe: 3 calls, 0 lost, 2 objects made, .* s; ended: interrupted$/, result.stderr)
  end

  test "--allocations names the method with its class, also a block's, a module's, a singleton's; another place as it is" do
    target = makers
    tracer = trace(target, "--allocations", "Order", "--format", "json")
    target.run(<<~'RUBY')
      module Makes; def mixed; Order.new; end; end
      module Before; def one; super; end; end
      class Maker
        def self.own; Order.new; end
        define_method(:by_block) { Order.new }
        include Makes
        prepend Before
      end
      $maker = Maker.new
      def $maker.alone; Order.new; end
      $nameless = Class.new { def made; Order.new; end }
      $maker.one; $maker.many(1); Maker.own; $maker.mixed; $maker.by_block; $maker.alone; $nameless.new.made
      Maker.class_eval("Order.new")
      nil
    RUBY
    places = tracer.stop.events("allocation").map { |event| event["in"].gsub(/0x0*[1-9a-f]\h+/, "0x") }
    assert_equal %w[Maker#one Maker#many Maker.own Makes#mixed], places.first(4).map { |place| place.sub("block in ", "") }
    assert_match(/\Ablock in <class:Maker>/, places[4])
    assert_equal ["#<Maker:0x>.alone", "#<Class:0x>#made"], places[5, 2]
    assert_equal 8, places.size
  end

  test "--allocations CLASS+@N: classes below it, every Nth; each class by itself; without a selector" do
    target = makers
    tracer = trace(target, "--allocations", "Order+@10", "--allocations=Special", "--format", "json")
    target.run("maker = Maker.new; maker.many(95); GC.start; GC.compact if GC.respond_to?(:compact); " \
               "5.times { maker.special }; nil")
    result = tracer.stop
    shown = result.events("allocation").map { |event| event.values_at("class", "line") }
    summary, = result.events("summary")
    assert_equal [["Order", 5]] * 10 + [["Special", 6]] * 5, shown, result.stderr
    assert_equal [15, 0], summary.values_at("allocations", "events_lost")
    totals = result.events("totals").map { |event| event.values_at("of", "class", "made", "shown") }
    assert_equal [["allocation", "Order+", 100, 10], ["allocation", "Special", 5, 5]], totals
  end

  test "--allocations: threads and fibers, none of them harmed, and every object is shown or counted" do
    target = makers
    tracer = trace(target, "--allocations", "Order", "--overflow", "block", "--format", "json")
    target.run("4.times.map { Thread.new { 50.times { Fiber.new { Maker.new.many(10) }.resume }; GC.start } }.each(&:join); nil")
    result = tracer.stop
    summary, = result.events("summary")
    assert_equal 2000, result.events("totals").first["made"]
    assert_equal 2000, summary["allocations"] + summary["events_lost"]
    assert_equal summary["allocations"], result.events("allocation").size
  end

  test "--allocations: wrong usage, and a class that is not there" do
    target = makers
    ["", "@5", "Or*"].each do |wrong|
      assert_refused 2, /--allocations takes the name of a class, no pattern/, "trace", "-p", "1", "--allocations", wrong
    end
    assert_refused 2, /--allocations CLASS@N takes a whole number/, "trace", "-p", "1", "--allocations", "Order@0"
    assert_refused 1, /--allocations: there is no class Nothing::Here in the process so far/,
                   "trace", "-p", target.pid.to_s, "--allocations", "Nothing::Here", "Maker#"
  end

  test "each collection is shown in the call that pays for it, with its reason, pause and objects" do
    target = start("console")
    target.run("class Tidy; def all; GC.start; end; def young; GC.start(full_mark: false); end; end; nil")
    tracer = trace(target, "--gc", "Tidy#", "--format", "json")
    counts = target.run("GC.disable; before = GC.count; Tidy.new.all; Tidy.new.young; GC.count - before")
    result = tracer.stop
    collections = result.events("gc").select { |event| event["depth"] == 1 }
    assert_equal "2", counts
    assert_equal [%w[major method immediate], %w[minor method immediate]],
                 collections.map { |event| event.values_at("kind", "reason", "sweep") }
    assert_match(/\A(force|oldgen)\z/, collections.first["major_by"]) # of several reasons, the one that this Ruby looks at first
    collections.each do |event|
      assert_operator event["longest_ns"], :<=, event["pause_ns"]
      assert_operator event["mark_ns"], :>, 0
      assert_operator event["sweep_ns"], :>, 0
      assert_operator event["mark_ns"] + event["sweep_ns"], :<=, event["pause_ns"]
      assert_operator event["objects_after"], :<=, event["objects_before"]
    end
    totals, = result.events("totals")
    assert_equal "gc", totals["of"]
    assert_operator totals["pause_ns"], :>=, collections.sum { |event| event["pause_ns"] }
    assert_match(/garbage collection took \d+\.\d{3} s of .* s \(\d+\.\d %\), the longest pause/, result.stderr)
  end

  test "marking and sweeping in steps: the time of each is the sum of its parts of the pauses" do
    target = start("console")
    tracer = trace(target, "--gc", "--format", "json")
    target.run("kept = []; before = GC.stat(:major_gc_count); deadline = Time.now + 60;" \
               "1_000.times { |n| kept << Object.new << n.to_s; Array.new(10) } " \
               "until GC.stat(:major_gc_count) > before + 2 || Time.now > deadline; GC.start; nil")
    collections = tracer.stop.events("gc")
    collections.each { |event| assert_operator event["mark_ns"] + event["sweep_ns"], :<=, event["pause_ns"] }
    stepped = collections.select { |event| event["pauses"] > 1 }
    stepped.each { |event| assert_operator event.values_at("mark_ns", "sweep_ns").min, :>, 0 }
    assert(stepped.any? { |event| event["mark_ns"] + event["sweep_ns"] > event["longest_ns"] }, "of one pause alone: #{stepped}")
  end

  test "every collection is shown, with GC.stress, compaction, threads and fibers, and without a selector" do
    target = start("console")
    tracer = trace(target, "--gc", "--format", "json")
    count = target.run(<<~'RUBY')
      before = GC.count
      GC.stress = true
      20.times { |n| "a" + n.to_s }
      GC.stress = false
      GC.compact if GC.respond_to?(:compact)
      4.times.map { Thread.new { Fiber.new { 5.times { GC.start } }.resume } }.each(&:join)
      GC.start
      GC.count - before
    RUBY
    result = tracer.stop
    summary, = result.events("summary")
    shown = result.events("gc")
    assert_equal summary["collections"], shown.size
    assert_operator shown.size + summary["events_lost"], :>=, count.to_i - 1
    assert_operator summary["events_lost"], :<, 10
    assert_operator shown.count { |event| event["reason"] == "method" }, :>=, 20
  end

  test "a text line says what a collection did" do
    target = start("console")
    tracer = trace(target, "--gc", "Kernel#rand")
    target.run("GC.disable; rand; GC.start; rand; nil")
    times = /\d+\.\d{6} s \(mark \d+\.\d{6}, sweep \d+\.\d{6}\)/
    assert_match(/^# gc major \(method, (force|oldgen)\) #{times}, [\d,]+ -> [\d,]+ objects$/, tracer.stop.stdout)
  end

  test "--gvl tells of each thread how long it has waited for the GVL, held it and done without" do
    target = start("console")
    if Gem::Version.new(target.run("RUBY_VERSION").undump) < Gem::Version.new("3.2")
      assert_refused 1, /--gvl needs Ruby 3\.2 or newer: this one does not tell/, "trace", "-p", target.pid.to_s, "--gvl"
      next
    end
    tracer = trace(target, "--gvl", "--format", "json")
    target.run(<<~'RUBY')
      busy = 3.times.map { |n| Thread.new { Thread.current.name = "busy #{n}"; x = 0; until $enough; x += 1; end } }
      idle = Thread.new { Thread.current.name = "idle"; sleep 0.01 until $enough }
      sleep 0.5
      $enough = true
      (busy << idle).each(&:join)
      500.times { Thread.new { }.join }
    RUBY
    result = tracer.stop
    totals = result.events("totals")
    ended = totals.find { |event| !event["thread"] }
    totals.each do |event|
      sum = event.values_at("waiting_ns", "holding_ns", "outside_ns").sum
      assert_operator sum, :<=, 1.01 * event["elapsed_ns"] if event["thread"]
    end
    held = totals.sum { |event| event["holding_ns"] }
    assert_operator held, :<=, 1.05 * totals.first["elapsed_ns"], "one thread at a time"
    assert_operator ended["waiting_ns"], :>, ended["longest_ns"]
    assert_operator ended["waits"], :>=, 500
    refute_empty result.events("gvl")
    assert_match(/threads that ended: waited for the GVL \d+\.\d %, held it \d+\.\d %, did without/, result.stderr)
  end

  test "a fork leaves the child without hooks, and the trace of the parent goes on" do
    target = shop
    tracer = trace(target, "--gc", "--raise", "--format", "json")
    status = target.run("pid = fork { 3.times { GC.start; Shop.new.late }; exit!(7) }; Process.wait2(pid).last.exitstatus")
    assert_equal "7", status
    target.run("GC.start; Shop.new.late; nil")
    result = tracer.stop
    assert_equal %w[Late], result.events("raise").map { |event| event["class"] }
    refute_empty result.events("gc")
  end

  test "a Ractor that starts does not crash a Ruby whose GC is observed" do
    skip "this Ruby has no Ractors" if Processes.target_ruby?("< 3.0")
    target = shop
    tracer = trace(target, "--gc", "--measure", "gc", "Shop#late")
    target.run("GC.start; nil")
    target.run("$VERBOSE = nil; GC.stress = true; r = Ractor.new { 1 }; GC.stress = false; " \
               "r.respond_to?(:value) ? r.value : r.take")
    target.run("Shop.new.late; nil")
    result = tracer.stop
    if Processes.target_ruby?("< 3.2")
      assert_match(/the application makes a Ractor; before Ruby 3\.2 the process could crash/, result.stderr)
      assert_match(/^Shop#late .* gc \?>$/, result.stdout)
    else
      refute_match(/Ractor;/, result.stderr)
      assert_match(/^Shop#late .* gc \d/, result.stdout)
    end
    assert_match(/^# gc /, result.stdout)
  end

  test "two clients have what each of them wants, and nothing is left of it" do
    target = shop
    all = trace(target, "--raise", "--format", "json")
    some = trace(target, "--raise=Late", "--format", "json")
    target.run("s = Shop.new; s.quietly(3); s.late; nil")
    assert_equal %w[Late], some.stop.events("raise").map { |event| event["class"] }
    target.run("Shop.new.late")
    assert_equal %w[ArgumentError Late Late], all.stop.events("raise").map { |event| event["class"] }
    assert_equal "0", target.run("Shop.new.late")
  end

  test "--within and --outside hold for exceptions and objects, with no method selected, and the rest is counted" do
    target = makers
    target.run(<<~'RUBY')
      class Maker
        def in_it; one; deeper; end
        def deeper; one; (raise "deep" rescue 0); end
        def out; one; (raise IOError, "out" rescue 0); end
      end
    RUBY
    { "--within" => [2, %w[RuntimeError]], "--outside" => [3, %w[IOError IOError]] }.each do |option, (made, raised)|
      tracer = trace(target, "--raise", "--allocations", "Order", option, "Maker#in_it", "--format", "json")
      target.run("m = Maker.new; m.out; m.in_it; Fiber.new { m.one }.resume; m.out; nil")
      result = tracer.stop
      assert_equal raised, result.events("raise").map { |event| event["class"] }, option
      assert_equal made, result.events("allocation").size, option
      assert_equal [0, 8 - made - raised.size, 0, nil],
                   result.events("summary").first.values_at("events_lost", "events_left_out", "calls", "left_out"), option
      assert_equal [5, made], result.events("totals").first.values_at("made", "shown"), option
    end
  end

  test "within a call that was left without an event, nothing is inside of it any more" do
    target = shop
    target.run("class Shop; def endless; endless; end; end; nil")
    tracer = trace(target, "--raise", "--within", "Shop#endless", "--format", "json")
    target.run("begin; Shop.new.endless; rescue SystemStackError; end; Shop.new.late; nil")
    result = tracer.stop
    assert_empty result.events("raise").map { |event| event["class"] } - %w[SystemStackError]
    assert_equal 1, result.events("summary").first["events_left_out"]
  end

  test "conditions hold for events beside calls, too: each counts its own, and a line says how many did not meet them" do
    target = shop
    tracer = trace(target, "--raise", "--within", "Shop#quietly", "Shop#price")
    target.run("s = Shop.new; s.quietly(3); s.late; (s.price(3) rescue 0); nil")
    result = tracer.stop
    assert_equal <<~TREE, result.tree
      Shop#price
         ! raised ArgumentError: no 3 at shop.rb:7
      Shop#price ! ArgumentError: no 3 <time>
    TREE
    left_out = "1 other does not meet the conditions, 1 raised, 2 others do not meet the conditions"
    assert_match(/^rbprobe: 1 call, 0 lost, #{left_out}, /, result.stderr)
  end

  test "--thread holds for exceptions and objects by id, and for exceptions by name" do
    target = makers
    target.run(<<~'RUBY')
      $work = Queue.new
      $done = Queue.new
      $worker = Thread.new { while (code = $work.pop); $done << eval(code); end }
      $worker.name = "worker 1"
      class Thread; def name; raise "asked"; end; end
      def everywhere(code); eval(code); $work << code; $done.pop; end
    RUBY
    code = "Maker.new.one; (raise IOError rescue 0)"
    tracer = trace(target, "--raise", "--thread", "worker*", "--format", "json")
    target.run("everywhere(#{code.dump})")
    result = tracer.stop
    assert_equal [["IOError", "worker 1"]], result.events("raise").map { |event| event.values_at("class", "thread_name") }
    assert_equal [0, 1], result.events("summary").first.values_at("events_lost", "events_left_out")
    id = result.events("raise").first["thread"].to_s
    tracer = trace(target, "--raise", "--allocations", "Order", "--thread", id, "--format", "json")
    target.run("everywhere(#{code.dump})")
    result = tracer.stop
    shown = result.events("raise") + result.events("allocation")
    assert_equal [id.to_i] * 2, shown.map { |event| event["thread"] }
    assert_equal [0, 2], result.events("summary").first.values_at("events_lost", "events_left_out")
    assert_equal [2, 1], result.events("totals").first.values_at("made", "shown")
  end

  test "--thread NAME holds for objects: also for threads that come later, and for new names" do
    target = makers
    target.run(<<~'RUBY')
      class Maker
        def self.in_thread(name)
          thread = Thread.new { Thread.current.name = name; loop { Thread.stop; new.one; $made += 1 } }
          sleep 0.01 until thread.stop?
          thread
        end

        def self.make_in(thread)
          made = $made
          thread.wakeup
          sleep 0.01 until $made > made && thread.stop?
        end
      end
      $made = 0
      $worker, $other = %w[worker\ 1 other].map { |name| Maker.in_thread(name) }
      class Thread; def name; raise "asked"; end; end
    RUBY
    tracer = trace(target, "--allocations", "Order", "--thread", "worker*", "--format", "json")
    shown = -> { tracer.stdout.scan('"type":"allocation"').size }
    target.run("Maker.make_in($worker); Maker.make_in($other); nil")
    wait_until("that of the worker is shown") { shown.call == 1 }
    target.run("$later = Maker.in_thread('worker 2'); nil")
    wait_until("the new thread is known") { target.run("Maker.make_in($later); nil") && shown.call > 1 }
    target.run("$later.name = 'idle'; nil")
    wait_until("so is its new name") do
      target.run("20.times { Maker.make_in($later); sleep 0.01 }; nil")
      before = shown.call
      target.run("Maker.make_in($later); nil")
      sleep 0.1
      shown.call == before
    end
    result = tracer.stop
    made = target.run("$made").to_i
    lost, left_out = result.events("summary").first.values_at("events_lost", "events_left_out")
    assert_equal [made, made - lost - left_out], result.events("totals").first.values_at("made", "shown")
    assert_equal made - lost - left_out, result.events("allocation").size
    assert_operator left_out, :>, 1
  end

  test "--thread main of exceptions and objects" do
    target = makers
    tracer = trace(target, "--raise", "--allocations", "Order", "--thread", "main", "--format", "json")
    code = "Maker.new.one; (raise IOError rescue 0)"
    target.run("Thread.new { #{code} }.join; #{code}; nil")
    result = tracer.stop
    shown = result.events("raise") + result.events("allocation")
    assert_equal [target.pid], shown.map { |event| event["thread"] }.uniq
    assert_equal %w[IOError Order], shown.map { |event| event["class"] }.uniq
  end

  test "--every and --rate thin exceptions and objects out" do
    target = makers
    tracer = trace(target, "--raise", "--allocations", "Order@2", "--every", "5", "--format", "json")
    target.run("20.times { raise IOError rescue 0 }; Maker.new.many(20); nil")
    result = tracer.stop
    assert_equal [4, 2], %w[raise allocation].map { |type| result.events(type).size }
    assert_equal [0, 16 + 8], result.events("summary").first.values_at("events_lost", "events_left_out")
    tracer = trace(target, "--raise", "--rate", "3", "--format", "json")
    seconds = target.run("from = Process.clock_gettime(Process::CLOCK_MONOTONIC); 500.times { raise IOError rescue 0 }; " \
                         "Process.clock_gettime(Process::CLOCK_MONOTONIC) - from").to_f
    result = tracer.stop
    shown = result.events("raise").size
    assert_includes 3..(3 * (seconds.ceil + 1)), shown
    assert_equal 500 - shown, result.events("summary").first["events_left_out"]
    tracer = trace(target, "--allocations", "Order@100", "--rate", "3", "--format", "json")
    target.run("Maker.new.many(1000); nil")
    result = tracer.stop
    shown = result.events("allocation").size
    assert_operator shown, :>=, 3, "of the 10 that @100 takes"
    assert_equal 10 - shown, result.events("summary").first["events_left_out"].to_i
    assert_equal [1000, shown], result.events("totals").first.values_at("made", "shown")
  end

  test "a condition that nothing could meet is refused" do
    calls = /^rbprobe: --slow, .* and --depth are about calls, and no method is selected; give a selector such as Order#total$/
    [%w[--slow 1], %w[--slow-cpu 1], %w[--raised], %w[--if true], %w[--depth 1]].each do |condition|
      assert_refused 2, calls, "trace", "-p", "1", "--raise", "--gc", "--within", "A#b", *condition
    end
    others = /^rbprobe: --thread, --within, .* do not apply to --gc and --gvl, and nothing else is selected; give a selector /
    [%w[--thread 1], %w[--within A#b], %w[--outside A#b], %w[--every 2], %w[--rate 2]].each do |condition|
      assert_refused 2, others, "trace", "-p", "1", "--gc", "--gvl", *condition
    end
  end

  private

  def shop
    start("console").tap { |target| target.run("eval(#{SHOP.dump}, TOPLEVEL_BINDING, 'shop.rb', 1); nil") }
  end
end
