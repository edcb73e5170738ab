# What the application can see of rbprobe by its own means: its hooks hear nothing.

require_relative "helper"

class VisibilityTest < LiveTest
  # Everything that comes while the main thread waits for its next line is somebody else's.
  TRACEPOINT = <<~RUBY.freeze
    $heard = []
    $hook = TracePoint.new { |tp| $heard << [tp.event, (tp.method_id rescue nil), tp.path, tp.lineno] if $heard }
    $hook.enable
  RUBY

  TRACE_FUNC = <<~RUBY.freeze
    $heard = []
    set_trace_func(->(event, file, line, id, binding, owner) { $heard << [event, id, file, line] if $heard })
  RUBY

  # Without the application's own part: its console, and what that is told to do.
  OWN = "$heard.dup.tap { $heard = nil }.reject { |_, _, path,| path.to_s =~ /console/ || path.to_s.start_with?('<internal:') }"

  COMMANDS = [
    %w[trace --duration 0.1 Kernel#puts(self,caller.size) String#upcase Shop#],
    %w[trace --duration 0.1 -f],
    %w[trace --duration 0.1 -f --engine hook --args],
    %w[methods String#],
    %w[backtrace],
    %w[memory],
  ].freeze

  def heard_of(target)
    answer = target.run(OWN)
    target.run("$hook&.disable; set_trace_func(nil)")
    answer
  end

  def run_all(target)
    COMMANDS.each do |command, *arguments|
      assert_exit 0, rbprobe(command, "-p", target.pid.to_s, *(["--yes"] if command == "trace"), *arguments)
    end
    # With hooks of the application's on, not all of that can be tried.
    assert_includes [0, 1], rbprobe("selftest", "-p", target.pid.to_s).status
    assert_exit 0, rbprobe("heap", "dump", "-p", target.pid.to_s, "-o", "#{directory}/dump")
  end

  { "TracePoint" => TRACEPOINT, "set_trace_func" => TRACE_FUNC }.each do |name, code|
    test "no command is heard by a #{name} of the application's, the first one that loads the extension included" do
      only_where_loading_is_possible
      target = start("console", load: false)
      target.run(code)
      run_all(target)
      assert_equal "[]", heard_of(target)
    end

    test "methods that are defined while they are traced: #{name}" do
      target = start("console")
      define = "Class.new { def one; 1 end; define_method(:two) { 2 }; def self.three; 3 end; attr_reader :four }"
      tracers = [trace(target, "*#one", "*#two", "*.three"), launch("trace", "-f", "--yes", "-p", target.pid.to_s)]
      tracers.last.wait_for(/engine hook/)
      target.run(code)
      target.run("#{define}.new.one")
      heard = heard_of(target)
      tracers.each(&:stop)
      target.run(code)
      target.run("#{define}.new.one")
      assert_equal heard_of(target), heard
    end
  end

  # As MRI's own tests look for hooks that somebody has left.
  test "a trace by patched code changes no number of hooks, where no expression runs" do
    target = start("console")
    target.run("def stat; TracePoint.stat.values; end")
    assert_exit 0, rbprobe("trace", "-p", target.pid.to_s, "--duration", "0.1", "String#upcase")
    before = target.run("stat")
    [%w[String#upcase Shop#], %w[--args --return String#upcase], %w[-f --no-hook]].each do |arguments|
      tracer = trace(target, *arguments)
      assert_equal before, target.run("stat"), arguments
      assert_exit 0, tracer.stop
    end
    assert_equal before, target.run("stat")
  end

  # One thread's hook is on and off all the time, another one only computes; sessions come and go.
  test "not one event of the application's own hooks is missing" do
    only_where_loading_is_possible
    target = start("console", load: false)
    target.run(<<~RUBY)
      def deep(depth); depth == 0 ? 0 : deep(depth - 1) + 1; end
      $rounds = 0
      $wrong = []
      $threads = [
        Thread.new do
          until $over
            count = 0
            me = Thread.current
            TracePoint.new(:call) { |tp| count += 1 if tp.method_id == :deep && Thread.current == me }.enable { deep(2) }
            $wrong << count if count != 3
            $rounds += 1
          end
        end,
        Thread.new { 1 until $over }
      ]
      nil
    RUBY
    6.times do
      [%w[eval 1+1], %w[trace --yes --duration 0.05 Object#deep String#upcase], %w[trace --yes -f --duration 0.05],
       %w[selftest]].each do |command, *arguments|
        result = rbprobe(command, "-p", target.pid.to_s, "--timeout", "20", *arguments)
        assert_includes [0, 1], result.status, result.stderr
      end
    end
    assert_equal "[]", target.run("$over = true; $threads.each(&:join); $wrong")
    assert_operator target.run("$rounds").to_i, :>, 100
  end

  test "of an evaluation, its code and what shows its result are heard, and nothing around them" do
    target = start("console")
    target.run(TRACEPOINT)
    assert_equal "[3]\n", rbprobe("eval", "-p", target.pid.to_s, "[1 + 2]").stdout
    heard = heard_of(target).gsub(/\[:c_(?:call|return), :\+, [^\]]*\], /, "")
    assert_equal '[[:c_call, :eval, nil, 0], [:script_compiled, :eval, nil, 0], [:line, nil, "(rbprobe)", 1], [:c_return, ' \
                 ':eval, nil, 0]]', heard.gsub(/, \[:c_(?:call|return), :(?:inspect|to_s), [^\]]*\]/, "")
  end

  test "Ruby still warns where a traced method is defined anew" do
    target = start("console", ruby_options: ["-w"])
    target.run("class Pot; define_method(:lid) { 1 }; def rim; 1; end; end; require 'stringio'; $stderr = StringIO.new; nil")
    tracer = trace(target, "Pot#")
    target.run("class Pot; define_method(:lid) { 2 }; def rim; 2; end; end")
    warnings = target.run("$stderr.string.scan(/discarding old (\\w+)/).flatten.sort.tap { $stderr = STDERR }")
    tracer.stop
    assert_equal '["lid", "rim"]', warnings
  end

  test "what an expression calls at a call of a method written in C" do
    target = start("console")
    tracer = trace(target, "Kernel#catch(self, arg1.inspect)")
    target.run("$heard = []; $hook = TracePoint.new(:c_call) { |tp| $heard << tp.method_id if $heard }; $hook.enable")
    target.run("catch(:it) { 1 }")
    tracer.stop
    heard = target.run("$hook.disable; $heard")
    refute_match(/:inspect|:bind_call/, heard)
    assert_includes heard, ":catch"
  end
end
