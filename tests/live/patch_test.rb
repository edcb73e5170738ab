# Methods written in C, observed by engine patch: what is shown of them, and that nobody else can tell.

require_relative "helper"

class PatchTest < LiveTest
  # The tree of what a line of code calls, with engine patch alone: what it refuses is not traced.
  def tree_of(code, *arguments)
    target = start("console")
    yield target if block_given?
    tracer = trace(target, "--engine", "patch", *arguments)
    target.run(code)
    tracer.stop.tap { |result| assert_exit 0, result }.tree
  end

  test "arguments, result and the block are at hand" do
    assert_equal <<~TREE, tree_of('"abc".tr("a", "b"); [3].fetch(7) { |i| i }', "--args", "--return", "String#tr", "Array#fetch")
      String#tr(arg1="a", arg2="b") => "bbc" <time>
      Array#fetch(arg1=7, &block=#<Proc>) => 7 <time>
    TREE
  end

  test "a method without arguments shows its block, if it has one" do
    code = "[1].each_index { }; [1].each_index"
    assert_equal <<~TREE, tree_of(code, "--args", "Array#each_index")
      Array#each_index(&block=#<Proc>) <time>
      Array#each_index <time>
    TREE
  end

  test "more arguments than have names of their own" do
    numbers = (1..20).to_a
    named = (1..16).map { |i| "arg#{i}=#{i}" }.join(", ")
    assert_equal <<~TREE, tree_of("[].push(*(1..20))", "--args", "Array#push")
      Array#push(#{named}, *rest=#{numbers.last(4)}) <time>
    TREE
  end

  test "expressions know self, arg1, arg2, ..., block and __source__" do
    selector = "String#tr(self, arg1 + arg2, arg2, &block, block.nil?, __source__)"
    assert_equal <<~TREE, tree_of('"abc".tr("a", "b")', selector)
      String#tr(self="abc", arg1 + arg2="ab", arg2="b", &block=nil, block.nil?=true, __source__=console:1) <time>
    TREE
  end

  test "each way a call can end" do
    target = start("console")
    target.run("def through; [1].each_index { yield }; end")
    target.run("def home; [1].each_index { return 7 }; end")
    tracer = trace(target, "--engine", "patch", "--return", "Array#each_index")
    target.run("[1].each_index { }")
    target.run("[1].each_index { raise 'no' } rescue nil")
    target.run("[1].each_index { break :value }")
    target.run("through { break }")
    target.run("home")
    target.run("catch(:done) { [1].each_index { throw :done } }")
    target.run("Thread.new { [1].each_index { Thread.current.kill } }.join; nil")
    target.run("Fiber.new { [1].each_index { Fiber.yield } }.resume; nil")
    # A call that takes long has a line for its beginning, too.
    *ended, last = tracer.stop.tree.scan(/^Array#each_index *(.*?)(?: <time>)?$/).flatten
    assert_equal ["=> [1]", "! RuntimeError: no", "=> :value", "~ thrown", "~ thrown", "~ thrown", "~ killed"], ended - [""]
    assert_equal "", last
  end

  test "calls nest with those of methods written in Ruby" do
    target = start("shop")
    tracer = trace(target, "Shop#sell_all", "Shop#price", "Array#reverse_each")
    target.run("class Shop; def sell_all(items); items.reverse_each { |item| price(item) }; end; end; nil")
    target.run("$shop.sell_all([:tea, :pot]); nil")
    assert_equal <<~TREE, tracer.stop.tree
      Shop#sell_all
         Array#reverse_each
            Shop#price <time>
            Shop#price <time>
         Array#reverse_each <time>
      Shop#sell_all <time>
    TREE
  end

  test "only the selected name is reported, of aliases and of methods that share a function" do
    code = "class Array; alias_method :other_index, :each_index; end; [1].other_index { }; [1].each_index { }; " \
           "[1].collect { }; [1].map! { }; {}.update({}); {}.merge!({})"
    assert_equal <<~TREE, tree_of(code, "Array#each_index", "Hash#update")
      Array#each_index <time>
      Hash#update <time>
    TREE
  end

  test "an alias can be selected by itself" do
    tree = tree_of("[1].other_index { }; [1].each_index { }", "Array#other_index") do |target|
      target.run("class Array; alias_method :other_index, :each_index; end")
    end
    assert_equal "Array#other_index <time>\n", tree
  end

  test "singleton methods, module functions, methods of a module" do
    code = 'Dir.exist?("/"); Math.sqrt(4); 3.between?(1, 5); "b".between?("a", "c"); "x".instance_variable_get(:@y)'
    assert_equal <<~TREE, tree_of(code, "Dir.exist?", "Math.sqrt", "Comparable#between?", "Kernel#instance_variable_get")
      Dir.exist? <time>
      Math.sqrt <time>
      Comparable#between? <time>
      Comparable#between? <time>
      Kernel#instance_variable_get <time>
    TREE
  end

  test "send, method objects, symbols as blocks and C callers all reach it" do
    code = '"a".send(:tr, "a", "b"); "a".method(:tr).call("a", "b"); "a".public_send(:tr, "a", "b"); ' \
           '["a"].each { |s| s.tr("a", "b") }; ["a"].each_entry.map(&:upcase)'
    assert_equal ["String#tr <time>"] * 4 + ["String#upcase <time>"],
                 tree_of(code, "String#tr", "String#upcase").lines(chomp: true)
  end

  test "what the VM does not call is refused, with the reason" do
    target = start("console")
    result = rbprobe("methods", "-p", target.pid.to_s, "--engine", "patch", "Integer#+", "Array#[]", "Kernel#puts")
    assert_exit 0, result
    assert_match(/^Integer#\+ .*none \(.*instruction of its own/, result.stdout)
    assert_match(/^Array#\[\] .*none \(.*instruction of its own/, result.stdout)
    assert_match(/^Kernel#puts .*patch$/, result.stdout)
  end

  test "a method that is redefined while it is traced is traced on" do
    target = start("console")
    tracer = trace(target, "String#tr", "String#upcase")
    target.run('"a".tr("a", "b"); "a".upcase')
    target.run("class String; def tr(a, b); :mine; end; undef_method :upcase; end; GC.start; nil")
    assert_equal ":mine", target.run('"a".tr("a", "b")')
    target.run("class String; remove_method :tr; end; GC.start; nil")
    assert_equal "String#tr <time>\nString#upcase <time>\nString#tr <time>\n", tracer.stop.tree
    assert_equal "true",
                 target.run('"a".respond_to?(:upcase) == false && 100.times { GC.start if _1 % 50 == 0; "a".swapcase } && true')
  end

  test "a class that is frozen, and one that is compacted away" do
    target = start("console")
    target.run("class Held < Array; freeze; end; $held = Held.new([1]); nil")
    target.run("class Array; def none; end; freeze; end; nil")
    # YJIT cannot be told of a change in a frozen class.
    tracer = trace(target, "--engine", "auto", "Array#each_index")
    target.run("GC.compact if GC.respond_to?(:compact); $held.each_index { }; nil")
    target.run("GC.compact if GC.respond_to?(:compact); $held.each_index { }; nil")
    assert_equal "Array#each_index <time>\n" * 2, tracer.stop.tree
  end

  # Everything that an application can ask for about a method, and about where it is.
  LOOK = <<~'RUBY'.freeze
    look = lambda do
      m = Array.instance_method(:each_index)
      inside = nil
      [1].each_index { inside = [caller(0), binding.local_variables, __method__, block_given?] }
      "xay" =~ /a/
      "xby".sub(/b/, "c")
      [m.arity, m.parameters, m.owner, m.name, m.source_location, m.inspect, inside, $~.inspect, $_.inspect, $!.inspect,
       (begin; [1].fetch; rescue => e; [e.class, e.message, e.backtrace]; end),
       (begin; [1].each_index(1) {}; rescue => e; [e.class, e.message, e.backtrace]; end),
       Array.public_method_defined?(:each_index), m == Array.instance_method(:each_index),
       (begin; "a".instance_eval { private_methods.include?(:puts) }; end)]
    end
    look.call.inspect
  RUBY

  test "an application sees no difference" do
    target = start("console")
    before = target.run(LOOK)
    tracer = trace(target, "--engine", "patch", "Array#each_index", "Array#fetch", "String#sub", "Kernel#caller",
                   "Kernel#binding", "Kernel#private_methods", "Module#instance_method", "UnboundMethod#", "Exception#")
    during = target.run(LOOK)
    assert_includes tracer.stop.tree, "Array#each_index"
    assert_equal before, during
    assert_equal before, target.run(LOOK)
  end

  test "calls under way when the trace ends, and the next trace" do
    target = start("console")
    target.run("$q = Queue.new; $t = Thread.new { [1].each_index { $q.pop } }; Thread.pass until $t.stop?; nil")
    tracer = trace(target, "--engine", "patch", "Array#each_index")
    target.run("$u = Thread.new { [1].each_index { $q.pop } }; Thread.pass until $u.stop?; nil")
    assert_equal "Array#each_index\n", tracer.stop.tree
    tracer = trace(target, "--engine", "patch", "Array#each_index")
    target.run("2.times { $q << 1 }; [$t, $u].each(&:join); [1].each_index { }; nil")
    assert_equal "Array#each_index <time>\n", tracer.stop.tree
  end

  test "several sessions, each with its own selection" do
    target = start("console")
    first = trace(target, "--engine", "patch", "String#tr", "String#upcase")
    second = trace(target, "--engine", "patch", "String#tr")
    target.run('"a".tr("a", "b").upcase')
    assert_equal "String#tr <time>\n", second.stop.tree
    target.run('"a".tr("a", "b")')
    assert_equal "String#tr <time>\nString#upcase <time>\nString#tr <time>\n", first.stop.tree
  end

  test "fork inside: the child goes on, untraced" do
    target = start("console")
    tracer = trace(target, "--engine", "patch", "--return", "Kernel#fork", "Array#each_index")
    pid = target.run("[1].each_index { $pid = fork { [1].each_index { }; exit!(4) } }; $pid")
    assert_equal "4", target.run("Process.wait2(#{pid})[1].exitstatus")
    assert_equal "0", target.run("Process.wait2([1].map { fork || exit!(0) }[0])[1].exitstatus")
    tree = tracer.stop.tree
    assert_equal 2, tree.scan(/^ *(?:Array#each_index|Kernel#fork)(?: => .*)? <time>$/).size - 1, tree
  end

  { "exit(3)" => 3, "exit!(3)" => 3, "exec(%q(exit 3))" => 3, "Process.kill(:KILL, $$); sleep" => nil }.each do |code, status|
    test "#{code} inside a traced method" do
      target = start("console")
      tracer = trace(target, "--engine", "patch", "Array#each_index", "Kernel#exit", "Kernel#exit!", "Kernel#exec")
      target.run_in_background("[1].each_index { #{code} }")
      ended = target.wait
      assert_equal [status], [ended.exitstatus]
      tracer.wait
    end
  end

  test "what we call ourselves, and what expressions call, is not shown" do
    target = start("console")
    tracer = trace(target, "--engine", "patch", "--inspect", "String#tr(self.upcase, [self])", "String#upcase",
                   "String#inspect", "Array#inspect", "Module#instance_method", "UnboundMethod#bind_call",
                   "Kernel#binding", "Module#instance_methods")
    target.run('"a".tr("a", "b"); nil')
    assert_equal %(String#tr(self.upcase="A", [self]=["a"]) <time>\n), tracer.stop.tree
  end

  test "$! is kept while values are made" do
    code = <<~'RUBY'
      begin
        raise "outer"
      rescue
        catch(:t) { [1].each_index { throw :t } }
        [1].each_index { break }
        begin; [1].each_index { raise "inner" }; rescue; end
        "a".tr("a", "b")
        $seen = $!.message
      end
    RUBY
    target = start("console")
    tracer = trace(target, "--engine", "patch", "--args", "--return", "Array#each_index", "String#tr(1/0)")
    assert_equal '"outer"', target.run(code)
    tracer.stop
  end

  test "ten thousand methods at once" do
    target = start("console")
    target.run('class Many < String; 5000.times { |i| alias_method("same_#{i}", :swapcase) }; end; nil')
    target.run('class Many; 5000.times { |i| define_method("hash_#{i}", Kernel.instance_method(:hash)) }; end; nil')
    tracer = trace(target, "--engine", "patch", "Many#", "--timeout", (20 * Processes::PATIENCE).to_s)
    tracer.wait_for(/tracing 10000 methods/)
    target.run('m = Many.new; 5000.times { |i| m.send("same_#{i}"); m.send("hash_#{i}") }; m.swapcase; m.hash; nil')
    # A call that a busy machine makes take long has two lines.
    called = tracer.stop.tree.scan(/^Many#\w+/).uniq
    assert_equal 10_000, called.size
    assert_equal %w[Many#same_0 Many#hash_0], called.first(2)
    assert_equal "5000", target.run('m = Many.new; 5000.times { |i| m.send("same_#{i}") }')
  end

  test "compiled code that called it before is seen from the first call on, and calls it directly again afterwards" do
    target = start("console")
    target.run("def swap(s) s.swapcase; end; 100_000.times { swap('a') }; nil")
    2.times do
      tracer = trace(target, "--format", "json", "--engine", "patch", "String#swapcase")
      target.run("1000.times { swap('a') }; nil")
      assert_equal 1000, tracer.stop.events("call").size
      target.run("100_000.times { swap('a') }; nil")
    end
  end

  test "a compiler that is switched on meanwhile: what it does not call any more is named" do
    target = start("console")
    unless target.run("defined?(RubyVM::YJIT.enable) && !RubyVM::YJIT.enabled?") == "true"
      skip "no compiler that can be switched on"
    end
    tracer = trace(target, "String#bytesize", "String#swapcase")
    target.run("RubyVM::YJIT.enable; nil")
    wait_until("it is told") { tracer.stderr.include?("switched on") }
    assert_match(/a compiler was switched on: calls of String#bytesize may not be seen from now on: YJIT has code of its own/,
                 tracer.stderr)
    target.run("def swap(s) s.swapcase; end; 1000.times { swap('a') }; nil")
    assert_equal 1000, tracer.stop.tree.scan(/^String#swapcase/).size
    again = trace(target, "String#swapcase")
    target.run("1000.times { swap('a') }; nil")
    assert_equal 1000, again.stop.tree.scan(/^String#swapcase/).size
    refute_match(/switched on/, again.stderr)
  end

  # Compiled code calls the stub, and cannot be told otherwise as long as another Ractor runs.
  test "YJIT starts anew when the Ractors that were there at the end of a trace are gone" do
    everything = "RubyVM::YJIT.runtime_stats[:invalidate_everything]"
    unless system(*Processes::RUBY, "--yjit", "-e", "exit #{everything}.is_a?(Integer)", err: File::NULL)
      skip "needs a YJIT that counts how often it drops everything"
    end
    target = start("console", ruby_options: ["--yjit", "-W0"])
    [:stop, :kill].each do |ending|
      tracer = trace(target, "String#hash")
      target.run("$ractor = Ractor.new { Ractor.receive }; 100.times { 'a'.hash }; nil")
      tracer.public_send(ending)
      wait_until("the session is over") { Leftovers.queues_of([target]).empty? }
      before = Integer(target.run(everything))
      target.run("$ractor.send(1); $ractor.#{target.run("Ractor.method_defined?(:value)") == "true" ? "value" : "take"}; nil")
      wait_until("YJIT starts anew") { Integer(target.run(everything)) > before }
    end
  end

  test "calls in other Ractors go on, and are counted" do
    skip "no Ractors" unless target_ruby?(">= 3.0")
    target = start("console", ruby_options: ["-W0"])
    join = target.run("Ractor.method_defined?(:value)") == "true" ? "value" : "take"
    target.run("$r = 2.times.map { Ractor.new { " \
               "loop { break if Ractor.receive == :stop; 100.times { 'a'.swapcase } }; 7 } }; nil")
    if target.run("defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled?") == "true"
      listing = rbprobe("methods", "-p", target.pid.to_s, "--engine", "patch", "String#swapcase").stdout
      assert_match(/none \(.*YJIT cannot be told while several Ractors run\)/, listing)
      next
    end
    tracer = trace(target, "--engine", "patch", "String#swapcase")
    target.run("$r.each { |r| 5.times { r.send(:go) } }; 10.times { 'b'.swapcase }; $r.each { |r| r.send(:stop) }; nil")
    assert_equal "[7, 7]", target.run("$r.map(&:#{join})")
    result = tracer.stop
    assert_equal "String#swapcase <time>\n" * 10, result.tree
    assert_match(/1000 in other Ractors not followed/, result.stderr)
  end

  test "a thread that raises from inside, and methods that take their own frame back" do
    code = <<~'RUBY'
      10.times do
        begin; raise "a"; rescue; end
        begin; Object.new.nothing; rescue NoMethodError; end
        begin; Thread.current.raise(ArgumentError); rescue ArgumentError; end
        Thread.new { Thread.stop; 1 }.tap do |t|
          Thread.pass until t.stop?
          t.raise("x") rescue nil
          t.report_on_exception = false
          t.join rescue nil
        end
        Fiber.new { Fiber.yield(1) }.resume
        Enumerator.new { |y| y << 1; y << 2 }.tap { |e| e.next; e.next; begin; e.next; rescue StopIteration; end }
        loop { raise StopIteration }
        catch(:x) { 3.times { |i| throw :x if i == 1 } }
        [3, 1].sort_by { |x| -x }.each_slice(2) { |a| next }
      end
      :well
    RUBY
    target = start("console")
    before = target.run(code)
    tracer = trace(target, "--engine", "patch", "Kernel#", "Thread#", "Fiber#", "Fiber.", "Enumerator#", "Array#",
                   "BasicObject#", "Exception#", "Thread.", "Enumerator::Yielder#", "--timeout", (5 * Processes::PATIENCE).to_s)
    assert_equal before, target.run(code)
    assert_match(/Kernel#raise ! RuntimeError: a <time>$/, tracer.stop.tree)
    assert_equal before, target.run(code)
  end

  test "Method objects are equal, and the same Hash keys, as before" do
    look = 'm = Hash.instance_method(:key?); ' \
           '[m.hash, m == Hash.instance_method(:member?), m.eql?(Hash.instance_method(:key?)), ' \
           '$keys[m], $keys[{}.method(:key?).unbind], $bound[$bound.keys[0]], $h.method(:key?) == $h.method(:member?), m == 1, ' \
           'Hash.instance_method(:dig) == m]'
    target = start("console")
    target.run("$keys = { Hash.instance_method(:key?) => 1 }; $bound = { {}.method(:key?) => 2 }; $h = {}; nil")
    before = target.run(look)
    tracer = trace(target, "--engine", "patch", "Hash#key?", "Hash#dig")
    assert_equal before, target.run(look)
    target.run("$h.key?(1)")
    second = trace(target, "--engine", "patch", "Hash#key?", "Method#", "UnboundMethod#")
    assert_equal before, target.run(look)
    second.stop
    target.run("$h.key?(1)")
    assert_equal before, target.run(look)
    assert_equal "Hash#key? <time>\n" * 2, tracer.stop.tree
    assert_equal before, target.run(look)
  end

  # A method whose function the VM or its compiler goes past would be armed and never seen.
  test "what is armed is seen, also where the VM or its compiler has ways of its own to call methods" do
    prepare = <<~'RUBY'
      sources = { String => '+"b c"', Array => "[3, 1]", Hash => "{ a: 1 }", Integer => "7", Float => "0.5", Symbol => ":b",
                  Range => "(1..3)", NilClass => "nil", Regexp => "/b/", Kernel => "Object.new", Comparable => "3",
                  Time => "Time.at(0)", Proc => "proc { }" }
      $calls = sources.flat_map do |owner, source|
        names = owner.public_instance_methods(false).select do |name|
          name =~ /\A[a-z_]+[?]?\z/ && [0, -1].include?(owner.instance_method(name).arity)
        end
        (names - %i[display]).map do |name|
          calls = "i = 0; while i < times; r = #{source}; begin; r.#{name}; rescue StandardError; end; i += 1; end"
          ["#{owner}##{name}", eval("->(times) { #{calls} }")]
        end
      end.to_h
      $calls.each_value { |call| call.call(300) }
      $calls.size > 300
    RUBY
    target = start("console", ruby_options: ["-W0"])
    assert_equal "true", target.run(prepare)
    names = target.run("$calls.keys.join(' ')").undump.split
    listing = rbprobe("methods", "-p", target.pid.to_s, "--engine", "patch", *names)
    armed = listing.stdout.lines.select { |line| line.include?("  patch") }.map { |line| line[/\S+/] } & names
    assert_operator armed.size, :>, 200, listing.stdout
    tracer = trace(target, "--engine", "patch", *armed)
    target.run("$calls.values_at(*#{armed.inspect}).each { |call| call.call(20) }; nil")
    seen = tracer.stop.tree.lines.map { |line| line.strip[/[^\s<(]+/] }.tally
    assert_empty(armed.select { |name| seen.fetch(name, 0) < 20 })
  end

  # A Fiber that is made within a patched method runs when that is over; callcc looks through all that rb_ensure is in the
  # midst of.
  CONTINUATIONS = <<~RUBY.freeze
    $VERBOSE = nil
    require "continuation"
    def deep(depth, &block) depth.zero? ? callcc(&block) : deep(depth - 1, &block); end
    20.times.sum do |i|
      fiber = [i].map { |n| Fiber.new { deep(3) { |continuation| continuation.call(n) } } }.first
      [[3, 1, 2].sort.to_s, i.to_s * 50].each { |text| text.gsub(/1/) { "2" } }
      fiber.resume
    end
  RUBY

  test "callcc in a fiber that was made within a patched method" do
    target = start("console")
    tracer = trace(target, "--engine", "patch", "Array#map", "Array#each", "Class#new", "Kernel#callcc",
                   "Continuation#call", "Fiber#resume")
    assert_equal "190", target.run(CONTINUATIONS)
    assert_exit 0, tracer.stop
  end
end
