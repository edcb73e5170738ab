# Which methods a selector means in a live process, and what happens to it when the process changes.

require_relative "helper"

class SelectorsTest < LiveTest
  # What `rbprobe methods` says of these selectors in a target that has run the code: "Class#method" of each line.
  def matching(code, *selectors)
    target = start("shop")
    target.run("#{code}\nnil")
    names_listed(rbprobe("methods", "-p", target.pid.to_s, *selectors))
  end

  def names_listed(result)
    result.stdout.scan(/^\s*(\S*[#.]\S+)/).flatten
  end

  # What tracing these selectors prints while the target runs the code after having run the preparation.
  def tree_of(preparation, code, *selectors)
    target = start("shop")
    target.run("#{preparation}\nnil")
    tracer = trace(target, *selectors)
    target.run("#{code}\nnil")
    tracer.stop.tree
  end

  test "methods lists what would be traced, with file and line, and arms nothing" do
    target = start("shop")
    result = rbprobe("methods", "-p", target.pid.to_s, "Shop#price", "Array#push")
    assert_exit 0, result
    assert_match(%r{Shop#price\b.*tests/apps/shop\.rb:\d+}, result.stdout)
    assert_match(/Shop#price\b.*\btarget\b|\btarget\b.*Shop#price\b/, result.stdout)
    assert_match(/Array#push\b.*\bpatch\b/, result.stdout)
  end

  test "all instance methods of a class, all of its singleton methods" do
    assert_equal %w[Shop#countdown Shop#each_item Shop#price],
                 (matching("", "Shop#") & %w[Shop#price Shop#countdown Shop#each_item Shop.open]).sort
    assert_equal %w[Shop.open], matching("", "Shop.")
  end

  test "globs in class and method" do
    assert_equal %w[Billing::Card#charge Billing::Cash#precharge],
                 matching(<<~RUBY, "Billing::*#*charge*").sort
                   module Billing
                     class Card; def charge; end; def pay; end; end
                     class Cash; def precharge; end; end
                   end
                 RUBY
  end

  test "a method that is only a star: all methods, but of one class that has such an operator, the operator" do
    code = "module Starred; class Card; def pay; end; def self.make; end; end; class Sum < Array; def add; end; end; " \
           "class Factor; def *(other); end; def zero; end; end; end"
    assert_equal %w[Starred::Card#pay], matching(code, "Starred::Card#*")
    all = %w[Starred::Card#pay Starred::Factor#* Starred::Factor#zero Starred::Sum#add]
    assert_equal all, matching(code, "Starred::*#*").sort
    assert_equal %w[Starred::Factor#*], matching(code, "Starred::Factor#*")
    assert_equal %w[Starred::Factor#*], matching(code, "Starred::*#\\*")
    assert_equal %w[Starred::Factor#*], matching(code, "Starred::Factor#\\*")
    assert_empty matching(code, "Starred::Card#\\*")
    assert_equal %w[Integer#**], matching(code, "Integer#\\*\\*")
    assert_equal "Starred::Factor#zero <time>\nStarred::Factor#*(other=2) <time>\n",
                 tree_of(code, "Starred::Factor.new.zero; Starred::Factor.new * 2", "--args", "Starred::*#*")
    assert_equal "Starred::Factor#* <time>\n",
                 tree_of(code, "Starred::Factor.new.zero; Starred::Factor.new * 2", "Starred::*#\\*")
    assert_equal %w[Starred::Card.make], matching(code, "Starred::*.*")
    assert_equal "Starred::Later#added <time>\n",
                 tree_of(code, "module Starred; class Later; def added; end; end; end; Starred::Later.new.added", "Starred::*#*")
    assert_empty matching(code, "*").grep(/pay|zero/)
  end

  test "a class may be written with a leading ::" do
    assert_equal %w[Shop.open Shop#price], matching("", "::Shop.open", "::Shop#price")
  end

  test "a class alone is a method's name, and says how to name its methods" do
    target = start("shop")
    assert_match(/no method matches Shop\. Of a class, # after its name means/,
                 rbprobe("methods", "-p", target.pid.to_s, "Shop").stderr)
    assert_match(/no method matches Shop yet \(waiting for it\)\. Of a class, # after/, trace(target, "Shop").stop.stderr)
    refute_match(/Of a class/, rbprobe("methods", "-p", target.pid.to_s, "shop").stderr)
  end

  # What is said of selectors that match nothing, by `methods` and by `trace`.
  def unmatched(target, *selectors)
    listed = rbprobe("methods", "-p", target.pid.to_s, *selectors)
    assert_exit 0, listed
    [listed, trace(target, *selectors).stop].map do |result|
      result.stderr.scan(/^rbprobe: process #{target.pid}: (no method matches .*)$/).flatten
    end
  end

  SIMILAR = "module Billing; class Order; def save; end; def self.find; end; end; end; module Api; class Order; end; end; " \
            "module Deep; module Er; class Order < Billing::Order; end; end; end; class Cart; def self.opened; end; end; " \
            "module Tool; def self.mend; end; end; module Kit; module Tool; def self.mend; end; end; end; " \
            "(1..5).each { |i| eval(%(module M\#{i}; class Many; def go; end; end; end)) }"

  test "a class that is named in part: those that were probably meant" do
    target = start("shop")
    target.run("#{SIMILAR}\nnil")
    hints = {
      "Order#save" => "Billing::Order#save, Deep::Er::Order#save",
      "Api::Order#save" => "Billing::Order#save, Deep::Er::Order#save",
      "Order.find" => "Billing::Order.find, Deep::Er::Order.find", "Cart#opened" => "Cart.opened",
      "Box::Tool.mend" => "Tool.mend, Kit::Tool.mend",
      "Order#nothing_has_this_name" => nil, "Cart#save" => nil, "Many#go" => /\A(M\d::Many#go(, )?){3}, \.\.\.\z/,
      "Many#g*" => /\A(M\d::Many#g\*(, )?){3}, \.\.\.\z/, "CART.opened" => "Cart.opened",
    }
    texts = unmatched(target, *hints.keys)
    [["", texts[0]], [" yet (waiting for it)", texts[1]]].each do |state, lines|
      assert_equal hints.size, lines.size
      hints.each do |selector, meant|
        line = lines.shift
        assert_equal "no method matches #{selector}#{state}", line[/\A.*?(?=\. Did|\z)/]
        found = line[/\. Did you mean (.*)\?\z/, 1].to_s
        meant.is_a?(Regexp) ? assert_match(meant, found) : assert_equal(meant.to_s.split(", ").sort, found.split(", ").sort)
      end
    end
  end

  test "letters that are wrong, of a method, of a class, and of a method without a class" do
    target = start("shop")
    target.run("#{SIMILAR}\nclass Billing::Order; def charge_all; end; private def refund; end; end; nil")
    hints = {
      "Billing::Order#svae" => "Billing::Order#save", "Api::Order#svae" => "Billing::Order#save, Deep::Er::Order#save",
      "Order#refnud" => "Billing::Order#refund, Deep::Er::Order#refund", "Cart.openned" => "Cart.opened",
      "Ordre#charge_all" => "Billing::Order#charge_all, Deep::Er::Order#charge_all",
      "chargeall" => "Billing::Order#charge_all", "openned" => "Cart.opened",
      "Billing::Order#nothing" => "", "zork_of_nobody" => "", "Zork#save" => "", "Order#vsae_all" => ""
    }
    texts = unmatched(target, *hints.keys)
    assert_equal(hints.map { |name, meant| "no method matches #{name}#{". Did you mean #{meant}?" unless meant.empty?}" },
                 texts[0].map { |line| line.sub(/(?<=mean ).*(?=\?\z)/) { |meant| meant.split(", ").sort.join(", ") } })
    assert_equal texts[0].map { |line| line[/mean .*/] }, texts[1].map { |line| line[/mean .*/] }
    assert_includes texts[1].first, "no method matches Billing::Order#svae yet (waiting for it). Did you mean"
  end

  test "a class's name that begins with a small letter is refused with what the process has instead" do
    target = start("shop")
    target.run("#{SIMILAR}\nclass OrderItem; def drop; end; end; nil")
    orders = "Billing::Order#save, Deep::Er::Order#save"
    { "order#save" => ["order", orders], "save#" => ["save", "Billing::Order#save"], "svae#" => ["svae", "Billing::Order#save"],
      "order_item#drop" => ["order_item", "OrderItem#drop"], "ordr#save" => ["ordr", orders],
      "cart#opened" => ["cart", "Cart.opened"], "billing::order.find" => ["billing", "Billing::Order.find, Deep::Er::Order.find"],
      "zork#save" => ["zork", nil, "save"], "nothing_of_this#" => ["nothing_of_this", nil, "nothing_of_this"] }
      .each do |selector, (part, meant, method)|
      refusal = "selector \"#{selector}\": \"#{part}\" is no class"
      answer = meant ? ". Did you mean #{meant}?" : "; write #{method} alone for the methods of that name in all classes"
      [%w[trace], %w[methods], %w[stat Shop#price]].each do |command, *others|
        result = assert_refused(1, /is no class/, command, "-p", target.pid.to_s, *others, selector)
        said = result.stderr.sub(/(?<=mean ).*(?=\?$)/) { |list| list.split(", ").sort.join(", ") }
        assert_equal "rbprobe: process #{target.pid}: #{refusal}#{answer}\n", said
      end
    end
    assert_refused 2, /"order" is no class: .* write Order#save or/, "exec", "order#save", "--", "true"
  end

  test "the same in a large heap, where only classes are asked" do
    target = start("shop")
    target.run("#{SIMILAR}\n$kept = Array.new(400_000) { Object.new }; nil")
    listed, traced = unmatched(target, "Order#save", "Box::Tool.mend")
    assert_equal listed, traced.map { |line| line.sub(" yet (waiting for it)", "") }
    known = Processes::RUBY_VERSION_OF_TARGET.to_f >= 3.1
    assert_equal known, listed.first.include?("Billing::Order#save")
    assert_equal "no method matches Box::Tool.mend", listed.last
  end

  test "looking for what was meant runs nothing of the application's" do
    target = start("shop")
    target.run(<<~RUBY)
      $asked = []
      module Billing; autoload :Order, "/nonexistent"; end
      class Sly
        class Order; def save; end; end
        def self.name; $asked << :name; super; end
        def self.method_defined?(*); $asked << :method_defined?; super; end
        def self.subclasses; $asked << :subclasses; super; end
        def self.respond_to_missing?(*); $asked << :respond_to; super; end
      end
      def (Sly::Order).name; $asked << :name; super; end
      nil
    RUBY
    texts = unmatched(target, "Order#save")
    assert_equal ["no method matches Order#save. Did you mean Sly::Order#save?"], texts.first
    assert_equal "[]", target.run("$asked")
  end

  test "a bare name matches in any class" do
    names = matching("class Other; def price; end; end", "price")
    assert_includes names, "Shop#price"
    assert_includes names, "Other#price"
  end

  test "private and protected methods" do
    assert_equal ["Shop#secret(word=:x) <time>\n"],
                 tree_of("", "$shop.send(:secret, :x)", "Shop#secret(word)").lines
  end

  test "a method that is inherited is found where it is defined" do
    assert_equal "Shop#price <time>\n", tree_of("class Kiosk < Shop; end", "Kiosk.new.price(:a)", "Kiosk#price")
  end

  test "singleton methods: of a class, of a module, of an object" do
    assert_match(/\AShop\.open\b/, tree_of("", "Shop.open", "Shop.open"))
    assert_equal "Tools.mend <time>\n", tree_of("module Tools; def self.mend; end; end", "Tools.mend", "Tools.mend")
    assert_match(/special <time>\n\z/, tree_of("def $shop.special; end", "$shop.special", "special"))
  end

  test "module functions" do
    assert_match(/helper <time>\n\z/, tree_of("module Help; module_function; def helper; end; end", "Help.helper", "Help.helper"))
  end

  test "a prepended module and the method it hides, which super calls" do
    assert_equal "Polite#price\n   Shop#price <time>\nPolite#price <time>\n",
                 tree_of("module Polite; def price(item); super; end; end; Shop.prepend(Polite)", "$shop.price(:a)",
                         "Polite#price", "Shop#price")
  end

  test "an alias is a method of its own" do
    preparation = "class Shop; alias cost price; alias_method :fee, :price; end"
    calls = "$shop.cost(:a); $shop.price(:b); $shop.fee(:c)"
    assert_equal "Shop#cost <time>\n", tree_of(preparation, calls, "Shop#cost")
    assert_equal "Shop#price <time>\n", tree_of(preparation, calls, "Shop#price")
    assert_equal "Shop#cost <time>\nShop#price <time>\nShop#fee <time>\n", tree_of(preparation, calls, "Shop#")
  end

  test "define_method, with a block and with a method" do
    assert_equal "Shop#dynamic(a=1) => 2 <time>\n",
                 tree_of("class Shop; define_method(:dynamic) { |a| a + 1 }; end", "$shop.dynamic(1)", "--args", "--return",
                         "Shop#dynamic")
    assert_match(/\AShop#(?:copy|price) <time>\n\z/,
                 tree_of("class Shop; define_method(:copy, instance_method(:price)); end", "$shop.copy(:a)", "Shop#copy"))
  end

  test "attr_reader and attr_writer are traced, or refused with the reason" do
    target = start("shop")
    result = rbprobe("methods", "-p", target.pid.to_s, "Shop#owner", "Shop#owner=")
    result.stdout.each_line { |line| assert_match(/\b(?:hook|target|patch|none\b.*\w+)/, line) }
    next if result.stdout.match?(/\bnone\b/)

    tracer = trace(target, "Shop#owner", "Shop#owner=")
    target.run("$shop.owner = $shop.owner + '!'; nil")
    assert_equal "Shop#owner <time>\nShop#owner= <time>\n", tracer.stop.tree
  end

  test "method_missing" do
    assert_match(/\AGhost#method_missing\(name=:boo.*\) <time>\n\z/,
                 tree_of("class Ghost; def method_missing(name, *rest); end; end", "Ghost.new.boo(1)", "--args",
                         "Ghost#method_missing"))
  end

  test "refinements" do
    tree = tree_of("module Loud; refine(String) { def shout; upcase; end }; end",
                   "Object.class_eval { eval('using Loud; %q(a).shout', TOPLEVEL_BINDING.dup) }", "*#shout")
    assert_match(/shout <time>\n\z/, tree)
  end

  test "blocks inside a traced method are not calls" do
    assert_equal "Shop#sell_all <time>\n", tree_of("", "$shop.sell_all([1, 2].map(&:to_s).map(&:to_sym))", "Shop#sell_all")
  end

  test "an autoloaded constant is not loaded by looking for it" do
    target = start("shop")
    directory.then do |path|
      File.write("#{path}/lazy.rb", "class Lazy; def work; end; end; $lazy_was_loaded = true")
      target.run("$lazy_was_loaded = false; autoload(:Lazy, '#{path}/lazy.rb')")
    end
    tracer = trace(target, "Lazy#work", "La*#work", "Lazy.")
    assert_equal '[false, "#{path}"]'.sub('"#{path}"', "true"), target.run("[$lazy_was_loaded, !Object.autoload?(:Lazy).nil?]")
    tracer.stop
  end

  test "a selector that matches nothing yet says so, and arms itself when the method is defined" do
    target = start("shop")
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "Later#work", "Shop#tomorrow").wait_until_armed
    tracer.wait_for(/Later#work/)
    target.run("class Later; def work; end; end; class Shop; def tomorrow; end; end; nil")
    wait_until("the new methods are traced") do
      target.run("Later.new.work; $shop.tomorrow; nil")
      tracer.stdout.include?("Later#work") && tracer.stdout.include?("Shop#tomorrow")
    end
    assert_exit 0, tracer.stop
  end

  test "a class that is defined within a namespace later" do
    target = start("shop")
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "Later::*#work").wait_until_armed
    target.run("module Later; class Job; def work; end; end; end; nil")
    wait_until("the new method is traced") do
      target.run("Later::Job.new.work")
      tracer.stdout.include?("Later::Job#work")
    end
    tracer.stop
  end

  test "a method that is redefined stays traced" do
    target = start("shop")
    tracer = trace(target, "Shop#price")
    target.run("$shop.price(:a)")
    target.run("class Shop; def price(item); 7; end; end; nil")
    wait_until("the new definition is traced") do
      target.run("$shop.price(:a)")
      tracer.stdout.lines.size >= 2
    end
    tracer.stop
  end

  test "a method that is redefined while it runs ends once" do
    tree = tree_of("", "class Shop; def price(i); self.class.class_eval('def price(i); 1; end'); 2; end; end; nil", "Shop#price")
    assert_equal "", tree
    tree = tree_of("class Shop; def price(i); self.class.class_eval('def price(i); 1; end'); 2; end; end",
                   "$shop.price(1)", "Shop#price")
    assert_equal "Shop#price <time>\n", tree
  end

  test "a method that is removed harms nothing" do
    target = start("shop")
    tracer = trace(target, "Shop#price", "Shop#countdown")
    target.run("class Shop; remove_method(:price); end; GC.start; $shop.countdown(0)")
    assert_equal "Shop#countdown <time>\n", tracer.stop.tree
  end

  test "methods of anonymous classes, which may die" do
    target = start("shop")
    target.run("$c = Class.new { def hi; end }; nil")
    tracer = trace(target, "hi")
    target.run("$c.new.hi; nil")
    target.run("$c = nil; GC.start; 50.times { Class.new { def hi; end }.new.hi }; GC.start; nil")
    assert_match(/\A#<Class:0x\h+>#hi <time>\n/, tracer.stop.tree)
    assert_equal "3", target.run("1 + 2")
  end

  test "a class whose own methods lie about it" do
    code = "class Liar; def self.name; exit!(9); end; def self.instance_methods(*); exit!(9); end; " \
           "def self.===(o); exit!(9); end; def self.hash; exit!(9); end; def self.to_s; exit!(9); end; " \
           "def work; end; def class; exit!(9); end; end"
    assert_equal "Liar#work(self=#<Liar>) <time>\n", tree_of(code, "Liar.new.work", "Liar#work(self)")
  end

  test "globs in a process with very many classes, some of which have an == of their own" do
    code = "8000.times { |i| Object.const_set(%(Wide\#{i}), Class.new { def self.made; end; class << self; " \
           "attr_reader :known; end }) }; " \
           "class Wide7; def self.==(other); exit!(9); end; class << self; class << self; def of_its_class; end; end; end; end"
    names = matching("#{code}; $shop.singleton_class.define_method(:alone) { }", "Wide*.made", "of_its_class", "alone")
    assert_equal 8000, names.grep(/\AWide\d+\.made\z/).uniq.size
    assert_equal 8002, names.size
  end

  test "selectors that are malformed are refused with the place of the mistake" do
    target = start("shop")
    { "Order::Item" => /class alone/, "Order#save(self" => /character 11/, "#" => /firehose/,
      "Order#sa ve" => /white space/ }.each do |selector, message|
      assert_refused 2, message, "trace", "-p", target.pid.to_s, selector
    end
  end

  test "a thousand selectors and a command of a mebibyte" do
    target = start("shop")
    long = "Shop#price('#{"x" * 60_000}'.size)"
    selectors = Array.new(17) { long } + Array.new(1000) { |i| "Shop#nothing_#{i}" }
    tracer = trace(target, *selectors, "--timeout", "20")
    target.run("$shop.price(:a)")
    assert_match(/\AShop#price\(/, tracer.stop.stdout)
  end

  test "several selectors for one method: the values of them all, each once" do
    code = "class Till; def f(a, b); @c = a; end; end; class Drawer < Till; end"
    {
      ["Till#f(a)", "Till#*(b, a)"] => "Till#f(a=1, b=2) <time>\n",
      ["Till#f", "f(@c)", "Till#f(self)"] => "Till#f(@c=nil, self=#<Till>) <time>\n",
      # Each finds it in its own way, one by what the class inherits.
      ["Drawer#f(a)", "Till#f(b)"] => "Till#f(a=1, b=2) <time>\n",
      ["Till#f(b)", "Drawer#f(a)"] => "Till#f(b=2, a=1) <time>\n",
    }.each { |selectors, tree| assert_equal tree, tree_of(code, "Till.new.f(1, 2)", *selectors), selectors.inspect }
    # Of one that is defined later, too.
    assert_equal "Till#f(a=1, b=2) <time>\n", tree_of("", "#{code}; Till.new.f(1, 2)", "Till#f(a)", "Till#*(b)")
    many = Array.new(2) { |i| "Shop#price(#{Array.new(40) { |k| "#{i}.itself + #{k}" }.join(", ")})" }
    assert_refused 1, /selectors with more than 64 expressions together name one method/,
                   "trace", "-p", start("shop").pid.to_s, *many
  end

  test "with --args a parameter whose name an expression has is shown once, as and where the expression says" do
    target = start("console")
    target.run("class Till; def add(item, price) item end; end; nil")
    tracer = trace(target, "Till#add(self.class, price, item: price + 1)", "String#center(arg2)", "--args")
    target.run('Till.new.add(:tea, 3); "a".center(3, "-")')
    assert_equal "Till#add(self.class=Till, price=3, item=4) <time>\nString#center(arg2=\"-\", arg1=3) <time>\n",
                 tracer.stop.tree.gsub(/, \*rest.*?(?=\))/, "")
  end

  test "several selectors for one line: one line with the values of them all, each once" do
    dir = shared_directory
    file = File.join(dir, "till.rb")
    code = "class Till\n  def f(a, b)\n    a + b\n  end\nend\n"
    File.write(file, code)
    target = start("shop")
    target.run("load #{file.inspect}; nil")
    {
      ["till.rb:3(a)", "till.rb:3(b, a)"] => "till.rb:3 a=1 b=2\n",
      ["till.rb:3", "#{File.basename(dir)}/till.rb:3(b)", "till.rb:3(self)"] => "till.rb:3 b=2 self=#<Till>\n",
      # Of another file, or another line, each has its own.
      ["other/till.rb:3(b)", "till.rb:3(a)"] => "till.rb:3 a=1\n",
    }.each do |selectors, expected|
      tracer = trace(target, *selectors)
      target.run("Till.new.f(1, 2)")
      result = tracer.stop
      assert_equal expected, result.stdout, selectors.inspect
      assert_includes result.stderr, "1 line, 0 lost"
      assert_equal selectors.any? { |each| each.start_with?("other") }, result.stderr.include?("never matched")
    end
    # Of a file that is loaded later, too.
    tracer = trace(target, "drawer.rb:3(a)", "drawer.rb:3(b)")
    target.run("eval(#{code.sub("Till", "Drawer").inspect}, TOPLEVEL_BINDING, '#{dir}/drawer.rb'); Drawer.new.f(1, 2)")
    assert_equal "drawer.rb:3 a=1 b=2\n", tracer.stop.stdout
  end

  test "what methods lists trace takes, whatever it is called" do
    target = start("shop")
    target.run("module Ext; refine(String) { def zork_a; end }; end; $object = Object.new; def $object.zork_b; end; " \
               "$anonymous = Class.new { def zork_c; end; def self.zork_d; end; define_method('zork e') {} }; " \
               "class Odd; %w[zork(f zork#g zork:1 zork.h zork*i].each { |name| define_method(name) {} }; end; nil")
    listed = rbprobe("methods", "-p", target.pid.to_s, "*#zork*", "*.zork*").stdout.scan(/^(\S*[#.](?:".*"|\S+))  /).flatten
    assert_equal 10, listed.size, listed.inspect
    listed.each { |name| assert_equal [name], names_of(rbprobe("methods", "-p", target.pid.to_s, name)) }
    tracer = trace(target, *listed)
    assert_match(/tracing 10 methods/, tracer.stderr)
    target.run("$object.zork_b; $anonymous.new.send('zork e'); Odd.new.send('zork(f'); nil")
    assert_equal ["#<Object:0x>.zork_b <time>\n", "#<Class:0x>#zork e <time>\n", "Odd#zork(f <time>\n"],
                 tracer.stop.tree.gsub(/0x\h+/, "0x").lines
  end

  test "all that methods lists it takes back, in a whole process" do
    target = start("shop")
    target.run(<<~'RUBY')
      class Odd; ["a\nb", 'say "x"', 'c\d', "\u202e"].each { |name| define_method(name) {} }; end; nil
    RUBY
    listed = rbprobe("methods", "-p", target.pid.to_s, "*#*", "*.*").stdout.lines
    names = listed.map { |line| line[/\A(.*?)  (?=\S+:\d+  |-  |<internal)/, 1] }
    odd = ['"ARGF.class"#gets', '"Time::tm"#year', 'Odd#"a\x0ab"', 'Odd#"say \"x\""', 'Odd#"c\\\\d"', 'Odd#"\xe2\x80\xae"']
    assert_empty odd - names
    again = rbprobe("methods", "--timeout", "60", "-p", target.pid.to_s, *names)
    assert_equal "", again.stderr
    assert_equal [[], []], [listed - again.stdout.lines, again.stdout.lines - listed]
    tracer = trace(target, 'Odd#"a\x0ab"', '"ARGF.class"#argv', "Time::tm#year")
    target.run("Odd.new.send(\"a\\nb\"); ARGF.argv; ObjectSpace.each_object(Class).find { |c| c.name == 'Time::tm' }.new(1).year")
    assert_equal "Odd#a\\x0ab <time>\nARGF.class#argv <time>\nTime::tm#year <time>\n", tracer.stop.tree
    # The class is there, and what it has not is waited for; a quoted one that is not there is refused as any.
    assert_match(/no method matches Time::tm#zork yet/, trace(target, '"Time::tm"#zork').stop.stderr)
    assert_refused 1, /"tn" is no class/, "trace", "-p", target.pid.to_s, '"Time::tn"#year'
  end

  # Where rbprobe has been at work: expressions, an evaluation, a backtrace.
  test "nothing of rbprobe's own is found" do
    target = start("shop")
    target.run("GC.disable; $before = ObjectSpace.each_object(Module).to_a; nil")
    pid = target.pid.to_s
    rbprobe("eval", "-p", pid, "puts 1")
    rbprobe("bt", "-p", pid, "--locals")
    rbprobe("trace", "-p", pid, "--duration", "0.1", "Shop#price(1 + 1)", "--if", "true")
    ours = target.run("(ObjectSpace.each_object(Module).to_a - $before).map(&:inspect)").scan(/#<(?:Module|Class):0x\h+>/)
    refute_empty ours
    ["*#*", "*.*", "*#", "*."].each do |selector|
      listed = rbprobe("methods", "-p", pid, selector)
      assert_exit 0, listed
      assert_operator listed.stdout.lines.size, :>, 50
      assert_equal [], listed.stdout.lines.select { |line| line.start_with?(*ours) }, selector
    end
  end

  def names_of(result)
    assert_exit 0, result
    result.stdout.scan(/^(\S*[#.](?:".*"|\S+))  /).flatten
  end

  test "what arming itself calls is not shown, even where that is traced" do
    target = start("shop")
    tracer = trace(target, "Module#", "Kernel#", "UnboundMethod#", "Method#", "--engine", "hook")
    target.run("Kernel.instance_method(:frozen?).arity")
    result = tracer.stop
    assert_exit 0, result
    assert_equal 1, result.stdout.scan(/^ *Module#instance_method\b/).size, result.stdout
    assert_match(/^UnboundMethod#arity <[\d.]+>$/, result.stdout)
  end

  test "an alias whose original a prepended module has is shown by its own name and class" do
    target = start("console")
    target.run("module Before; def foo(n); super; end; end; class Wrapped; prepend Before; def foo(n); n; end; " \
               "alias qux foo; end; " \
               "class Other; prepend Before; def foo(n); n; end; alias qux foo; end; nil")
    %w[target hook].product([["Wrapped#qux"], ["Wrapped#qux", "Before#foo"]]).each do |engine, selectors|
      tracer = trace(target, "--engine", engine, "--return", *selectors)
      target.run("2.times { |i| Wrapped.new.qux(i); Other.new.qux(7) }; nil")
      assert_equal "Wrapped#qux => 0 <time>\nWrapped#qux => 1 <time>\n", tracer.stop.tree
    end
  end
end
