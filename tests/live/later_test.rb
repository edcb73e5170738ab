# What becomes of a trace while its process goes on to change: methods are defined anew, classes get methods and names after
# the methods are there.

require_relative "helper"

class LaterTest < LiveTest
  # What tracing these selectors prints while the target runs the pieces of code, one after the other, each as a program of
  # its own.
  def tree_of(*pieces, selectors:, options: [])
    target = start("shop")
    tracer = trace(target, *options, *Array(selectors))
    pieces.each { |piece| target.run("#{piece}\nnil") }
    tracer.stop.tree
  end

  # What tracing a program from its first line on prints.
  def traced_program(code, *selectors)
    directory, site = directory_of_target
    File.write("#{directory}/program.rb", code)
    tracer = launch("exec", "-v", "-o", "#{directory}/trace", "--yes", "--format", "json", *selectors, "--", *Processes::RUBY,
                    "#{site}/program.rb", env: Processes::TARGET_ENV)
    assert_exit 0, tracer.wait
    File.read("#{directory}/trace")
  end

  # --- Methods that are defined anew

  test "arguments and expressions are those of the new definition" do
    tree = tree_of("class Till; def f(a, b); a + b; end; end", "Till.new.f(1, 2)", "class Till; def f(x); x; end; end",
                   "Till.new.f(3)", selectors: "Till#f", options: %w[--args --return])
    assert_equal <<~TREE, tree
      Till#f(a=1, b=2) => 3 <time>
      Till#f(x=3) => 3 <time>
    TREE
  end

  test "a method of a class that has a prepended module is its own, not that of the module" do
    tree = tree_of("class Till; def f(a); a; end; end; Till.prepend(Module.new { def f(b); super; end })",
                   "class Till; def f(x); x; end; end", "Till.new.f(3)",
                   selectors: "Till#f", options: %w[--args --return]).gsub(/#<Module:0x\h+>/, "Module")
    assert_equal <<~TREE, tree
      Module#f(b=3)
         Till#f(x=3) => 3 <time>
      Module#f => 3 <time>
    TREE
  end

  test "a definition elsewhere costs the same however many methods the class of a selector has" do
    target = start("shop")
    target.run("class Till; 2000.times { |i| define_method(\"f\" + i.to_s) { } }; end; nil")
    tracer = trace(target, "Till#")
    made = target.run("before = GC.stat(:total_allocated_objects); " \
                      "20.times { Object.new.define_singleton_method(:q) { } }; GC.stat(:total_allocated_objects) - before")
    assert_operator Integer(made), :<, 2000, "objects made by 20 definitions"
    target.run("Till.new.f7")
    assert_equal "Till#f7 <time>\n", tracer.stop.tree
  end

  test "a pattern of a class means what the class is given later, by another constant or in a prepended module, too" do
    tree = tree_of("class Till; prepend Module.new; def f; end; end; Cash = Till; Wrap = Till.ancestors.first",
                   "class Till; def g; end; end; module Wrap; def f; super; end; def h; end; end; def Till.s; end",
                   "Till.new.f; Till.new.g; Till.new.h; Object.new.extend(Wrap).h; Till.s", selectors: ["Cash#", "Cash."])
    assert_equal <<~TREE, tree
      Wrap#f
         Till#f <time>
      Wrap#f <time>
      Till#g <time>
      Wrap#h <time>
      Till.s <time>
    TREE
  end

  test "a method that is left out is counted once, and is not new when its class is looked at again" do
    target = start("shop")
    target.run("class Till; attr_reader :cash; def f; end; end; nil")
    tracer = trace(target, "Till#")
    target.run("5.times { |i| Object.const_set(\"Other\" + i.to_s, Module.new).const_set(:Till, Class.new { def f; end }) }; " \
               "class Till; def g; end; end; Till.new.g; nil")
    result = tracer.stop
    assert_equal 1, result.stderr.scan(/Till#cash.* left out: /).size, result.stderr
    assert_match(/ 1 (attribute left out|method cannot be traced): Till#cash; /, result.stderr)
    assert_equal "Till#g <time>\n", result.tree
  end

  test "what is defined again and again, or for object after object, is traced 1,000 times: it would fill the process's memory" do
    target = start("shop")
    target.run("class Till; def f; end; end; nil")
    tracer = trace(target, "Till#f", "zork")
    target.run("$VERBOSE = nil; 1010.times { eval('class Till; def f; end; end; Till.new.f') }; nil")
    kept = "GC.start; ObjectSpace.count_objects[:T_CLASS]"
    before = Integer(target.run(kept))
    target.run("3000.times { o = Object.new; def o.zork; end; o.zork; Class.new { def zork; end }.new.zork }; nil")
    assert_operator Integer(target.run(kept)), :<, before + 3000
    target.run("Named = Class.new { def zork; end }; nil")
    wait_until("the class with a name is traced", 60) { target.run("Named.new.zork") && tracer.stdout.include?("Named#zork") }
    result = tracer.stop
    counts = result.tree.lines.map { |line| line[/Till#f|Named|zork/] }.tally
    assert_equal({ "Till#f" => 1000, "zork" => 1000 }, counts.slice("Till#f", "zork"))
    assert_equal 1, result.stderr.scan(/Till#f was defined anew 1000 times since the trace began/).size
    assert_equal 1, result.stderr.scan(/1000 methods of objects, and of classes without a name, were defined/).size
  end

  # Where there are many classes a look for what was overlooked takes its time, and the next one is far.
  test "a class that gets its name between two looks is traced" do
    target = start("shop")
    target.run("$many = Array.new(60_000) { Class.new }; nil")
    tracer = trace(target, "zork")
    target.run("1000.times { o = Object.new; def o.zork; end }; nil")
    3.times do |number|
      target.run("Class.new { def zork; end }; nil")
      sleep 0.6
      target.run("Named#{number} = Class.new { def zork; end }; nil")
      wait_until("class #{number} is traced") do
        target.run("Named#{number}.new.zork")
        tracer.stdout.include?("Named#{number}#zork")
      end
    end
    assert_exit 0, tracer.stop
  end

  # `delegate` makes such a module: a copy of Kernel.
  { "a selector for many methods" => %w[Later#*], "--no-hook" => %w[--no-hook Later#size] }.each do |what, arguments|
    test "a class that has no name yet brings no engine hook, which #{what} does without" do
      target = start("console")
      tracer = trace(target, *arguments)
      target.run("$copy = Kernel.dup; $nameless = Class.new { attr_accessor :size; def sum; 5; end; include $copy }; nil")
      target.run("Later = $nameless; Later.new.sum")
      stopped = tracer.stop
      assert_exit 0, stopped
      assert_empty stopped.stderr.lines.grep(/engine hook(:|$)/)
      assert_equal arguments.last == "Later#*" ? "Later#sum <time>\n" : "", stopped.tree
    end
  end

  test "an expression that names what only one of the definitions has" do
    tree = tree_of("class Till; def f(a); a; end; end; Till.new.f(1)",
                   "class Till; def f(b, a = 5); b; end; end; Till.new.f(2)", selectors: "Till#f(a, a + 1)")
    assert_equal <<~TREE, tree
      Till#f(a=1, a + 1=2) <time>
      Till#f(a=5, a + 1=6) <time>
    TREE
  end

  test "a former definition that is still called has its own arguments" do
    tree = tree_of("class Till; def f(a, b); a + b; end; end; $till = Till.new; $former = $till.method(:f)",
                   "class Till; def f(x); x; end; end", "$till.f(1); $former.call(2, 3); $till.f(4)",
                   selectors: "Till#f", options: %w[--args])
    assert_equal "Till#f(x=1) <time>\nTill#f(a=2, b=3) <time>\nTill#f(x=4) <time>\n", tree
  end

  test "a definition that is made again from the same code is one" do
    tree = tree_of("$till = Class.new; 3.times { class Till; def f(a); a; end; end }",
                   "3.times { class Till; def f(a); a; end; end }; Till.new.f(1)",
                   "class Till; define_method(:f, instance_method(:f)); end; Till.new.f(2)",
                   selectors: "Till#f", options: %w[--args])
    assert_equal "Till#f(a=1) <time>\nTill#f(a=2) <time>\n", tree
  end

  test "a method that is defined anew while it runs" do
    tree = tree_of("class Till; def f(a); self.class.class_eval('def f(b, c); b; end'); f(2, 3); end; end",
                   "Till.new.f(1); Till.new.f(4, 5)", selectors: "Till#f", options: %w[--args --return])
    assert_equal <<~TREE, tree
      Till#f(a=1)
         Till#f(b=2, c=3) => 2 <time>
      Till#f => 2 <time>
      Till#f(b=4, c=5) => 4 <time>
    TREE
  end

  %w[auto hook].each do |engine|
    test "defined anew, from Ruby to C and back, engine #{engine}" do
      tree = tree_of("class Till; def f(a); a; end; end; Till.new.f([1])",
                     "class Till; define_method(:f, Kernel.instance_method(:instance_of?)); end; Till.new.f(Object)",
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
    assert_equal ["Shop#nothing(self)", "No*.thing"],
                 result.stderr.scan(/^rbprobe: process #{target.pid}: (.*) never matched a method$/).flatten
  end

  test "of very many selectors that match nothing the first are named, with -v all" do
    target = start("shop")
    selectors = Array.new(30) { |i| "Many#no#{i}" }
    result = launch("trace", "-p", target.pid.to_s, "--duration", "0.1", *selectors).wait
    assert_equal selectors.first(20), result.stderr.scan(/no method matches (Many#\S+) yet/).flatten
    assert_equal selectors.first(20), result.stderr.scan(/: (\S*) never matched a method/).flatten
    assert_match(/: no method matches 10 more selectors yet \(waiting for it\): -v names them$/, result.stderr)
    assert_match(/: 10 more selectors never matched anything: -v names them$/, result.stderr)
    all = rbprobe("methods", "-v", "-p", target.pid.to_s, *selectors).stderr
    assert_equal selectors, all.scan(/no method matches (Many#\S+)$/).flatten
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

  # --- Methods that are there before the class, or before its name

  BASE = "class Ba; def inh; 1; end; def self.si; 2; end; end; module Mi; def inc; 3; end; end"

  # Before 3.0 the VM gives no events for attributes, on 3.1 and 3.2 for a Struct's accessors.
  ATTRIBUTES = ("Bar#u Baz#u Baz#u=" unless Processes.target_ruby?("< 3.0")).to_s +
               (" Pt#u" unless Processes.target_ruby?("~> 3.1.0") || Processes.target_ruby?("~> 3.2.0")).to_s

  # What the process comes to: code that is run in one go, calls included; selectors; the calls that are to be seen.
  CASES = {
    "a subclass" =>
      ["#{BASE}; class Su < Ba; end; Su.new.inh; Su.si; Ba.new.inh; Ba.si", %w[Su#inh Su.si], "Ba#inh Ba.si"],
    "a subclass that is empty, of a class with an `inherited` without super" =>
      ["#{BASE}; class Ba; def self.inherited(c); end; end; class Su < Ba; def own; end; end; Su.new.inh; Su.new.own",
       %w[Su#inh Su#own], "Ba#inh Su#own"],
    "include, extend and prepend, from within the class" =>
      ["#{BASE}; module Pre; def inc; super; end; end; class Su; include Mi; extend Mi; prepend Pre; end; Su.new.inc; Su.inc",
       %w[Su#inc Su.inc], "Pre#inc Mi#inc Mi#inc"],
    "include, extend and prepend, from outside" =>
      ["#{BASE}; module Pre; def inc; super; end; end; class Su; end; Su.include(Mi); Su.new.inc; Su.extend(Mi); Su.inc; " \
       "Su.prepend(Pre); Su.new.inc", %w[Su#inc Su.inc], "Mi#inc Mi#inc Pre#inc Mi#inc"],
    "hooks of the module's own that do not call super" =>
      ["#{BASE}; module Mi; def self.included(c); end; def self.extended(c); end; end; class Su; include Mi; extend Mi; end; " \
       "Su.new.inc; Su.inc", %w[Su#inc Su.inc], "Mi#inc Mi#inc"],
    "append_features that calls super, as concerns do" =>
      ["#{BASE}; module Mi; def self.append_features(c); super; end; end; class Su; include Mi; end; Su.new.inc",
       %w[Su#inc], "Mi#inc"],
    "a module that the class's superclass includes" =>
      ["#{BASE}; class Su < Ba; end; Ba.include(Mi); Su.new.inc", %w[Su#inc], "Mi#inc"],
    "a class of Class.new, given a name" =>
      ["Bar = Class.new { def zed; end; def self.zing; end; def other; end }; Bar.new.zed; Bar.zing; Bar.new.other",
       %w[Bar#zed Bar.zing], "Bar#zed Bar.zing"],
    "a class of Class.new, given a name, and a pattern" =>
      ["Bar = Class.new { def zed; end; def self.zing; end; def other; end }; Bar.new.zed; Bar.zing; Bar.new.other",
       %w[Ba*#z* B*.z*], "Bar#zed Bar.zing"],
    "a class of Class.new that inherits and includes" =>
      ["#{BASE}; Bar = Class.new(Ba) { include Mi }; Bar.new.inh; Bar.new.inc; Bar.si; Ba.new.inh", %w[Bar#inh Bar#inc Bar.si],
       "Ba#inh Mi#inc Ba.si"],
    "a class of Class.new that includes after it has its name" =>
      ["#{BASE}; Bar = Class.new; Bar.new; Bar.include(Mi); Bar.new.inc", %w[Bar#inc], "Mi#inc"],
    "Struct.new with a block" =>
      ["Pt = Struct.new(:u) { def sum; u + 1; end }; Pt.new(1).sum", %w[Pt#sum], "Pt#sum"],
    "Module.new" =>
      ["Mod = Module.new { def self.x; end; def y; end }; Mod.x; Object.new.extend(Mod).y", %w[Mod.x Mod#y], "Mod.x Mod#y"],
    "const_set" =>
      ["bar = Class.new { def zed; end }; Object.const_set(:Bar, bar); bar.new.zed", %w[Bar#zed], "Bar#zed"],
    "a constant within a class" =>
      ["class Out; Bar = Class.new { def zed; end }; end; Out::Bar.new.zed; Out.const_set(:Baz, Class.new { def zed; end }); " \
       "Out::Baz.new.zed", %w[Out::Bar#zed Out::Ba*#zed], "Out::Bar#zed Out::Baz#zed"],
    "a module that gets its name after those within it" =>
      ["out = Module.new; out.const_set(:Bar, Class.new { def zed; end; def self.zing; end }); Out = out; Out::Bar.new.zed; " \
       "Out::Bar.zing", %w[Out::Bar#zed Out::*.zing], "Out::Bar#zed Out::Bar.zing"],
    "all methods of a class" =>
      ["class Bar; def zed; end; def self.zing; end; end; Bar.new.zed; Bar.zing; " \
       "Baz = Class.new { def zed; end; def self.zing; end }; Baz.new.zed; Baz.zing", %w[Bar#* Baz.], "Bar#zed Baz.zing"],
    "the operator, where a class has it" =>
      ["class Bar; def *(o); end; def zed; end; end; Bar.new * 1; Bar.new.zed", %w[Bar#*], "Bar#*"],
    "attributes" =>
      ["class Bar; attr_accessor :u; end; Bar.new.u; Baz = Class.new { attr_accessor :u }; Baz.new.u; Baz.new.u = 1; " \
       "Pt = Struct.new(:u); Pt.new(1).u", %w[Bar#u Baz#u Baz#u= Pt#u], ATTRIBUTES.lstrip],
    "Data.define" =>
      ["Point = defined?(Data) && Data.respond_to?(:define) ? Data.define(:u) { def sum; 1; end } : " \
       "Struct.new(:u) { def sum; 1; end }; Point.new(1).sum", %w[Point#sum], "Point#sum"],
    "an autoloaded class, and what is loaded again" =>
      ["#{BASE}; file = %(/tmp/later-\#{$$}.rb); " \
       "File.write(file, %(class Lazy < Ba; def work; end; end; Lan = Class.new(Ba) { def work; end })); " \
       "2.times { autoload(:Lazy, file); Lazy.new.work; Lazy.new.inh; Lan.new.work; Lan.new.inh; " \
       "%i[Lazy Lan].each { |name| Object.send(:remove_const, name) }; $LOADED_FEATURES.delete(file) }; File.delete(file)",
       %w[Lazy#work Lazy#inh La*#work Lan#inh], (["Lazy#work Ba#inh Lan#work Ba#inh"] * 2).join(" ")],
    "exceptions of the application's own hooks" =>
      ["#{BASE}; class Ba; def self.inherited(c); super; raise 'no'; end; end; class Module; " \
       "prepend(Module.new { private def const_added(n); super; raise 'no'; end }); end; " \
       "begin; class Su < Ba; end; rescue RuntimeError; end; " \
       "begin; Bar = Class.new { def zed; end }; rescue RuntimeError; end; " \
       "Su.new.inh; Bar.new.zed", %w[Su#inh Bar#zed], "Ba#inh Bar#zed"],
    "two names in one line" =>
      ["One = Two = Class.new { def zed; end }; One.new.zed", %w[One#zed], "Two#zed"],
    "what is removed and defined again" =>
      ["#{BASE}; class Su < Ba; end; Su.new.inh; Object.send(:remove_const, :Su); class Su < Ba; def own; end; end; " \
       "Su.new.inh; Su.new.own;" \
       "Object.send(:remove_const, :Su); Su = Class.new(Ba) { def own; end }; Su.new.inh; Su.new.own", %w[Su#inh Su#own],
       "Ba#inh Ba#inh Su#own Ba#inh Su#own"],
  }.freeze

  # The methods called, in the order in which the calls began.
  def calls_in(json)
    calls = json.each_line.map { |line| JSON.parse(line) }.select { |object| object["type"] == "call" }
    calls.sort_by { |call| call["start_ns"] }.map { |call| call["method"] }.join(" ")
  end

  CASES.each do |what, (code, selectors, calls)|
    test "#{what}, while attached" do
      target = start("shop")
      tracer = trace(target, "--format", "json", *selectors)
      target.run("#{code}\nnil")
      assert_equal calls, calls_in(tracer.stop.stdout)
    end

    test "#{what}, from the first line on" do
      assert_equal calls, calls_in(traced_program(code, *selectors))
    end
  end

  # --- What nobody tells of is looked for now and then

  test "what no hook tells of" do
    target = start("shop")
    tracer = trace(target, "Second#inh", "Su#inh", "Su#nothing")
    target.run("#{BASE}; class Module; prepend(Module.new { def const_added(name); end; private :const_added }); end; " \
               "class Class; prepend(Module.new { def inherited(other); end; private :inherited }); end; " \
               "class Su < Ba; end; Second = Ba; nil")
    wait_until("they are traced") do
      target.run("Su.new.inh; Second.new.inh; Ba.new.inh; nil")
      tracer.stdout.scan("Ba#inh").size > 3
    end
    assert_equal ["Su#nothing"], tracer.stop.stderr.scan(/: (\S*) never matched/).flatten
  end

  test "accessors of a Struct are traced, or refused with the reason" do
    target = start("shop")
    tracer = trace(target, "Pt#u", "Pt#u=", "Pt#v")
    target.run("Pt = Struct.new(:u, :v); nil")
    wait_until("they are traced or refused") do
      target.run("Pt.new(1, 2).then { |pt| pt.u; pt.u = 2; pt.v }; nil")
      %w[Pt#u Pt#u= Pt#v].all? do |name|
        refused = /#{name[/#.*/]} cannot be traced by engine \w+: .*this Ruby gives no events/
        tracer.stdout.include?("#{name} <") || tracer.stderr.match?(refused)
      end
    end
    # Before it has its name a class is traced under none; what is refused then has matched nothing.
    stderr = tracer.stop.stderr
    refused = stderr.scan(/(#\w+=?) cannot be traced/).flatten
    assert_empty stderr.scan(/: Pt(\S*) never matched/).flatten - refused
  end
end
