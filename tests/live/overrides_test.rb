# Applications that override the methods of Ruby that rbprobe calls. All of them are in one table,
# tracee/vm/builtin_table.h, which is read here: each is overridden in turn before rbprobe comes, and all of them at once
# afterwards.

require_relative "helper"

class OverridesTest < LiveTest
  ENTRY = /METHOD\(\w+,\s*"([^"]+)",\s*"([^"]+)",\s*([^)]+)\)/.freeze
  TABLE = File.read("#{Processes::ROOT}/tracee/vm/builtin_table.h").delete("\\\\").scan(ENTRY).map do |class_name, method, flags|
    "#{class_name}#{flags.include?("SINGLETON") ? "." : "#"}#{method}"
  end.freeze
  # By TracePoint#enable(target:) itself, as the application has it: no trace then.
  CALLED_BY_RUBY = "RubyVM::InstructionSequence.of"
  # By which Ruby's own are told from others: where both are overridden, none can be told, not even these. Each alone can.
  ASKED = %w[Method#owner Method#source_location].freeze
  # What may be said of one that is gone.
  NAMED = /the application has (?:overridden|removed) ([^\s,]+)/.freeze

  # Each command, and what it says when it is right.
  def commands(pid)
    dump = "#{directory}/heap.json"
    {
      %W[trace -p #{pid} --count 4 --args Work#step(number*2) Work#add] => ->(r) { r.stdout.include?("Work#add(one=") },
      # Methods are armed in parts, between which the application runs.
      %W[trace -p #{pid} --count 100 -f --no-hook] => ->(r) { r.stdout.match?(/Work#(step|add)/) },
      %W[methods -p #{pid} Work#step Integer#gcd] => lambda { |r|
        r.stdout.match?(/Work#step .*overridden\.rb:\d+.*^Integer#gcd .*patch/m)
      },
      %W[eval -p #{pid} 6*7] => ->(r) { r.stdout.include?("42") },
      %W[bt -p #{pid}] => ->(r) { r.stdout.include?("overridden.rb") },
      %W[memory -p #{pid}] => ->(r) { r.stdout.match?(/String/) },
      %W[heap dump -p #{pid} -o #{dump}] => ->(_) { File.size(dump) > 10_000 },
      %W[selftest -p #{pid}] => ->(r) { !r.stdout.match?(/^failed/) },
    }
  end

  # On each command: right, or (given names) an error that names one of them.
  def assert_right(target, names = [])
    commands(target.pid).each do |arguments, right|
      result = rbprobe(*arguments, "--timeout", "20")
      said = "rbprobe #{arguments.join(" ")} (#{names.join})\n#{result.stdout[-1500..] || result.stdout}\n#{result.stderr}"
      assert target.alive?, said
      refute_match(/RuntimeError: overridden|hit by/, said)
      next if result.status.zero? && right.call(result)

      refute_empty names, said
      assert_includes names, "#{result.stdout}#{result.stderr}"[NAMED, 1], said
    end
    assert_console(target, names)
    assert_empty target.stderr
  end

  def assert_console(target, names)
    script = "#{directory}/script"
    File.write(script, "6 * 7\nls\n")
    result = rbprobe("console", "-p", target.pid.to_s, stdin: script)
    said = "console (#{names.join})\n#{result.stdout}\n#{result.stderr}"
    return if result.stdout.include?("42")

    assert_includes names, "#{result.stdout}#{result.stderr}"[NAMED, 1], said
  end

  test "the table is read" do
    assert_operator TABLE.size, :>, 60
    assert_includes TABLE, "Thread.handle_interrupt"
  end

  %w[raise undefined nonsense].each do |mode|
    test "all of them, after the extension was loaded: #{mode}" do
      target = start("overridden", mode, *TABLE - [CALLED_BY_RUBY], env: { "LATER" => "1" })
      target.run_in_background("override")
      target.expect("done")
      assert_right(target)
    end
  end

  %w[prepended aliased].each do |mode|
    test "all of them, before the extension was loaded, but Ruby's own are still there: #{mode}" do
      only_where_loading_is_possible
      assert_right(start("overridden", mode, *TABLE - [CALLED_BY_RUBY] - ASKED, load: false))
    end
  end

  # Ruby itself calls these for every piece of code that it compiles, rbprobe's own included.
  COMPILING = {
    "Object#respond_to?" => "class Object; def respond_to?(*) = raise; end",
    "Object#respond_to_missing?" => "class Object; def respond_to_missing?(*) = true; end",
    "Module#respond_to?" => "class Module; def respond_to?(*) = raise; end",
    "Class#respond_to_missing?" => "class Class; def respond_to_missing?(*) = raise; end",
    "RubyVM::InstructionSequence.translate" => "class << RubyVM::InstructionSequence; def translate(_) = raise; end",
    "RubyVM::InstructionSequence.respond_to?" => "class << RubyVM::InstructionSequence; def respond_to?(*) = raise; end",
  }.transform_values { |code| code.sub(/ = (.*?);/, "; \\1; end;") }.freeze

  [true, false].each do |load|
    COMPILING.each do |name, code|
      test "code that cannot be compiled, #{load ? "after" : "before"} the extension was loaded: #{name}" do
        only_where_loading_is_possible unless load
        target = start("console", load: load)
        target.run("$VERBOSE = nil; #{code}")
        [%w[eval 6*7], %w[trace --count 1 --duration 0.1 Kernel#warn], %w[memory], %w[selftest]].each do |subcommand, *arguments|
          result = rbprobe(subcommand, "-p", target.pid.to_s, *arguments)
          assert target.alive?, subcommand
          assert_equal name, result.stderr[NAMED, 1], result.stderr if subcommand == "eval" && !load
        end
        assert_exit 0, rbprobe("bt", "-p", target.pid.to_s)
        assert target.alive?
        assert_empty target.stderr
      end
    end
  end

  test "a method that is redefined is not said to be removed" do
    only_where_loading_is_possible
    { "raise" => "overridden", "undefined" => "removed" }.each do |mode, word|
      target = start("overridden", mode, "Module#instance_method", load: false)
      result = rbprobe("methods", "-p", target.pid.to_s, "Work#step")
      assert_includes result.stdout + result.stderr, "the application has #{word} Module#instance_method"
    end
  end

  test "what compares names: Symbol#== and String#==" do
    target = start("shop")
    target.run("$VERBOSE = nil; $asked = []; [Symbol, String].each { |owner| own = owner.instance_method(:==); " \
               "owner.define_method(:==) { |other| $asked << owner if $watch; own.bind_call(self, other) } }; $watch = true; nil")
    tracer = trace(target, "--args", "--locals", "Shop#sell(count, item.size)", "String#upcase", "shop.rb:21(item, count + 1)")
    target.run("$shop.sell(:tea); 'a'.upcase; nil")
    lines = tracer.stop.tree.lines
    assert_equal "[]", target.run("$watch = false; $asked.uniq")
    assert_equal 4, lines.size
  end

  test "code that something else is made of" do
    only_where_loading_is_possible
    target = start("console", load: false)
    target.run("$other = RubyVM::InstructionSequence.compile('3'); " \
               "class << RubyVM::InstructionSequence; def translate(i); i.label == '<compiled>' ? $other : i; end; end")
    result = rbprobe("trace", "-p", target.pid.to_s, "Kernel#warn", "--duration", "0.1")
    assert_match(/translate has made something else of rbprobe's code/, result.stderr)
    assert target.alive?
    assert_exit 0, rbprobe("bt", "-p", target.pid.to_s)
  end

  # One mode each, in turn: each takes another way through the extension.
  TABLE.each_with_index do |name, index|
    next if Processes::SHORT && index % 6 != 0

    mode = %w[raise undefined nonsense][index % 3]
    test "before the extension was loaded, #{mode}: #{name}" do
      only_where_loading_is_possible
      assert_right(start("overridden", mode, name, load: false), [name])
    end
  end
end
