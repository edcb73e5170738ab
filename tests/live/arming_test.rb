# Arming very many methods: what it takes of the process, and that each call is still shown as what it is.

require_relative "helper"

class ArmingTest < LiveTest
  # So many classes, each with methods of its own of one `def`, which is one instruction sequence.
  def start_with_classes(count)
    start("console").tap do |target|
      target.run("#{count}.times { |i| Object.const_set(%(Wide\#{i}), Class.new { def a; :a; end; def b(n); n; end }) }; nil")
    end
  end

  test "methods that share their code share a TracePoint, however many they are" do
    target = start_with_classes(2000)
    tracer = trace(target, "Wide*#b(n)")
    assert_match(/tracing 2,?000 methods/, tracer.stderr)
    target.run("GC.start; nil")
    assert_operator Integer(target.run("ObjectSpace.each_object(TracePoint).count")), :<, 20
    target.run("Wide7.new.b(7); Wide1999.new.a; Wide1999.new.b(3); Class.new { def b(n); end }.new.b(1); nil")
    assert_equal "Wide7#b(n=7) <time>\nWide1999#b(n=3) <time>\n", tracer.stop.tree
  end

  # The job hands over the GVL while it looks and while it arms.
  test "what is defined, defined anew and removed while methods are looked for is traced for what it is" do
    target = start_with_classes(10_000)
    target.run("$work = Thread.new { (0..).each { |i| eval(%(class WideNew\#{i}; def b(n); n; end; end)); " \
               "Wide3.class_eval { def b(m); m; end }; Wide4.class_eval { remove_method :b rescue def b(n); n; end; 1 }; " \
               "$last = i; break if $stop } }; nil")
    tracer = trace(target, "Wide*#b", "--args")
    target.run("$stop = true; $work.join; class Wide4; def b(l); l; end; end; nil")
    target.run("Wide3.new.b(1); Wide4.new.b(2); Wide9999.new.b(3); nil")
    target.run("$names = (0..$last).map { |i| Object.const_get(%(WideNew\#{i})).new.b(i) }; nil")
    last = Integer(target.run("$last"))
    result = tracer.stop
    assert_equal ["Wide3#b(m=1)", "Wide4#b(l=2)", "Wide9999#b(n=3)"], result.stdout.scan(/^Wide\d+#b\(.*?\)/)
    assert_equal (0..last).to_a, result.stdout.scan(/^WideNew\d+#b\(n=(\d+)\)/).flatten.map(&:to_i)
  end

  # Each count of TracePoints that the process's only thread sees is of a time between two jobs: it makes none itself.
  COUNT_WHILE_TRUE = "counts = []; " \
                     "(counts |= [ObjectSpace.each_object(TracePoint).count(&:enabled?)]) while %s; counts.size"

  test "a process of one thread runs between two parts of the arming, and letting go has parts as well" do
    skip "YJIT drops its code for each method: so many are refused" if Processes.yjit?
    target = start_with_code(10_000)
    path = "#{shared_directory}/armed"
    tracer = launch("trace", "-v", "--yes", "--timeout", "60", "-p", target.pid.to_s, "Own*#",
                    env: { "RBPROBE_DEBUG" => "select" })
    counting = Thread.new { Integer(target.run(format(COUNT_WHILE_TRUE, "!File.exist?(#{path.dump})"))) }
    tracer.wait_until_armed
    File.write(path, "")
    assert_operator counting.value, :>, 2
    result = tracer.stop
    assert_operator result.stderr.scan("arming goes on in another job").size, :>, 1
    assert_operator result.stderr.scan("looking for methods goes on in another job").size, :>, 1
    assert_operator result.stderr.scan("disarming goes on in another job").size, :>, 1
  end

  # The heap's pages come and go, and objects move to other pages, also to those that were looked at.
  CHURN = <<~'RUBY'
    $churn = Thread.new do
      until $stop
        GC.compact if GC.respond_to?(:compact) && rand(3) == 0
        Array.new(100_000) { Object.new }
        sleep 0.01
      end
    end
    nil
  RUBY

  test "a large process runs while its modules are listed, and none is missed, also where objects move meanwhile" do
    target = start("console")
    target.run("$keep = []; 400.times { |i| Object.const_set(%(Listed\#{i}), Class.new { def m; end }); " \
               "$keep << Array.new(10_000) { Object.new } }; GC.start; nil")
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "Listed*#m", env: { "RBPROBE_DEBUG" => "select" })
    tracer.wait_until_armed
    result = tracer.stop
    assert_operator result.stderr.scan("looking for methods goes on in another job").size, :>, 1
    assert_match(/tracing 400 methods/, result.stderr)
    target.run(CHURN)
    5.times do
      listed = rbprobe("methods", "-p", target.pid.to_s, "Listed*#m")
      assert_exit 0, listed
      assert_equal 400, listed.stdout.scan(/^Listed\d+#m /).size
    end
    target.run("$stop = true; $churn.join; nil")
  end

  test "a process that forks between two parts of the arming: the child has none of it" do
    skip "YJIT drops its code for each method: so many are refused" if Processes.yjit?
    target = start_with_code(20_000)
    tracer = launch("trace", "-v", "--yes", "--timeout", "60", "-p", target.pid.to_s, "Own*#")
    target.run("Thread.pass until ObjectSpace.each_object(TracePoint).any?(&:enabled?); " \
               "GC.compact if GC.respond_to?(:compact); nil")
    child = "rd, wr = IO.pipe; fork { rd.close; sleep 0.01 while ObjectSpace.each_object(TracePoint).any?(&:enabled?); " \
            "Own7.new.a; wr.write(:fine); exit!(0) }; wr.close; rd.read.tap { Process.wait }"
    assert_equal "fine".inspect, target.run(child)
    tracer.wait_until_armed
    target.run("Own1.new.a; Own19999.new.b; nil")
    assert_equal "Own1#a <time>\nOwn19999#b <time>\n", tracer.stop.tree
  end

  test "what is defined, defined anew and removed between two parts of the arming is traced for what it is" do
    skip "YJIT drops its code for each method: so many are refused" if Processes.yjit?
    target = start_with_code(10_000)
    path = "#{shared_directory}/armed"
    tracer = launch("trace", "-v", "--yes", "--timeout", "60", "-p", target.pid.to_s, "--args", "Own*#")
    defining = Thread.new do
      target.run("i = 0; until File.exist?(#{path.dump}); eval(%(class OwnNew\#{i}; def b(n); n; end; end)); " \
                 "Own3.class_eval { def b(m); m; end }; Own9998.class_eval { remove_method :b rescue def b(n); n; end }; " \
                 "i += 1; end; class Own9998; def b(l); l; end; end; i")
    end
    tracer.wait_until_armed
    File.write(path, "")
    made = Integer(defining.value)
    target.run("Own3.new.b(1); Own9998.new.b(2); #{made}.times { |i| Object.const_get(%(OwnNew\#{i})).new.b(i) }; nil")
    result = tracer.stop
    assert_equal ["Own3#b(m=1)", "Own9998#b(l=2)"], result.stdout.scan(/^Own\d+#b\(.*?\)/)
    assert_equal (0...made).to_a, result.stdout.scan(/^OwnNew\d+#b\(n=(\d+)\)/).flatten.map(&:to_i)
  end

  # The VM walks the hooks of all of them for each that is disabled.
  def many_of_one_block(count)
    start("console").tap do |target|
      target.run("class Many; end; $block = proc { 1 }; #{count}.times { |i| Many.define_method(%(m\#{i}), &$block) }; nil")
    end
  end

  test "of methods that are made of one block so many are traced as can be disabled at once" do
    target = many_of_one_block(2500)
    2.times do
      tracer = trace(target, "--engine", "target", "Many#*")
      assert_match(/ 500 methods cannot be traced: Many#m\d+, Many#m\d+, Many#m\d+ and 497 more/, tracer.stderr)
      assert_match(/tracing 2,?000 methods/, tracer.stderr)
      target.run("object = Many.new; 2500.times { |i| object.send(%(m\#{i})) }; nil")
      assert_equal 2000, tracer.stop.summary("calls")
    end
  end

  test "methods of one block that come without end: what is left out is named twenty times" do
    target = many_of_one_block(1)
    tracer = launch("trace", "--no-hook", "-p", target.pid.to_s, "Many#*")
    wait_until("it traces") { target.run("Many.new.m0; nil") && tracer.stdout.include?("Many#m0") }
    target.run("2100.times { |i| Many.define_method(%(n\#{i}), &$block) }; nil")
    target.run("object = Many.new; 2100.times { |i| object.send(%(n\#{i})) }; nil")
    result = tracer.stop
    assert_equal 1999, result.stdout.scan("Many#n").size
    assert_equal 20, result.stderr.scan("2000 methods that are made of its block are traced already").size
    assert_equal 1, result.stderr.scan("further methods that are left out like these are named with -v only").size
  end

  test "of methods that share their code only those are shown that were asked for, each session its own" do
    target = start_with_classes(3)
    target.run("class Wide1; alias c b; end; class Sub < Wide2; end; nil")
    tracers = [["Wide0#b"], ["Wide1#b", "Wide2#a"], ["Wide1#c", "--return"], ["Wide*#"]].map do |selectors|
      trace(target, *selectors)
    end
    target.run("[Wide0, Wide1, Wide2].each { |wide| wide.new.b(1); wide.new.a }; Wide1.new.c(2); Sub.new.b(3); nil")
    trees = tracers.map { |tracer| tracer.stop.tree }
    assert_equal "Wide0#b <time>\n", trees[0]
    assert_equal "Wide1#b <time>\nWide2#a <time>\n", trees[1]
    assert_equal "Wide1#c => 2 <time>\n", trees[2]
    assert_equal %w[Wide0#b Wide0#a Wide1#b Wide1#a Wide2#b Wide2#a Wide1#c Wide2#b], trees[3].lines.map { |line| line[/\S+/] }
  end

  test "sessions that share a TracePoint come and go in any order" do
    target = start_with_classes(4)
    first = trace(target, "Wide0#b")
    second = trace(target, "Wide1#b")
    target.run("Wide0.new.b(1); Wide1.new.b(1); nil")
    assert_equal "Wide0#b <time>\n", first.stop.tree
    third = trace(target, "Wide0#b", "Wide2#b")
    target.run("Wide0.new.b(1); Wide1.new.b(1); Wide2.new.b(1); nil")
    assert_equal "Wide1#b <time>\n" * 2, second.stop.tree
    target.run("Wide2.new.b(1); GC.start; GC.compact if GC.respond_to?(:compact); Wide2.new.b(2); nil")
    assert_equal "Wide0#b <time>\n#{"Wide2#b <time>\n" * 3}", third.stop.tree
    fourth = trace(target, "Wide3#b")
    target.run("Wide3.new.b(1); Wide2.new.b(1); nil")
    assert_equal "Wide3#b <time>\n", fourth.stop.tree
  end

  test "a method that gets its former code back is shown once for each call" do
    target = start_with_classes(2)
    target.run("$former = Wide0.instance_method(:b); nil")
    tracer = trace(target, "Wide0#b(n)")
    target.run("Wide0.new.b(1); nil")
    target.run("class Wide0; def b(n); n + 1; end; end; Wide0.new.b(2); nil")
    target.run("Wide0.define_method(:b, $former); Wide0.new.b(3); $former.bind_call(Wide0.new, 4); nil")
    assert_equal (1..4).map { |n| "Wide0#b(n=#{n}) <time>\n" }.join, tracer.stop.tree
  end

  # The same, but each method has code of its own.
  def start_with_code(count, **options)
    start("console", **options).tap do |target|
      target.run("#{count}.times.each_slice(1000) { |s| eval(s.map { |i| %(class Own\#{i}; def a; end; def b; end; " \
                 "end) }.join(%(\n))) }; nil")
    end
  end

  test "a client that leaves while its methods are being armed: the rest is not armed, and what was is not any more" do
    target = start_with_code(30_000)
    before = Integer(target.run("GC.start; GC.disable; $thread = Thread.new { sleep }; " \
                                "ObjectSpace.each_object(TracePoint).count"))
    result = rbprobe("trace", "-p", target.pid.to_s, "--timeout", "0.3", "Own*#")
    assert_exit 3, result
    assert_match(/is still looking for methods or arming them after 0\.3 s, and gives that up now/, result.stderr)
    wait_until("the target is left alone") { Leftovers.queues_of([target]).empty? }
    assert_operator Integer(target.run("ObjectSpace.each_object(TracePoint).count")) - before, :<, 59_000
    assert_equal "0", target.run("GC.enable; Own1.new.a; ObjectSpace.each_object(TracePoint).count(&:enabled?)")
    tracer = trace(target, "Own3#a")
    target.run("Own3.new.a; nil")
    assert_equal "Own3#a <time>\n", tracer.stop.tree
  end

  test "arming that would take too much of a process with a compiler is refused with what it took" do
    skip "needs a Ruby with YJIT" unless system(*Processes::RUBY, "--yjit", "-e", "exit RubyVM::YJIT.enabled?", err: File::NULL)
    # Each method takes a share of all code; to look through more of it is what takes long with a sanitizer.
    target = start_with_code(20_000, ruby_options: ["--yjit"])
    # On a busy machine the time may be over before so much of it is the process's.
    result = Array.new(4).lazy.map { rbprobe("trace", "-p", target.pid.to_s, "--timeout", "6", "Own*#") }
                              .find { |one| !one.stderr.include?("is still looking for methods") }
    refute_nil result
    assert_match(
      /arming was given up after \d+ methods, and none is traced: it took more than 2\.4 s of the process, since the compiler/,
      result.stderr
    )
    assert_equal "nil", target.run("Own1.new.a")
    tracer = trace(target, "Own3#a")
    target.run("Own3.new.a; nil")
    assert_equal "Own3#a <time>\n", tracer.stop.tree
  end

  # The VM tells nobody of anything while it parses, nor from within a hook: that is no reason to refuse methods written in C.
  test "where the thread parses a file the command waits for a better moment" do
    # Prism has read the whole file before it parses.
    options = target_ruby?(">= 3.4") ? ["--parser=parse.y"] : []
    target = start("console", ruby_options: options)
    here, there = directory_of_target
    File.mkfifo("#{here}/late.rb")
    watcher = launch("trace", "-v", "-p", target.pid.to_s, "--raise=Nobody", env: { "RBPROBE_DEBUG" => "queue" }).wait_until_armed
    loading = Thread.new { target.run("load '#{there}/late.rb'; Late.name") }
    file = File.open("#{here}/late.rb", "w")
    file.write("class Late\n")
    file.flush
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "String#upcase")
    watcher.wait_for(/commands wait for another moment/)
    file.puts("end")
    file.close
    assert_equal '"Late"', loading.value
    tracer.wait_until_armed
    assert_match(/String#upcase armed, engine patch/, tracer.stderr)
    target.run("'a'.upcase")
    assert_match(/String#upcase/, tracer.stop.stdout)
    watcher.stop
  end

  test "a process that stays in a hook of its own answers, and can be traced when it has left" do
    target = start("console")
    target.run("def hooked; end; $point = TracePoint.new(:call) { $inside = true; sleep 0.001 until $leave }; nil")
    hooked = Thread.new { target.run("$point.enable(target: method(:hooked)) { hooked }; :left") }
    wait_until("it is in the hook") { evaluate(target, "$inside") == "true" }
    assert_equal "3", evaluate(target, "--main", "1 + 2")
    assert_match(/block in/, rbprobe("bt", "-p", target.pid.to_s).stdout)
    assert_equal "true", evaluate(target, "$leave = true")
    assert_equal ":left", hooked.value
    tracer = trace(target, "-v", "String#upcase")
    assert_match(/String#upcase armed, engine patch/, tracer.stderr)
    target.run("'a'.upcase")
    assert_match(/String#upcase/, tracer.stop.stdout)
  end

  def evaluate(target, *arguments)
    rbprobe("eval", "-p", target.pid.to_s, *arguments).stdout.chomp
  end

  test "-v names the first methods that are armed, and counts those after them, but not those of --within" do
    target = start("console")
    target.run('class Many; 25.times { |i| define_method("step_#{i}") { i } }; def around; step_1; end; end')
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "--within", "Many#around", "Many#step_*").wait_until_armed
    tracer.stop
    assert_equal 20, tracer.stderr.scan(/Many#step_\d+ armed, engine target$/).uniq.size
    assert_match(/: 6 more armed, engine target$/, tracer.stderr)
    assert_match(/: tracing 25 methods$/, tracer.stderr)
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "--within", "Many#around", "Many#step_1").wait_until_armed
    target.run("Many.new.around")
    assert_equal "Many#step_1 <time>\n", tracer.stop.tree
    assert_match(/: Many#around armed as a condition, engine target$/, tracer.stderr)
    assert_match(/: tracing 1 method$/, tracer.stderr)
  end
end
