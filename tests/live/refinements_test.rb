# Refined methods: what is looked up does not depend on the frame that happens to be interrupted.

require_relative "helper"

class RefinementsTest < LiveTest
  def names(target, *selectors)
    result = rbprobe("methods", "-p", target.pid.to_s, *selectors)
    assert_exit 0, result
    result.stdout.scan(/^(\S+[#.]\S+)  /).flatten
  end

  test "a refined method is found by its class, by its name, and among all methods" do
    target = start("refined")
    assert_equal %w[String#upcase], names(target, "String#upcase")
    assert_equal %w[#<refinement:String@Louder>#upcase String#upcase Symbol#upcase], names(target, "upcase").sort
    all = names(target, "String#")
    assert_includes all, "String#upcase"
    refute_includes all, "String#shout"
    assert_includes names(target, "*#"), "String#upcase"
    assert_equal "\"A!\"", target.run("'a'.upcase")
  end

  test "the class's own method is traced, whoever calls it, and a refinement's method where it is selected" do
    target = start("refined")
    tracer = trace(target, "String#upcase(self)")
    assert_equal "\"A!\"", target.run("Horn.new.call('a')")
    assert_equal "String#upcase(self=\"a\") <time>\n", tracer.stop.tree

    tracer = trace(target, "upcase", "shout")
    assert_equal "\"A!!\"", target.run("'a'.shout")
    assert_equal <<~TREE, tracer.stop.tree
      #<refinement:String@Louder>#shout
         #<refinement:String@Louder>#upcase
            String#upcase <time>
         #<refinement:String@Louder>#upcase <time>
      #<refinement:String@Louder>#shout <time>
    TREE
  end

  NARROW = <<~RUBY
    $asked = []
    class Reed; def self.inspect; $asked << 1; super; end; end
    class Slow; end
    module Brass; class Reed; def trill; end; end; end
    Object.const_set(:Tuned, Module.new do
      def self.inspect; $asked << 1; super; end
      refine(Reed) { def hum(n); n; end; private def hiss; end; }
      refine(Slow.singleton_class) { def hum; end }
      refine(Brass::Reed) { def trill; end }
    end)
    Object.const_set(:Tuner, Module.new { refine(Reed) { def hum(n); n + 1; end } })
    nil
  RUBY

  test "a method that only refinements of a class have is said to be theirs, with how to select it, and asks nobody" do
    target = start("refined")
    target.run(NARROW)
    result = rbprobe("methods", "-p", target.pid.to_s, "Reed#hum", "Reed#his*", "Slow.hum", "Reed#trill", "Slow#hum", "Reed#hun")
    assert_equal ["Reed#hum. Refinements have it: write A, B",
                  "Reed#his*. A refinement has it: write '#<refinement:Reed@Tuned>#his*'",
                  "Slow.hum. A refinement has it: write '#<refinement:#<Class:Slow>@Tuned>#hum'",
                  "Reed#trill. Did you mean Brass::Reed#trill?", "Slow#hum", "Reed#hun"],
                 result.stderr.scan(/no method matches (.*)$/).flatten.map { |line|
                   line.sub(/'#<refinement:Reed@Tune[dr]>#hum', '#<refinement:Reed@Tune[dr]>#hum'/, "A, B")
                 }
    assert_equal "[]", target.run("$asked")
  end

  test "the name that the hint has selects the method, also where the class is a singleton class" do
    target = start("refined")
    target.run(NARROW)
    selectors = ["#<refinement:Reed@Tuned>#hum", "#<refinement:#<Class:Slow>@Tuned>#hum", "#<refinement:Reed@Tuned>#his*"]
    assert_equal selectors.map { |selector| selector.sub("*", "s") }, names(target, *selectors)
    tracer = trace(target, "#<refinement:Reed@Tuned>#hum(n)", "#<refinement:#<Class:Slow>@Tuned>#hum")
    caller = "module Tune; using Tuned; def self.run; [Reed.new.hum(3), Slow.hum]; end; end; Tune.run"
    assert_equal "[3, nil]", target.run("TOPLEVEL_BINDING.eval(#{caller.dump})")
    assert_equal <<~TREE, tracer.stop.tree
      #<refinement:Reed@Tuned>#hum(n=3) <time>
      #<refinement:#<Class:Slow>@Tuned>#hum <time>
    TREE
    assert_equal "[]", target.run("$asked")
  end

  test "the firehose in a program that uses refinements" do
    target = start("refined")
    tracer = trace(target, "-f", "--no-hook")
    assert_equal "\"B!\"", target.run("Horn.new.call('b')")
    tree = tracer.stop.tree
    assert_match(/^ *Horn#call$/, tree)
    # YJIT calls the String's by itself: it is left out, and that is said.
    return assert_match(/^ *#<refinement:String@Louder>#upcase <time>$/, tree) if Processes.yjit?

    assert_match(/^ *#<refinement:String@Louder>#upcase$/, tree)
    assert_match(/^ *String#upcase <time>$/, tree)
  end

  test "a method of the application that is refined, and refined anew, while it is traced" do
    target = start("refined")
    tracer = trace(target, "Horn#blow", "Horn#call", "String#downcase")
    target.run(<<~RUBY)
      Object.const_set(:Quieter, Module.new do
        refine(Horn) { def blow(times); super(times - 1); end }
        refine(String) { def downcase; super + "."; end }
      end)
      nil
    RUBY
    # In a file of its own, as `using` is for the main program's top level and for modules.
    caller = "module Quiet; using Quieter; def self.run; [Horn.new.blow(2), 'A'.downcase]; end; end; Quiet.run"
    assert_equal "[\"tu\", \"a.\"]", target.run("TOPLEVEL_BINDING.eval(#{caller.dump})")
    assert_equal "\"tutu\"", target.run("Horn.new.blow(2)")
    assert_equal <<~TREE, tracer.stop.tree
      Horn#blow <time>
      String#downcase <time>
      Horn#blow <time>
    TREE
    again = trace(target, "Horn#blow", "String#downcase", "blow")
    assert_equal "[\"tu\", \"a.\"]", target.run("Quiet.run")
    assert_equal <<~TREE, again.stop.tree
      #<refinement:Horn@Quieter>#blow
         Horn#blow <time>
      #<refinement:Horn@Quieter>#blow <time>
      String#downcase <time>
    TREE
  end

  test "expressions are evaluated without the refinements of whatever is interrupted" do
    target = start("refined")
    tracer = trace(target, "Horn#call(word.upcase)")
    assert_equal "\"A!\"", target.run("Horn.new.call('a')")
    assert_equal "Horn#call(word.upcase=\"A\") <time>\n", tracer.stop.tree
  end
end
