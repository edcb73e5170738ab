# rbprobe backtrace --locals: the variables of every frame, read where they are, without a Binding.

require_relative "helper"

class BacktraceLocalsTest < LiveTest
  PROGRAM = <<~'RUBY'
    class Order
      def save(id, kind = :x, *rest, flag: true, **opts, &blk)
        total = 12.5
        items = [1, 2, "three"]
        [1].each { |i| j = i + 1; fails(j) { |value| value } }
        blk
      end

      def fails(number, &given)
        raise "no"
      rescue => e
        mine = number
        sleep
      end

      def ensures(number)
        before = number
      ensure
        after = 1
        sleep
      end

      def proc_of(&blk)
        kept = blk
        sleep
      end

      def cleared(&blk)
        blk = nil
        sleep
      end

      def unused(&blk)
        sleep
      end

      def down(level)
        before = level
        level > 0 ? down(level - 1) : sleep
        after = 1
      end

      def early(first = sleep, second = 2)
        third = 3
      end

      def late(first: 1, second: sleep)
        third = 3
      end

      def destructured(one, (two, *three), four)
        sleep
      end

      def each
        1.times { |round| sleep }
      end

      define_method(:block) { |a, &given| z = 3; sleep }
      eval "def many; #{(0...80).map { |i| "v#{i} = #{i}" }.join(";")}; sleep; end"
    end

    class Loud
      def inspect
        $called = true
        "called"
      end
      alias to_s inspect
      alias method_missing inspect
      alias respond_to_missing? inspect
    end

    def waiting(name, &body)
      thread = Thread.new(&body)
      thread.name = name
      Thread.pass until thread.status == "sleep"
    end
    nil
  RUBY

  def prepared
    start("console").tap { |target| target.run("eval(#{PROGRAM.dump}, TOPLEVEL_BINDING, '/srv/order.rb', 1)") }
  end

  def frames(target, name, *options)
    result = rbprobe("backtrace", "-p", target.pid.to_s, "--locals", "--thread", name, "--format", "json", *options)
    assert_exit 0, result
    thread = result.objects.find { |object| object["type"] == "thread" }
    assert_nil thread["locals_missing"]
    thread["frames"]
  end

  # Of the application's frames, innermost first.
  def locals(target, name)
    frames(target, name).select { |frame| frame["path"] == "/srv/order.rb" && frame["locals"] }.map { |frame| frame["locals"] }
  end

  def locals_of(code)
    target = prepared
    target.run("waiting('one') { #{code} }")
    locals(target, "one")
  end

  test "every kind of argument, blocks, and variables of their own" do
    assert_equal [{ "number" => "2", "given" => "(a block)", "e" => "#<RuntimeError: no>", "mine" => "2" },
                  { "i" => "1", "j" => "2" },
                  { "id" => "1", "kind" => ":y", "rest" => "[2, 3]", "flag" => "false", "opts" => "{:other=>9}",
                    "blk" => "(a block)", "total" => "12.5", "items" => '[1, 2, "three"]' }],
                 locals_of("Order.new.save(1, :y, 2, 3, flag: false, other: 9) { 1 }")
                   .map { |frame| frame.transform_values { |text| text.gsub("other: ", ":other=>") } }
  end

  test "a block parameter is the Proc that was made of it, nil, or a block that none was made of" do
    target = prepared
    target.run("waiting('proc') { Order.new.proc_of { 2 } }; waiting('none') { Order.new.proc_of }; " \
               "waiting('cleared') { Order.new.cleared { 2 } }; waiting('unused') { Order.new.unused { 2 } }; " \
               "waiting('block') { Order.new.block(1) { 2 } }; waiting('symbol') { Order.new.unused(&:size) }")
    made = locals(target, "proc").first
    assert_match(/\A#<Proc /, made["blk"])
    assert_equal made["blk"], made["kept"]
    assert_equal({ "blk" => "nil", "kept" => "nil" }, locals(target, "none").first)
    assert_equal({ "blk" => "nil" }, locals(target, "cleared").first)
    assert_equal({ "blk" => "(a block)" }, locals(target, "unused").first)
    assert_equal({ "blk" => "(a block)" }, locals(target, "symbol").first)
    assert_match(/\A#<Proc /, locals(target, "block").first["given"])
    assert_equal %w[1 3], locals(target, "block").first.values_at("a", "z")
  end

  # The caller's arguments may lie where the variable of the block will be.
  test "an argument is never taken for the block" do
    target = prepared
    signatures = ["*args, &block", "one, *args, &block", "*args, k: 1, &block", "**opts, &block", "one, two = 2, *args, &block",
                  "a, b = 1, *c, d, e: 1, **f, &block"]
    signatures.each_with_index do |signature, i|
      target.run("Object.class_eval(%q{def take#{i}(#{signature}); sleep; block; end}, %q(/srv/order.rb))")
      arguments = signature.start_with?("**") ? "x: 'text', y: 2, z: 3" : "1, 'text', :y, 4, 'more'"
      target.run("waiting('with #{i}') { take#{i}(#{arguments}) { 1 } }; waiting('without #{i}') { take#{i}(#{arguments}) }")
      assert_equal "(a block)", locals(target, "with #{i}").first["block"], signature
      assert_equal "nil", locals(target, "without #{i}").first["block"], signature
    end
    target.run("$missing = Class.new; $missing.class_eval(%q{def method_missing(name, *args, &block) sleep; block end}, " \
               "%q(/srv/order.rb)); waiting('missing') { $missing.new.nothing_of_that_name(1, 'text', 2) }")
    assert_equal %w[:nothing_of_that_name nil], locals(target, "missing").first.values_at("name", "block")
  end

  test "each call of a recursive method has its own" do
    assert_equal((0..3).map { |level| { "level" => level.to_s, "before" => level.to_s, "after" => "nil" } },
                 locals_of("Order.new.down(3)"))
  end

  test "a clause of rescue or ensure is of its method" do
    assert_equal({ "number" => "4", "before" => "4", "after" => "1" }, locals_of("Order.new.ensures(4)").first)
  end

  test "arguments whose defaults are being found out" do
    assert_equal "nil", locals_of("Order.new.early")[0]["third"]
    late = locals_of("Order.new.late")[0]
    assert_equal %w[1 nil], late.values_at("first", "third")
    refute_equal "2", late["second"]
  end

  test "arguments that are taken apart" do
    assert_equal({ "one" => "1", "two" => "2", "three" => "[3, 4]", "four" => "5" },
                 locals_of("Order.new.destructured(1, [2, 3, 4], 5)").first)
  end

  # Its block is called by a method of the same name, written in C.
  test "a method that has the name of one written in C" do
    assert_equal [{ "round" => "0" }], locals_of("Order.new.each").first(1)
  end

  test "very many variables" do
    target = prepared
    target.run("waiting('one') { Order.new.many }")
    frame = frames(target, "one").find { |one| one["locals"] && one["locals"].size > 1 }
    assert_equal 64, frame["locals"].size
    assert_equal 16, frame["locals_more"]
    text = rbprobe("backtrace", "-p", target.pid.to_s, "--locals", "--thread", "one").stdout
    assert_match(/^      v0=0 v1=1 .* v63=63 and 16 more$/, text)
  end

  test "no method of the application is called, and no Binding made" do
    target = prepared
    target.run("$called = nil; waiting('one') { loud = Loud.new; many = [loud, { loud => 1 }]; sleep }")
    before = target.run("GC.start; ObjectSpace.each_object(Binding).count")
    found = frames(target, "one").flat_map { |frame| (frame["locals"] || {}).to_a }.to_h
    assert_equal "#<Loud>", found["loud"]
    assert_equal "nil", target.run("$called")
    assert_equal before, target.run("GC.start; ObjectSpace.each_object(Binding).count")
  end

  # They begin with frames that nobody lists.
  test "threads and fibers that begin in C code" do
    target = prepared
    target.run(<<~RUBY)
      def waits(*) ; mine = 1; sleep; end
      Thread.new(&method(:sleep)).name = "sleeps"
      Thread.new(5, &method(:waits)).name = "waits"
      $each = [1, 2, 3].each
      $each.next
      $own = Enumerator.new { |y| inside = 2; y << 1; y << 2 }
      $own.next
      $fiber = Fiber.new(&Fiber.method(:yield)).tap(&:resume)
      sleep 0.1
    RUBY
    10.times do
      assert_equal [{ "mine" => "1" }], frames(target, "waits").map { |frame| frame["locals"] }.compact
      assert_equal [], frames(target, "sleeps").map { |frame| frame["locals"] }.compact
      assert_exit 0, rbprobe("backtrace", "-p", target.pid.to_s, "--locals", "--fibers")
      target.run("Array.new(2_000) { 'x' * rand(400) }.size")
    end
  end

  test "of a very deep stack the innermost frames, and no stall" do
    target = prepared
    target.run("def deep(n, level = n, text = 'x' * 90); n == 0 ? sleep : deep(n - 1); end; waiting('one') { deep(6_000) }")
    found = frames(target, "one", "--limit", "20")
    assert_equal (0..18).map(&:to_s), found.map { |frame| frame["locals"] }.compact.map { |each| each["level"] }
    result = rbprobe("backtrace", "-p", target.pid.to_s, "--locals", "--thread", "one", "--format", "json")
    all = result.objects.select { |object| object["frames"] }.flat_map { |object| object["frames"] }
    assert_operator all.size, :>, 6_000
    all.each { |frame| assert frame["locals"] || frame["locals_more"] == 3 if frame["label"].end_with?("deep") }
  end

  test "while the application has a TracePoint on, that is said" do
    target = prepared
    target.run("$point = TracePoint.new(:line) {}; $point.enable; 1")
    assert_match(/; no local variables: where Ruby keeps them is tried once, and not while the application has a TracePoint on$/,
                 rbprobe("backtrace", "-p", target.pid.to_s, "--locals").stdout)
    target.run("$point.disable; waiting('one') { Order.new.down(0) }")
    assert_equal ["0"], locals(target, "one").map { |each| each["level"] }
  end

  test "of fibers that do not run" do
    target = prepared
    target.run("$fiber = Fiber.new { |given| inside = 5; Fiber.yield(1); given }; $fiber.resume(7)")
    result = rbprobe("backtrace", "-p", target.pid.to_s, "--locals", "--fibers", "--format", "json")
    fiber = result.objects.find { |object| object["type"] == "fiber" }
    skip "this Ruby does not tell where fibers are" unless fiber["frames_known"]
    assert_equal({ "given" => "7", "inside" => "5" }, fiber["frames"].map { |frame| frame["locals"] }.compact.first)
  end

  test "of a thread that computes, whose variables change all the time" do
    target = prepared
    target.run("waiting_for = Thread.new { count = 0; loop { count += 1 } }; waiting_for.name = 'busy'")
    numbers = Array.new(3) do
      frames(target, "busy").map { |frame| frame["locals"] }.compact.find { |each| each.key?("count") }["count"].to_i
    end
    assert_equal numbers.sort.uniq, numbers
    assert_operator numbers.first, :>, 0
  end

  test "while threads come, go and throw, and the heap is compacted" do
    target = prepared
    target.run("$going = true; waiting('one') { Order.new.down(50) }
      4.times do
        Thread.new { Thread.new { Order.new.down(20) }.tap { |other| Thread.pass; other.kill; other.join } while $going }
      end
      Thread.new { while $going; GC.respond_to?(:compact) ? GC.compact : GC.start; sleep 0.01; end }")
    10.times do
      assert_equal (0..50).map(&:to_s), locals(target, "one").map { |each| each["level"] }
      all = rbprobe("backtrace", "-p", target.pid.to_s, "--locals", "--format", "json")
      assert_exit 0, all
      all.objects.each do |thread|
        (thread["frames"] || []).each do |frame|
          next unless frame["locals"] && frame["label"] =~ /down\z/

          assert_match(/\A\d+\z/, frame["locals"]["level"])
        end
      end
    end
    target.run("$going = false")
  end
end
