# An application with TracePoints of its own, global and targeted, while sessions come and go: it misses no event, and
# disables what it has enabled.

require_relative "helper"

class OwnTracepointsTest < LiveTest
  APPLICATION = <<~RUBY.tr("\n", ";")
    class Own
      def deep(n) n.zero? ? 0 : 1 + deep(n - 1) end
      def plain(n = 1) n end
      define_method(:block) { |n = 1| n }
      define_method(:slow) { |n = 1| n }
    end
    $own = Own.new
    $seen = 0
    $global = TracePoint.new(:call) { |tp| $seen += 1 if tp.method_id == :deep }
    $global.enable
    def seen(&work) before = $seen; 10.times { $own.deep(2) }; $seen - before end
    def own_events(name)
      n = 0
      tp = TracePoint.new(:call, :return) { n += 1 }
      tp.enable(target: Own.instance_method(name))
      $own.send(name)
      tp.disable
      $own.send(name)
      n
    end
    nil
  RUBY

  # The TracePoint of a method that is left for later goes as soon as it can.
  def assert_nothing_enabled(target, own, points = "ObjectSpace.each_object(TracePoint)")
    enabled = "#{points}.count(&:enabled?)"
    wait_until("no TracePoint of ours is on") { target.run(enabled) == own.to_s }
  end

  test "a global TracePoint sees every call, whatever was traced by whichever engine" do
    target = start("console")
    target.run(APPLICATION)
    [["Own#", "--engine", "target"], ["Own#(self, n)", "String#upcase"], ["Own#", "--engine", "hook"],
     ["-f", "--no-hook"]].each do |arguments|
      tracer = trace(target, *arguments)
      assert_equal "30", target.run("seen"), "while #{arguments} are traced"
      target.run("class Own; define_method(:block) { |n = 2| n }; end; " \
                 "3.times { Class.new(Own) { define_method(:block) { super() } }.new.block }; GC.start")
      target.run("$own.block; $own.plain; Process.wait(fork { exit!(seen == 30 ? 0 : 1) })")
      assert_equal "0", target.run("$?.exitstatus")
      assert_exit 0, tracer.stop
      assert_equal "30", target.run("seen"), "after #{arguments} were traced"
    end
    assert_exit 0, rbprobe("selftest", "-p", target.pid.to_s)
    assert_equal "30", target.run("seen")
    assert_nothing_enabled(target, 1)
  end

  { "plain" => "an ordinary method", "slow" => "a define_method method" }.each do |name, what|
    test "so it does when a trace ends in the middle of an event of #{what}" do
      target = start("console")
      target.run(APPLICATION)
      target.run("$gate = Queue.new; $in = Queue.new; nil")
      tracer = trace(target, "--timeout", "20", "Own##{name}(($in << 1; Thread.current[:held] && $gate.pop))")
      target.run("$thread = Thread.new { Thread.current[:held] = true; $own.#{name} }; $in.pop")
      tracer.signal(:INT)
      wait_until("it is over") { target.run("$in.clear; Thread.new { $own.#{name} }.join; $in.empty?") == "true" }
      assert_equal "30", target.run("seen")
      assert_equal "1", target.run("$gate << 1; $thread.value")
      assert_exit 0, tracer.wait
      assert_equal "30", target.run("seen")
      assert_nothing_enabled(target, 1)
      assert_equal "30", target.run("seen")
    end
  end

  test "nothing is on after allocations were observed" do
    target = start("console")
    [%w[profile --alloc --duration 0.2], %w[trace --allocations=Object@100 --duration 0.2]].each do |command|
      assert_exit 0, rbprobe(command.first, "-p", target.pid.to_s, *command.drop(1))
      assert_nothing_enabled(target, 0)
    end
  end

  # Nobody is attached then, and no client rings.
  { "is killed" => [], "follows forks" => ["--follow-forks"] }.each do |what, option|
    test "what cannot be disarmed while another Ractor runs is when that is gone, after a client that #{what}" do
      skip "no Ractors" unless target_ruby?(">= 3.0")
      target = start("console", ruby_options: ["-W0"])
      target.run(APPLICATION)
      tracer = trace(target, "Own#", *option)
      # Once there has been a Ractor, ObjectSpace has none of them.
      target.run("$points = ObjectSpace.each_object(TracePoint).to_a; $ractor = Ractor.new { Ractor.receive }; nil")
      option.any? ? tracer.stop : tracer.kill
      wait_until("the session is over") { Leftovers.queues_of([target]).empty? }
      target.run("$ractor.send(1); $ractor.#{target.run("Ractor.method_defined?(:value)") == "true" ? "value" : "take"}; nil")
      assert_nothing_enabled(target, 1, "$points")
    end
  end

  # Up to 3.1 a define_method method has room for one TracePoint.
  def assert_says_when_pushed_out(name, result)
    assert_exit 0, result
    assert_equal name == "block" && Processes::RUBY_VERSION_OF_TARGET < "3.2",
                 result.stderr.include?("has taken the place of rbprobe's on 1 method"), result.stderr
  end

  test "a targeted TracePoint of the application's own, enabled before a trace, during it, and disabled after it" do
    target = start("console")
    target.run(APPLICATION)
    %w[plain block].each do |name|
      target.run("$n = 0; $tp = TracePoint.new(:call) { $n += 1 }; $tp.enable(target: Own.instance_method(:#{name}))")
      2.times do
        tracer = trace(target, "Own##{name}", "Own#deep")
        assert_equal "2", target.run("$n = 0; 2.times { $own.#{name} }; $n")
        assert_exit 0, tracer.stop
        assert_equal "2", target.run("$n = 0; 2.times { $own.#{name} }; $n")
      end
      assert_equal "0", target.run("$tp.disable; $n = 0; 2.times { $own.#{name} }; $n")
      tracer = trace(target, "Own##{name}")
      assert_equal "2", target.run("own_events(:#{name})")
      assert_says_when_pushed_out name, tracer.stop
      tracer = trace(target, "Own##{name}")
      target.run("$n = 0; $tp.enable(target: Own.instance_method(:#{name}))")
      assert_says_when_pushed_out name, tracer.stop
      assert_equal "2", target.run("2.times { $own.#{name} }; $tp.disable; 2.times { $own.#{name} }; $n")
      assert_nothing_enabled(target, 1)
      tracer = trace(target, "Own##{name}")
      target.run("$own.#{name}; nil")
      assert_equal "Own##{name} <time>\n", tracer.stop.tree
      assert_nothing_enabled(target, 1)
    end
  end

  COVERED = <<~RUBY
    class Covered
      def add(number)
        number + 1
      end

      def each(number)
        number.times do
          $sum += 1
        end
      end
      define_method(:block) do |number|
        $sum += number
        number
      end
    end

    nil
  RUBY

  # The VM forgets that a line is watched when Coverage hears of it first, unless a global hook wants it.
  def load_covered(target, mode, how = "start")
    here, there = directory_of_target
    File.write("#{here}/covered.rb", COVERED)
    target.run("require 'coverage'; Coverage.#{how}(#{mode}); $sum = 0; load '#{there}/covered.rb'; nil")
  end

  ["lines: true", "oneshot_lines: true"].each do |mode|
    test "methods and lines that Coverage counts are all seen, #{mode}" do
      target = start("console")
      { "Covered#add" => "add(i)", "covered.rb:3" => "add(i)", "covered.rb:8" => "each(1)", "Covered#block" => "block(i)",
        "covered.rb:12" => "block(i)", "Covered#" => "add(i)" }.each do |selector, call|
        load_covered(target, mode)
        tracer = trace(target, selector)
        target.run("3.times { |i| Covered.new.#{call} }")
        result = tracer.stop
        assert_exit 0, result
        assert_match(/^rbprobe: .*3 (calls|lines), 0 lost/, result.stderr)
        refute_match(/oneshot_lines/, result.stderr)
        lines = call == "add(i)" ? [3] : []
        assert_equal lines.inspect, target.run("Coverage.result.find { |file, _| file.end_with?('covered.rb') }[1]" \
                                               ".yield_self { |c| c[:oneshot_lines] || c[:lines].each_index.select { |i| " \
                                               "(c[:lines][i] || 0) > 0 }.map(&:succ) } & [3]")
      end
    end
  end

  test "methods that Coverage counts once are seen while lines of theirs are traced as well, and one trace ends first" do
    target = start("console")
    load_covered(target, "oneshot_lines: true")
    tracers = ["Covered#add", "covered.rb:3", "Covered#add"].map { |selector| trace(target, selector) }
    assert_exit 0, tracers.pop.stop
    target.run("3.times { |i| Covered.new.add(i) }")
    tracers.each { |tracer| assert_match(/^rbprobe: .*3 (calls|lines), 0 lost/, tracer.stop.stderr) }
  end

  # The marks are gone then: at the next event of each they are set again.
  ["TracePoint.new(:class) {}.tap(&:enable).disable", "TracePoint.new(:call) {}.enable"].each do |code|
    test "methods and lines that Coverage counts once are seen after #{code[/:\w+/]} has all code written anew" do
      target = start("console")
      load_covered(target, "oneshot_lines: true")
      tracer = trace(target, "Covered#add", "covered.rb:3", "covered.rb:8", "Covered#block")
      target.run("#{code}; nil")
      target.run("3.times { |i| Covered.new.add(i); Covered.new.each(1); Covered.new.block(i) }")
      assert_match(/^rbprobe: .*6 calls, 6 lines, 0 lost/, tracer.stop.stderr)
    end
  end

  test "methods and lines that Coverage counts once are seen where it is set up before the trace and resumed during it" do
    target = start("console")
    skip "this Ruby has no Coverage.resume" unless target_ruby?(">= 3.1")
    load_covered(target, "oneshot_lines: true", "setup")
    tracer = trace(target, "Covered#add", "covered.rb:3", "Covered#block")
    target.run("Coverage.resume; nil")
    target.run("3.times { |i| Covered.new.add(i); Covered.new.block(i) }")
    assert_match(/^rbprobe: .*6 calls, 3 lines, 0 lost/, tracer.stop.stderr)
  end

  # What the VM does without us, it does again.
  test "methods that Coverage counts once are the VM's own after a trace" do
    target = start("console")
    events = lambda do
      target.run("$n = 0; $tp = TracePoint.new(:call) { $n += 1 }; $tp.enable(target: Covered.instance_method(:add)); " \
                 "3.times { |i| Covered.new.add(i) }; $tp.disable; Coverage.result; $n")
    end
    load_covered(target, "oneshot_lines: true")
    untraced = events.call
    load_covered(target, "oneshot_lines: true")
    2.times { assert_exit 0, trace(target, "Covered#add").stop }
    assert_exit 0, trace(target, "covered.rb:3").stop
    assert_equal untraced, events.call
  end

  # Disabling a targeted TracePoint takes away what a global one needs for methods of define_method, in Ruby itself.
  test "a global TracePoint that is enabled again and again hears of define_method methods after each trace" do
    target = start("console")
    target.run(APPLICATION)
    target.run("$again = TracePoint.new(:call, :return) { |tp| $n += 1 if tp.method_id == :block }; nil")
    events = -> { target.run("$n = 0; $again.enable; $own.block; $again.disable; $n") }
    assert_equal "2", events.call
    3.times do |i|
      tracer = i == 1 ? launch("stat", "-v", "-p", target.pid.to_s, "Own#block").wait_until_armed : trace(target, "Own#block")
      target.run("$own.block; nil")
      assert_exit 0, tracer.stop
      wait_until("it hears of them") { events.call == "2" }
    end
    tracer = trace(target, "Own#block")
    target.run("require 'coverage'; nil")
    assert_exit 0, tracer.stop
    wait_until("it hears of them with Coverage") { events.call == "2" }
    assert_attachable target
  end

  # The table of probes grows several times: of a method the newest definition is the one that is called. While a global hook is
  # on, the VM is asked which method an event is about.
  test "methods that are defined anew again and again are seen, with a global TracePoint of the application's on" do
    target = start("console")
    target.run("TracePoint.new(:call) {}.enable; class Anew; end; nil")
    tracer = trace(target, "Anew#")
    target.run(<<~RUBY)
      120.times do
        Anew.class_eval("def one; end; def two; end; def three; end")
        Anew.new.yield_self { |a| a.one; a.two; a.three }
      end
      nil
    RUBY
    result = tracer.stop
    assert_match(/^rbprobe: .*360 calls, 0 lost/, result.stderr)
    assert_equal [120] * 3, %w[one two three].map { |name| result.stdout.scan(/Anew##{name}\b/).size }
  end

  ASKED = %w[inspect event path lineno method_id callee_id defined_class binding self return_value raised_exception].freeze

  # There is no event around a method written in C; the application hears nothing of the expression, so it runs as within one.
  test "an expression and an evaluation may ask a TracePoint what it is about" do
    target = start("console")
    asked = ASKED.map { |name| "(TracePoint.new(:call, :return, :raise) {}.#{name} rescue :not)" }.join(", ")
    tracer = trace(target, "String#center([#{asked}])", "--if", "TracePoint.new(:line) {}.inspect", "--value-size", "1000")
    target.run("'a'.center(9)")
    assert_match(/"#<TracePoint:[^"]*>", :\w+, .*:not, :not\]/, tracer.stop.stdout)
    assert_equal "#<TracePoint:disabled>\n", rbprobe("eval", "-p", target.pid.to_s, "TracePoint.new(:line) {}").stdout
    assert_equal "2", target.run("1 + 1")
  end
end
