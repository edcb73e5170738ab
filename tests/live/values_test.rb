# What is shown of a call's values: arguments, self, instance variables, expressions, results, exceptions.

require_relative "helper"

class ValuesTest < LiveTest
  def result_of(code, *arguments)
    target = start("shop")
    tracer = trace(target, *arguments)
    target.run(code)
    tracer.stop.tap { |result| assert_exit 0, result }
  end

  # The text between the parentheses of the only call.
  def shown(code, *arguments)
    result_of(code, *arguments).tree[/\A\S+?\((.*)\).*<time>\n\z/, 1]
  end

  test "all arguments with --args, whatever their kind" do
    assert_equal 'item=:tea, count=2, extras=[:bag], gift=true, options={:to=>"Bob"}, wrap=nil',
                 shown('$shop.sell(:tea, 2, :bag, gift: true, to: "Bob")', "--args", "Shop#sell")
  end

  test "with --args an expression stands in the place of the argument whose name it has, also of a method in C" do
    assert_equal 'item="TEA", count=2, extras=[], gift=false, options={}, wrap=nil',
                 shown("$shop.sell(:tea, 2)", "--args", "Shop#sell(item: item.to_s.upcase, count)")
    assert_equal 'arg1="B", arg2="c"', shown('"abc".tr("b", "c")', "--args", "String#tr(arg1: arg1.upcase)")
  end

  test "arguments without a name" do
    target = start("shop")
    target.run("class Shop; def late(a, (b, c), d = 2, *, e, f: 1, **); f; end; def keys(*, **); 1; end; nil; end")
    tracer = trace(target, "--args", "Shop#late", "Shop#keys")
    target.run("$shop.late(1, [2, 3], 4, 5, 6, f: 7, z: 8); $shop.keys(9, z: [1]); $shop.keys")
    lines = tracer.stop.tree.lines.map { |line| line[/\((.*)\)/, 1] }
    assert_equal ["a=1, b=2, c=3, d=4, *=[5], e=6, f=7, **={:z=>8}", "*=[9], **={:z=>[1]}"], lines[0, 2]
    assert_match(/\A\*=\[\](?:, \*\*=\{\})?\z/, lines[2])
  end

  test "arguments without a name, by each engine, of a short method, and passed on" do
    skip "this Ruby has no `*` and `**` to pass on, and no short methods" unless Processes.target_ruby?(">= 3.2")
    target = start("shop")
    target.run("class Shop; def pass(a, *, k: 1, **, &) = a; def pass_on(...) = pass(...); end; nil")
    tracer = trace(target, "--args", "Shop#pass(a)")
    target.run("$shop.pass(1, 2, [3], k: 4, z: 5) { 6 }; $shop.pass(7); $shop.pass_on(8, 9)")
    lines = tracer.stop.tree.lines.map { |line| line[/\((.*)\)/, 1] }
    assert_equal "a=1, *=[2, [3]], k=4, **={:z=>5}, &=#<Proc>", lines[0]
    # No keywords may be no Hash.
    assert_match(/\Aa=7, \*=\[\], k=1(?:, \*\*=\{\})?\z/, lines[1])
    assert_match(/\Aa=8, \*=\[9\], k=1/, lines[2])
    # By themselves, and by the other engine for methods written in Ruby.
    tracer = trace(target, "--args", "--inspect", "--engine", "hook", "--yes", "Shop#pass")
    target.run("$shop.pass(1, 2)")
    assert_match(/\AShop#pass\(a=1, (?:\*=\[2\], )?k=1/, tracer.stop.tree)
  end

  test "arguments that were left out have their defaults" do
    assert_match(/\Aitem=:tea, count=(?:1|nil), /, shown("$shop.sell(:tea)", "--args", "Shop#sell"))
  end

  test "arguments by name, self, instance variables" do
    assert_equal 'count=2, self=#<Shop>, @owner="Ada", @stock={:tea=>3}, @none=nil',
                 shown("$shop.sell(:tea, 2)", "Shop#sell(count, self, @owner, @stock, @none)")
  end

  test "any expression, in the context of the method" do
    assert_equal 'item.length * 2=6, stock[:tea]=3, [item, @owner].join("-")="tea-Ada"',
                 shown("$shop.price(:tea)", 'Shop#price(item.length * 2, stock[:tea], [item, @owner].join("-"))')
  end

  test "private methods can be called in an expression" do
    assert_equal "secret(item)=:tea", shown("$shop.price(:tea)", "Shop#price(secret(item))")
  end

  test "caller and caller_locations begin with the caller of the method, by each engine" do
    target = start("shop")
    target.run('class Shop; def outer; price(:tea); "abc".tr("b", "c"); end; end')
    callers = "caller.first[/outer/], caller_locations.first.label[/outer/], caller.size - caller_locations.size, " \
              "caller.join[/bind_call|interrupt/]"
    values = ["outer", "outer", 0, nil]
    { "target" => "Shop#price", "patch" => "String#tr", "hook" => "{Shop#price,String#tr}" }.each do |engine, methods|
      methods.delete("{}").split(",").each do |method|
        tracer = trace(target, "--engine", engine, "--inspect", "--format=json", "#{method}(#{callers})")
        target.run("$shop.outer")
        call = tracer.stop.objects.find { |object| object["method"] == method }
        assert_equal values.map(&:inspect), call["values"].values, "#{method} by #{engine}"
      end
    end
  end

  test "__source__ is where the call was made, with --inspect, too" do
    assert_equal '__source__=console:1', shown("$shop.price(:tea)", "Shop#price(__source__)", "--inspect").delete('"')
    assert_equal '__source__=console:1', shown("$shop.price(:tea)", "Shop#price(__source__)").delete('"')
  end

  test "the result with --return" do
    assert_equal "Shop#price => 300 <time>\n", result_of("$shop.price(:tea)", "--return", "Shop#price").tree
  end

  test "the result of break and of a return within a block" do
    assert_match(/^Shop#first_item => :tea <time>$/, result_of("$shop.first_item", "--return", "Shop#").tree)
  end

  test "an exception without a message, and one whose message is made by the application" do
    target = start("shop")
    target.run("class Shop; def fail_with(e); raise(e); end; end")
    target.run('class Loud < StandardError; def message; $asked = true; "loud"; end; end')
    tracer = trace(target, "Shop#fail_with")
    assert_equal "nil", target.run("begin; $shop.fail_with(RuntimeError.new); rescue; end; nil")
    target.run("begin; $shop.fail_with(Loud.new); rescue Loud; end; nil")
    tree = tracer.stop.tree
    loud = /Loud: Loud \(its own message method was not called\)/
    assert_match(/\AShop#fail_with ! RuntimeError: RuntimeError <time>\nShop#fail_with ! #{loud} <time>\n\z/, tree)
    # By default no method of the application is called.
    assert_equal "nil", target.run("$asked")
  end

  VALUES = {
    "nil" => "nil",
    "true" => "true",
    "-12" => "-12",
    "2**70" => "1180591620717411303424",
    "1.5" => "1.5",
    "1e100" => "1.0e+100",
    ":sym" => ":sym",
    ':"odd sym"' => ':"odd sym"',
    '"a\n\"b\" \e[31m"' => '"a\\\\n\\\\"b\\\\" \\\\e[31m"',
    '"caf\u00e9"' => "\"caf\u00e9\"",
    '"\xff".b' => '"\\xFF"',
    "[1, [2, [3, [4, [5]]]]]" => "[1, [2, [3, [...]]]]",
    "(1..3)" => "1..3",
    "{ a: 1, \"b\" => [2] }" => '{:a=>1, "b"=>[2]}',
    "Shop" => "Shop",
    "Object.new" => "#<Object>",
    "Shop.new" => "#<Shop>",
  }.freeze

  test "values are rendered without calling the application" do
    target = start("shop")
    tracer = trace(target, "--format", "json", "Shop#secret(word)")
    VALUES.each_key { |expression| target.run("$shop.send(:secret, #{expression})") }
    shown = tracer.stop.events("call").map { |call| call.dig("values", "word") }
    expected = VALUES.values.map { |text| text.gsub("\\\\\\\\", "\\").gsub("\\\\", "\\") }
    assert_equal expected, shown
  end

  test "a value that refers to itself ends" do
    assert_includes shown("a = [1]; a << a; $shop.send(:secret, a)", "Shop#secret(word)"), "word=[1, [1, "
  end

  test "long values are cut, at --value-size, between characters" do
    text = shown("$shop.send(:secret, %q(\u00e9) * 1000)".encode("UTF-8"), "--value-size", "20", "Shop#secret(word)")
    assert_operator text.delete_prefix("word=").bytesize, :<=, 20
    assert text.valid_encoding?
    assert_match(/\.\.\."?\z/, text)
  end

  test "a size that has no room for the mark of a cut is obeyed" do
    assert_equal "word=.", shown("$shop.send(:secret, %q(abcdef))", "--value-size", "1", "Shop#secret(word)")
    assert_equal "word=..", shown("$shop.send(:secret, %q(abcdef))", "--value-size", "2", "Shop#secret(word)")
  end

  def word(code, *options)
    shown("$shop.send(:secret, #{code})", *options, "Shop#secret(word)").delete_prefix("word=")
  end

  test "long arrays and hashes are cut, and say how long they are" do
    assert_match(/\A\[0, 1, .*, 15, \.\.\.\] \(100 elements\)\z/, word("(0..99).to_a"))
    hash = word("{ a: (1..1234).to_h { |i| [i, i] } }")
    assert_match(/\A\{:a=>\{1=>1, .*, 16=>16, \.\.\.\} \(1,234 pairs\)\}\z/, hash)
  end

  test "what is cut at --value-size says how long it is" do
    size = ["--value-size", "64"]
    assert_equal "\"#{"x" * 44}...\" (12,345 bytes)", word('"x" * 12_345', *size)
    assert_equal "\"#{"x" * 58}...", word('"x" * 59', "--value-size", "62")
    assert_equal "\"#{"x" * 59}\"", word('"x" * 59', *size)
    assert_equal "[\"#{"x" * 46}... (3 elements)", word('["x" * 99, 2, 3]', *size)
    assert_match(/\A\{:k=>1, :l=>"x+\.\.\. \(2 pairs\)\z/, word('{ k: 1, l: "x" * 99 }', *size))
    # A character is in it whole.
    text = word("\"\u00e9\" * 500 + 7.chr", *size)
    assert_match(/\A"\u00e9+\.\.\." \(1,001 bytes\)\z/, text)
    assert_operator text.bytesize, :<=, 64
  end

  test "--inspect calls the application's inspect" do
    code = 'class Shop; def inspect; "the shop of #{@owner}"; end; end; $shop.price(:tea)'
    assert_equal "self=the shop of Ada", shown(code, "--inspect", "Shop#price(self)")
  end

  # exec gives its exception a String that the VM hides from Ruby code.
  test "--inspect of what the VM hides shows it as without --inspect" do
    target = start("console")
    tracer = trace(target, "--args", "--inspect", "SystemCallError#initialize")
    assert_equal ":none", target.run('(exec("/nowhere/at_all") rescue :none)')
    assert_includes tracer.stop.stdout, '"/nowhere/at_all"'
  end

  test "an inspect that raises is shown as what it raised" do
    code = 'class Shop; def inspect; raise "no view"; end; end; $shop.price(:tea)'
    assert_match(/self=.*RuntimeError.*no view/, shown(code, "--inspect", "Shop#price(self)"))
  end

  test "objects of BasicObject and proxies are shown for what they are" do
    code = "class Proxy < BasicObject; def method_missing(*) ; ::Kernel.exit!(9); end; end; $shop.send(:secret, Proxy.new); nil"
    assert_equal "word=#<Proxy>", shown(code, "Shop#secret(word)")
  end

  test "an expression that raises yields the exception, and the call goes on" do
    target = start("shop")
    tracer = trace(target, "--return", "Shop#price(item.nonsense, @owner)")
    assert_equal "300", target.run("$shop.price(:tea)")
    assert_match(/item\.nonsense=.*NoMethodError.*, @owner="Ada"\) => 300/, tracer.stop.tree)
  end

  test "an expression that loops is stopped after --timeout" do
    target = start("shop")
    tracer = trace(target, "--timeout", "0.3", "Shop#price((loop {}))")
    assert_equal "300", target.run("$shop.price(:tea)")
    assert_match(/\(loop \{\}\)=.*tim/i, tracer.stop.tree)
  end

  ["(throw :x)", "exit", "raise(Interrupt)", "(return 7)", "(break 7)", "abort"].each do |escape|
    test "the expression #{escape} does not get its way" do
      target = start("shop")
      tracer = launch("trace", "-v", "-p", target.pid.to_s, "Shop#price(#{escape})")
      wait_until("armed or refused") { !tracer.running? || tracer.stderr.match?(Processes::ARMED) }
      assert_equal "300", target.run("Thread.new { catch(:x) { $shop.price(:tea) } }.value")
      assert_match(/\AShop#price\(/, tracer.stop.tree) if tracer.running?
    end
  end

  test "a traced method that an expression calls produces no events" do
    assert_equal "countdown(1)=0", shown("$shop.price(:tea)", "Shop#price(countdown(1))", "Shop#countdown")
  end

  test "an expression that does not compile is refused, and nothing is armed" do
    target = start("shop")
    result = rbprobe("trace", "-p", target.pid.to_s, "Shop#price(item +)")
    assert_exit 1, result
    assert_match(/"?item \+"?.*syntax/im, result.stderr)
    assert_equal "300", target.run("$shop.price(:tea)")
  end

  test "the special variables of the traced code are not disturbed" do
    target = start("shop")
    tracer = trace(target, 'Shop#price("x" =~ /x/)')
    assert_equal '["a", 300]', target.run('"a" =~ /a/; r = $shop.price(:tea); [$~[0], r]')
    tracer.stop
  end

  test "an error that is being handled is not disturbed" do
    target = start("shop")
    tracer = trace(target, "Shop#price(raise)")
    assert_equal '"first"', target.run('begin; raise "first"; rescue; $shop.price(:tea); $!.message; end')
    tracer.stop
  end

  test "an expression that rescues what interrupts it is over all the same, and the traced call goes on" do
    target = start("shop")
    tracer = trace(target, "--timeout", "1", "Shop#price((begin; sleep; rescue Exception; 1; end))")
    assert_equal "100", target.run("$shop.price(:a)")
    assert_match(/=#<timed out after 1000 ms>\)/, tracer.stop.stdout)
  end

  test "an expression that does not end is stopped when the trace ends, however it ends, and the target goes on" do
    target = start("shop")
    endings = { duration: ->(tracer) { tracer.wait }, interrupt: ->(tracer) { tracer.stop }, kill: ->(tracer) { tracer.kill } }
    endings.each do |ending, finish|
      duration = ending == :duration ? ["--duration", "0.5"] : []
      tracer = launch("trace", "-v", "-p", target.pid.to_s, "--timeout", "600", *duration,
                      "Shop#price((loop {}), (loop {}))").wait_until_armed
      target.run_in_background("$shop.price(:a)")
      Processes.wait_until_it_computes(target.pid) unless ending == :duration
      result = finish.call(tracer)
      assert_match(/ended: --duration reached$/, result.stderr) if ending == :duration
      assert_equal "100", target.answer
    end
  end

  test "calls whose expressions run when the trace ends are counted as lost" do
    target = start("shop")
    tracer = trace(target, "Shop#price(sleep)")
    target.run("$callers = Array.new(3) { Thread.new { $shop.price(:tea) } }; sleep 0.1 until $callers.all?(&:stop?)")
    assert_match(/ 0 calls, 3 lost, /, tracer.stop.stderr)
    assert_equal "[300, 300, 300]", target.run("$callers.map(&:value)")
  end

  # Its value switches fibers, as code that waits for I/O does under a Fiber scheduler.
  YIELDING = "class Shop; def look(value); end; end; class Yielding; def inspect; Fiber.yield; 'seen'; end; end; "

  def only_where_expressions_switch_fibers
    skip "this Ruby lets no fiber switch within rb_protect" unless Processes.target_ruby?(">= 3.1")
  end

  test "expressions whose fibers are dropped in the middle harm nobody and hold up no trace" do
    only_where_expressions_switch_fibers
    target = start("shop")
    target.run(YIELDING)
    3.times do
      tracer = trace(target, "-v", "--inspect", "Shop#look(value)")
      # In a thread of their own: no stack that is looked at has their addresses. Other fibers take their stacks.
      target.run("Thread.new { 40.times { Fiber.new { $shop.look(Yielding.new) }.resume; $shop.look(1); GC.start } }.join")
      target.run("40.times { Fiber.new { Fiber.yield(Array.new(100) { |i| i.to_s }.join) }.resume }; GC.start; GC.start")
      result = tracer.stop
      assert_exit 0, result
      refute_match(/did not confirm/, result.stderr)
      # The others have died before they could be shown.
      assert_equal 40, result.stdout.scan("Shop#look(value=1)").size
      assert_match(/ 40 calls, 40 lost/, result.stderr)
    end
  end

  test "the time limit of an expression whose fiber waits is no other fiber's" do
    only_where_expressions_switch_fibers
    target = start("shop")
    target.run(YIELDING)
    tracer = trace(target, "--inspect", "--timeout", "0.2", "Shop#look(value)")
    target.run("$fiber = Fiber.new { $shop.look(Yielding.new); :done }; $fiber.resume")
    assert_equal ":undisturbed", target.run("t = Time.now; nil while Time.now - t < 1; :undisturbed")
    assert_equal ":done", target.run("$fiber.resume")
    assert_match(/seen/, tracer.stop.stdout)
  end

  MISSING = <<~RUBY
    class Missing
      def look(name)
        name == :there
      end

      def method_missing(name, *arguments)
        look(name) ? arguments : super
      end

      def respond_to_missing?(name, all = false)
        look(name) || super
      end
    end
    def missed
      Missing.new.nowhere
    rescue NameError => e
      e.class
    end
  RUBY

  test "an expression with an unknown name changes no exception of a method_missing" do
    target = start("console")
    target.run("eval(#{MISSING.dump}, TOPLEVEL_BINDING)")
    # Each session has code of its own, and names it has not met.
    [["trace", "Missing#look(unknown)"], ["trace", "--if", "unknown", "Missing#look"],
     ["stat", "--by", "unknown", "Missing#look"],
     ["trace", "Missing#method_missing(name, unknown.more)"]].each do |command, *arguments|
      tracer = launch(command, "-v", "-p", target.pid.to_s, *arguments).wait_until_armed
      assert_equal "[NoMethodError, NoMethodError, NoMethodError]", target.run("Array.new(3) { missed }"), arguments
      assert_exit 0, tracer.stop
    end
  end
end
