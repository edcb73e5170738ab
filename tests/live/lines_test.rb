# Selectors that are lines: what is seen there, where code may be, and what is said where there is none.

require_relative "helper"

class LinesTest < LiveTest
  FILE = "/srv/app/models/order.rb"
  PROGRAM = <<~RUBY
    class Order
      LIMIT = 3 unless const_defined?(:LIMIT)

      def initialize(user)
        @user = user
      end

      def total(items)
        sum = 0
        items.each do |item|
          double = item * 2
          sum += double
        end
        # a comment
        sum
      end

      define_method(:again) do |n|
        more = n + 1
        more * 2
      end

      def around(items)
        [total(items), again(1)]
      end

      def rescued
        raise ArgumentError, "no"
      rescue ArgumentError => e
        e.message
      end

      def one_line(list)
        list.map { |x| x + LIMIT }
      end

      def forever
        loop { @turns = (@turns || 0) + 1 }
      end
    end

    $handler = lambda do |request|
      answer = request.to_s
      answer + "!"
    end
  RUBY
  # The numbers of the lines with these beginnings.
  LINE = Hash.new { |_, text| PROGRAM.lines.index { |line| line.lstrip.start_with?(text) } + 1 }

  def load_into(target, program = PROGRAM, file = FILE)
    target.run("eval(#{program.dump}, TOPLEVEL_BINDING, #{file.dump}, 1); nil")
  end

  # One that has the program.
  def prepared
    start("console").tap { |target| load_into(target) }
  end

  # What tracing these selectors shows while the target runs the code.
  def traced(code, *arguments, target: prepared)
    tracer = trace(target, *arguments)
    target.run("#{code}\nnil")
    tracer.stop.tap { |result| assert_exit 0, result }
  end

  def items_of(result)
    result.tree.scan(/item=(\d)/).flatten
  end

  def at(text, expressions = nil)
    "order.rb:#{LINE[text]}#{expressions && "(#{expressions})"}"
  end

  test "a line of a method, with local variables, self, instance variables and Ruby" do
    result = traced("Order.new('ada').total([1, 5])", at("sum", "items, sum, @user, self, items.size + LIMIT, sum.size + nope"))
    assert_match(/\A(order\.rb:#{LINE["sum"]} items=\[1, 5\] sum=nil @user="ada" self=#<Order> items\.size \+ LIMIT=5) sum\.size/,
                 result.tree)
    assert_match(/sum\.size \+ nope=#<NoMethodError: undefined.*>$/, result.tree)
  end

  test "it is shown in the tree at its depth, also where it is in a block" do
    result = traced("Order.new('ada').around([1, 5])", "Order#around", "Order#total", at("double", "item, sum"),
                    "models/#{at("more * 2", "n, more")}")
    assert_equal <<~TREE, result.tree
      Order#around
         Order#total
            order.rb:#{LINE["double"]} item=1 sum=0
            order.rb:#{LINE["double"]} item=5 sum=2
         Order#total <time>
         models/order.rb:#{LINE["more * 2"]} n=1 more=2
      Order#around <time>
    TREE
    assert_match(/^rbprobe: 2 calls, 3 lines, 0 lost/, result.stderr)
  end

  test "in JSON it is an event of its own, and counted for itself" do
    result = traced("Order.new('ada').total([1])", "--format", "json", "Order#total", at("double", "item"))
    line = result.events("line").first
    call = result.events("call").first
    assert_equal({ "method" => "Order#total", "class" => "Order", "name" => "total", "depth" => 1,
                   "values" => { "item" => "1" }, "file" => FILE, "line" => LINE["double"] },
                 line.reject { |key, _| %w[type pid thread thread_name fiber time_ns].include?(key) })
    assert_equal call["fiber"], line["fiber"]
    assert_operator line["time_ns"], :>=, call["start_ns"]
    assert_operator line["time_ns"], :<=, call["start_ns"] + call["duration_ns"]
    assert_equal [1, 1, 0], result.events("summary").first.values_at("calls", "lines", "lost")
  end

  test "all local variables, of the method around a block, too" do
    assert_equal <<~TREE, traced("Order.new('ada').total([1])", "--locals", at("double")).tree
      order.rb:#{LINE["double"]} items=[1] sum=0 item=1 double=nil
    TREE
  end

  test "a rescue clause, and a block on its method's own line: a variable that is not there yet is left out" do
    assert_equal <<~TREE, traced("Order.new('ada').rescued", at("e.message", "e")).tree
      order.rb:#{LINE["e.message"]} e=#<ArgumentError: no>
    TREE
    assert_equal <<~TREE, traced("Order.new('ada').one_line([1, 2])", at("list.map", "list, x")).tree
      order.rb:#{LINE["list.map"]} list=[1, 2]
      order.rb:#{LINE["list.map"]} list=[1, 2] x=1
      order.rb:#{LINE["list.map"]} list=[1, 2] x=2
    TREE
  end

  test "a block that no method has" do
    result = traced("$handler.call(:show)", "--format", "json", at("answer +", "request, answer"))
    assert_equal [{ "request" => ":show", "answer" => '"show"' }], result.events("line").map { |line| line["values"] }
    assert_match(/\Ablock in /, result.events("line").first["method"])
  end

  test "the top level of a program that is running, and its blocks" do
    target = start("console")
    code = "$turn = 0\nwhile $turn\n  $turn += 1\n  [$turn].each do |turn|\n    $last = turn\n  end\n  sleep 0.001\nend\n" \
           "class Over\n  1\nend\n"
    target.run("$thread = Thread.new { eval(#{code.dump}, TOPLEVEL_BINDING, '/srv/top.rb', 1) }; sleep 0.01 until $last; nil")
    result = rbprobe("trace", "-p", target.pid.to_s, "--format", "json", "top.rb:3($turn)", "top.rb:5(turn)", "--count", "10")
    assert_exit 0, result
    assert_equal [3, 5], result.events("line").map { |line| line["line"] }.uniq.sort
    numbers = result.events("line").map { |line| line["values"].values.first.to_i }
    assert_equal numbers.sort, numbers
    assert_match(/top\.rb:3 is outside of methods and blocks, in code that runs once: it may be over/, result.stderr)
    refute_match(/top\.rb:5 is outside/, result.stderr)
    assert_match(/^<\w+>  .*top\.rb:1  target \(runs once/, rbprobe("methods", "-p", target.pid.to_s, "top.rb:1").stdout)
    assert_match(/top\.rb:10: no code is from a file of that/, rbprobe("methods", "-p", target.pid.to_s, "top.rb:10").stderr)
    target.run("$turn = nil; $thread.kill.join; nil")
  end

  test "methods says what is at a line" do
    target = prepared
    comment = LINE["# a comment"]
    lines = [at("double"), at("answer +"), "order.rb:#{comment}", "order.rb:2", "other.rb:7"]
    result = rbprobe("methods", "-p", target.pid.to_s, *lines)
    assert_exit 0, result
    assert_equal "Order#total  #{FILE}:#{LINE["double"]}  target (local variables: items, sum, item, double)",
                 result.stdout.lines.first.chomp
    assert_match(/^block in .*  #{FILE}:#{LINE["answer +"]}  target \(local variables: .*request, answer\)$/,
                 result.stdout.lines.last)
    assert_match(/order\.rb:#{comment}: .* has no code of its own .*; lines near it that have: #{comment - 2}, #{comment + 1}$/,
                 result.stderr)
    assert_match(/order\.rb:2: .*the body of a class, is over\); the nearest line that has: #{LINE["@user"]}$/, result.stderr)
    assert_match(/other\.rb:7: no code is from a file of that name so far$/, result.stderr)
  end

  test "a method of which Ruby reports no lines is named" do
    target = start("console")
    endless = Processes.target_ruby?(">= 3.0")
    load_into(target, <<~RUBY)
      class Order
        def empty
        end
        #{"def short = [1].sum" if endless}
        #{"def long =\n    [1].sum" if endless}
        def full
          1
        end
      end
    RUBY
    silent = endless ? { 2 => "empty", 3 => "empty", 4 => "short", 5 => "long", 6 => "long" } : { 2 => "empty", 3 => "empty" }
    result = rbprobe("methods", "-p", target.pid.to_s, *silent.keys.map { |line| "order.rb:#{line}" })
    assert_equal(silent.map do |line, name|
      "rbprobe: process #{target.pid}: order.rb:#{line}: Ruby reports no line of Order##{name}, which is there (a method " \
        "without code, or written as `def x = ...`); select the method itself\n"
    end.join, result.stderr)
    assert_match(/order\.rb:2: Ruby reports no line of Order#empty/, traced("", "order.rb:2", target: target).stderr)
    assert_match(/nearest line that has: #{endless ? 8 : 7}$/, rbprobe("methods", "-p", target.pid.to_s, "order.rb:1").stderr)
  end

  test "a file that may be one of several is not guessed" do
    target = prepared
    load_into(target, "def ordered\n  1\nend\n", "/srv/app/jobs/order.rb")
    assert_refused 1, %r{order\.rb:2 may be a line of several files; write more of the path: .*/srv/app/jobs/order\.rb},
                   "trace", "-p", target.pid.to_s, "order.rb:2"
    assert_equal "jobs/order.rb:2\n", traced("ordered", "jobs/order.rb:2", target: target).tree
    assert_equal "/srv/app/jobs/order.rb:2\n", traced("ordered", "/srv/app/jobs/order.rb:2", target: target).tree
  end

  test "code that is defined later is traced then, and a method's new definition, too" do
    target = start("console")
    tracer = trace(target, at("double", "item"))
    assert_match(/no code is from a file of that name so far; it will be traced when it is loaded/, tracer.stderr)
    load_into(target)
    target.run("Order.new('ada').total([1]); nil")
    load_into(target, PROGRAM.sub("item * 2", "item * 3"))
    target.run("Order.new('ada').total([2]); nil")
    result = tracer.stop
    assert_equal <<~TREE, result.tree
      order.rb:#{LINE["double"]} item=1
      order.rb:#{LINE["double"]} item=2
    TREE
    refute_match(/never matched/, result.stderr)
  end

  test "a program from its first line" do
    path = "#{shared_directory}/program.rb"
    File.write(path, "class Made\n  def go(n)\n    more = n + 1\n    more\n  end\nend\nMade.new.go(1)\n")
    skip "the target sees other directories" if Processes::RUBY.first == "chroot"
    result = rbprobe("exec", "program.rb:4(n, more)", "--", *Processes::RUBY, path, env: Processes::TARGET_ENV)
    assert_exit 0, result
    assert_equal "program.rb:4 n=1 more=2\n", result.stdout
    assert_match(/program\.rb:4: no code is from a file of that name so far; it will be traced when/, result.stderr)
  end

  test "a line that nothing ever had is named at the end" do
    assert_match(/order\.rb:999 never matched code/, traced("", "order.rb:999").stderr)
  end

  test "conditions of calls hold for lines; those about an end are refused" do
    result = traced("o = Order.new('ada'); o.total([1, 2, 3, 4]); o.around([5])", "--every", "2", at("double", "item"))
    assert_equal %w[1 3 5], items_of(result)
    assert_match(/0 calls, 3 lines, 0 lost, 2 others do not meet the conditions/, result.stderr)
    twice = "o = Order.new('ada'); o.total([1]); o.around([5])"
    assert_equal ["5"], items_of(traced(twice, "--within", "Order#around", at("double", "item")))
    assert_equal ["1"], items_of(traced(twice, "--outside", "Order#around", at("double", "item")))
    condition = "item > 1 && @user == 'ada' && double.nil?"
    assert_equal %w[2 3], items_of(traced("Order.new('ada').total([1, 2, 3])", "--if", condition, at("double", "item")))
    assert_refused 2, /--slow, .* are about how a call ends; a line/, "trace", "-p", "1", "--slow", "5", "order.rb:3"
    assert_refused 2, /a line has no end/, "trace", "-p", "1", "--if", "result == 1", "order.rb:3"
    assert_refused 2, /stat counts calls of methods, not lines/, "stat", "-p", "1", "order.rb:3"
    assert_refused 2, /--within takes a method, not a line/, "trace", "-p", "1", "--within", "order.rb:3", "Order#total"
  end

  test "an expression that does not compile refuses the trace" do
    assert_refused 1, /an expression does not compile/, "trace", "-p", prepared.pid.to_s, at("double", "item +* 2")
  end

  test "two clients at one line, and a fork: each sees its own, and nothing stays" do
    target = prepared
    others = trace(target, at("double", "item"))
    assert_equal 1, traced("Order.new('ada').total([1])", at("double", "sum"), target: target).tree.lines.size
    target.run("Process.wait(fork { Order.new('ada').total([7]); exit!(0) }); Order.new('ada').total([2]); nil")
    assert_equal %w[1 2], items_of(others.stop)
    assert_equal "[]", target.run("ObjectSpace.each_object(TracePoint).select(&:enabled?)")
  end

  test "compaction and garbage collection move nothing from under it" do
    target = prepared
    skip "this Ruby cannot compact" unless target.run("GC.respond_to?(:compact)") == "true"
    code = "o = Order.new('ada'); 5.times { |i| GC.compact; GC.start; o.total([i]) }"
    result = traced(code, at("double", "item"), target: target)
    assert_equal %w[0 1 2 3 4], items_of(result)
  end

  test "an application's own TracePoint at the same line goes on, and ours ends" do
    target = prepared
    target.run("$own = 0; m = Order.instance_method(:total); " \
               "$tp = TracePoint.new(:line) { $own += 1 }; $tp.enable(target: m, target_line: #{LINE["double"]}); nil")
    result = traced("Order.new('ada').total([1, 2])", at("double"), "Order#total", target: target)
    assert_equal 2, result.tree.scan("order.rb").size
    assert_equal "4", target.run("Order.new('ada').total([1, 2]); $own")
    target.run("$tp.disable; nil")
    assert_equal "4", target.run("Order.new('ada').total([1, 2]); $own")
  end

  test "a line in another Ractor is not followed, and does no harm" do
    skip "no Ractors before 3.0" unless Processes.target_ruby?(">= 3.0")
    target = prepared
    target.expects_stderr = true
    only_where_ractors_can_be_traced
    target.run("$ractor = Ractor.new { loop { Order.new('ada').total([9]) } }; sleep 0.1; nil")
    result = traced("Order.new('ada').total([1, 2])", at("double", "item"), target: target)
    assert_equal %w[1 2], items_of(result)
  end

  test "a line that is reached all the time, until the end of the trace" do
    target = prepared
    target.run("$threads = [Thread.new { Order.new('ada').forever }]; nil")
    result = rbprobe("trace", "-p", target.pid.to_s, "--format", "json", "order.rb:#{LINE["loop {"]}(@turns)", "--count", "1000")
    assert_exit 0, result
    turns = result.events("line").map { |line| line["values"]["@turns"] }
    assert_equal 1000, turns.size
    limited = trace(target, "order.rb:#{LINE["loop {"]}(@turns)", "--max-overhead", "1", "--format", "json")
    limited.wait_for(/order\.rb:#{LINE["loop {"]} is not traced any more: .* more than --max-overhead 1\)/)
    notes = limited.stop.events("note")
    assert_equal [target.pid], notes.map { |note| note["pid"] }.uniq
    assert_equal 1, notes.count { |note| note["text"].include?("is not traced any more") }
    target.run("$threads.each(&:kill); nil")
  end

  test "what is shown of calls alone is refused where only lines are selected" do
    %w[--args --return --measure=cpu].each do |option|
      assert_refused 2, /--args, --return and --measure are about calls, and no method is selected/,
                     "trace", "-p", "1", option, "order.rb:42"
    end
  end
end
