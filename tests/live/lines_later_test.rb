# Lines of code that is loaded while the trace goes on: each way to load it, each kind of code, and what is left of it.

require_relative "helper"

class LinesLaterTest < LiveTest
  PROGRAM = <<~RUBY
    $seen = [:top]
    class Loaded
      LIMIT = 7
      $seen << LIMIT
      class << self
        $seen << :singleton
      end
    end
    $block = proc do |n|
      double = n * 2
      double + 1
    end
    $seen << $block.call(3)
  RUBY
  SELECTORS = ["later.rb:1($seen)", "later.rb:4(self)", "later.rb:6", "later.rb:11(n, double)", "later.rb:13"].freeze
  SHOWN = <<~TREE.freeze
    later.rb:1 $seen=nil
    later.rb:4 self=Loaded
    later.rb:6
    later.rb:13
    later.rb:11 n=3 double=6
  TREE
  # What the target does, and where that is not in every Ruby, what for.
  WAYS = {
    "require" => "require path",
    "load" => "load path",
    "load in a module of its own" => "load path, true",
    "require_relative, in a method" => "def fetch(path) require_relative(path) end; fetch(path)",
    "autoload" => "Object.autoload(:Loaded, path); Loaded",
    "a thread" => "Thread.new { load path }.join",
    "eval" => "eval(File.read(path), TOPLEVEL_BINDING, path)",
    "eval in a method" => "def run(path) eval(File.read(path), binding, path, 1) end; run(path)",
    "instance_eval" => "Object.new.instance_eval(File.read(path), path)",
    "class_eval" => "Object.class_eval(File.read(path), path)",
    "a cache of compiled code, as that of bootsnap" =>
      "code = RubyVM::InstructionSequence; " \
      "code.define_singleton_method(:load_iseq) { |file| load_from_binary(compile(File.read(file), file, file).to_binary) }; " \
      "begin; load path; ensure; code.singleton_class.send(:remove_method, :load_iseq); end",
  }.freeze

  def prepared
    start("console").tap do |target|
      @path = "#{directory_of_target.last}/later.rb"
      target.run("$VERBOSE = nil") # a file that is loaded twice
    end
  end

  def write(target, program)
    target.run("File.write(#{@path.dump}, #{program.dump}); nil")
  end

  # What is shown of these selectors while the target loads the program, and then runs the code.
  def loaded(program, *arguments, target: prepared, way: "load path", code: "nil")
    write(target, program)
    tracer = trace(target, *arguments)
    target.run("path = #{@path.dump}; #{way}; nil")
    target.run("#{code}; nil")
    tracer.stop.tap { |result| assert_exit 0, result }
  end

  WAYS.each do |name, way|
    test "top level, bodies of classes and blocks, loaded by #{name}" do
      target = prepared
      result = loaded(PROGRAM, *SELECTORS, target: target, way: way)
      assert_equal SHOWN, result.tree.gsub(/self=\S*Loaded/, "self=Loaded")
      assert_equal '[:top, 7, :singleton, 7]', target.run("$seen")
      refute_match(/never matched|may be over/, result.stderr)
      assert_match(/later\.rb:11 loaded now, armed in block in /, result.stderr)
      assert_empty target.stderr
    end
  end

  test "blocks that a DSL keeps, makes methods of, runs in other objects and in threads" do
    program = <<~RUBY
      module Dsl
        def get(path, &block)
          define_method("GET \#{path}", &block)
        end

        def it(words, &block)
          (@examples ||= []) << block
        end
        attr_reader :examples
      end
      class App
        extend Dsl
        get "/cart" do
          sum = 1
          sum + 1
        end
        it "adds" do
          more = @there
          more
        end
        define_method(:again) do |n|
          n * LIMIT
        end
        LIMIT = 5
      end
      $thread = Thread.new do
        answer = 42
        answer
      end
    RUBY
    code = "o = App.new; o.send('GET /cart'); o.instance_variable_set(:@there, 9); o.instance_exec(&App.examples[0]); " \
           "o.again(2); $thread.join"
    result = loaded(program, "--format", "json", "later.rb:15(sum)", "later.rb:19(more, @there)", "later.rb:22(n + LIMIT)",
                    "later.rb:28(answer)", code: code)
    lines = result.events("line").map { |line| [line["line"], line["method"][/\A\S+(?: \S+)?/], line["values"]] }
    assert_equal [[15, "App#GET /cart", { "sum" => "1" }], [19, "block in", { "more" => "9", "@there" => "9" }],
                  [22, "App#again", { "n + LIMIT" => "7" }], [28, "block in", { "answer" => "42" }]], lines.sort_by(&:first)
  end

  test "on a line that has a method, too, each is shown for itself" do
    program = "class Loaded\n  def one(n) n + 1 end\n  define_method(:two) { |n| n + 2 }\n" \
              "  [5].each { |n| $last = n }\nend\n$made = Class.new do\n  def three(n) n + 3 end\nend\n"
    code = "o = Loaded.new; o.one(1); o.two(2); $made.new.three(3)"
    result = loaded(program, "--format", "json", *[2, 3, 4, 7].map { |n| "later.rb:#{n}(n)" }, code: code)
    lines = result.events("line").map do |line|
      [line["line"], line["method"].sub(/\A#<Class:0x\h+>/, "#<Class>"), line["values"]]
    end
    assert_match(/NameError/, lines[0][2].delete("n")) # `def` itself has no such variable
    assert_equal [[2, "<class:Loaded>", {}], [3, "<class:Loaded>", {}], [4, "<class:Loaded>", {}],
                  [4, "<class:Loaded>", { "n" => "5" }], [2, "Loaded#one", { "n" => "1" }], [3, "Loaded#two", { "n" => "2" }],
                  [7, "#<Class>#three", { "n" => "3" }]], lines
  end

  test "where the application is told of methods itself, they are traced without their classes" do
    target = prepared
    target.run("class Module; private def method_added(name) ($names ||= []) << name; end; end; nil")
    result = loaded("class Loaded\n  def one(n)\n    n + 1\n  end\nend\n", "later.rb:3(n)", "later.rb:2", target: target,
                    code: "Loaded.new.one(4)")
    assert_equal "later.rb:2\nlater.rb:3 n=4\n", result.tree
  end

  test "a program from its first line" do
    path = "#{shared_directory}/later.rb"
    File.write(path, PROGRAM)
    skip "the target sees other directories" if Processes::RUBY.first == "chroot"
    result = rbprobe("exec", *SELECTORS, "--", *Processes::RUBY, path, env: Processes::TARGET_ENV)
    assert_exit 0, result
    assert_equal SHOWN, result.stdout
    shell = ["sh", "-c", 'cd "$1" && shift && exec "$@" later.rb', "sh", File.dirname(path), *Processes::RUBY]
    result = rbprobe("exec", *SELECTORS, "--", *shell, env: Processes::TARGET_ENV)
    assert_equal [SHOWN, false], [result.stdout, result.stderr.include?("which has that name")]
  end

  test "of a method that a prepended module hides" do
    program = "class Loaded\n  def one(n)\n    n\n  end\nend\n"
    result = loaded(program, "later.rb:3(n)", way: "class Loaded; prepend(Module.new { def one(n) super end }); end; load path",
                                              code: "Loaded.new.one(4)")
    assert_equal "later.rb:3 n=4\n", result.tree
  end

  AROUND = <<~RUBY
    outer = 1
    class Loaded
      hidden = 2
      [3].each do |step|
        define_method(:go) do |n|
          sum = n + step
          sum
        end
      end
    end
    def template(scope) eval("word = 0\\nword", scope, "/srv/page.erb", 1) end
    def page(title) inner = 4; [5].each { |item| template(binding) } end
    def own(title) eval("title\\ntitle", nil, "/srv/page.erb", 10) end
    $block = eval("lambda { |last|\\n last }", binding, "/srv/page.erb", 20)
  RUBY

  test "the variables around a block that is a method, and around code that eval is given" do
    target = prepared
    code = "Loaded.new.go(1); page('t'); own('u'); $block.call(7)"
    selectors = ["later.rb:7(step, sum, n + step)", "page.erb:2(inner, item, title.size, hidden)", "page.erb:11(title)",
                 "page.erb:21(outer, last, outer + last)"]
    shown = ["later.rb:7 step=3 sum=4 n + step=4",
             "page.erb:2 inner=4 item=5 title.size=1 hidden=#<NameError: undefined: :hidden for #<Object>>",
             "page.erb:11 title=\"u\"", "page.erb:21 outer=1 last=7 outer + last=8"]
    assert_equal shown, loaded(AROUND, *selectors, target: target, code: code).tree.lines(chomp: true)
    result = trace(target, "--locals", "later.rb:7", "page.erb:21")
    target.run("#{code}; nil")
    assert_equal "later.rb:7 hidden=2 step=3 n=1 sum=4\npage.erb:21 outer=1 last=7\n", result.stop.tree
  end

  test "several lines of the same code, and its method, also when it is loaded anew" do
    program = "class Loaded\n  def go(n)\n    a = n\n    b = a\n    [b].each do |x|\n      $last = x\n    end\n    b\n  end\n" \
              "end\n"
    lines = [1, 2, 3, 4, 6, 8].map { |number| "later.rb:#{number}" }
    shown = "Loaded#go\n   later.rb:3\n   later.rb:4\n   later.rb:6\n   later.rb:8\nLoaded#go <time>\n"
    result = loaded(program, "Loaded#go", *lines, way: "2.times { load path; Loaded.new.go(1) }")
    assert_equal "later.rb:1\nlater.rb:2\n#{shown}" * 2, result.tree
  end

  test "a file that has no code there says so when it is loaded, once; what has matched counts as that, in JSON, too" do
    target = prepared
    selectors = [3, 4, 6, 20].map { |number| "later.rb:#{number}" }
    result = loaded("a = 1\n\n# nothing\nb = 2\ndef here\n  3\nend\n", "--format", "json", *selectors, target: target,
                    way: "2.times { load path }")
    place = "rbprobe: process #{target.pid}: later.rb"
    assert_includes result.stderr, "#{place}:3: #{@path} is loaded now, and line 3 of it has no code of its own; " \
                                   "lines near it that have: 1, 4\n"
    assert_equal 2, result.stderr.scan("is loaded now, and line").size
    assert_includes result.stderr, "line 20 of it has no code of its own; the nearest line that has: 6\n"
    assert_equal %w[3 20], result.stderr.scan(/later\.rb:(\d+) never matched code/).flatten
    assert_equal [4, 4], result.events("line").map { |line| line["line"] }
  end

  test "a method of which Ruby reports no lines is named when it is defined" do
    result = loaded("class Loaded\n  def empty\n  end\nend\n", "later.rb:3", "later.rb:2", way: "2.times { load path }")
    [2, 3].each do |number|
      assert_equal 1, result.stderr.scan("later.rb:#{number}: Ruby reports no line of Loaded#empty, which is there").size
    end
    assert_equal "later.rb:2\n" * 2, result.tree
  end

  test "of two files of that name, the one that came later is named, and not traced" do
    target = prepared
    write(target, "one = 1\n")
    tracer = trace(target, "later.rb:1(__FILE__)")
    target.run("load #{@path.dump}; 3.times { eval('two = 2', binding, '/srv/lib/later.rb') }; nil")
    target.run("eval('three = 3', binding, 'later.rb'); nil")
    result = tracer.stop
    assert_equal 2, result.tree.lines.size
    assert_equal 1, result.stderr.scan("later.rb:1: /srv/lib/later.rb, which has that name, too, is not traced").size
  end

  test "a file that is loaded anew is traced anew; code that is compiled again and again, for so long" do
    target = prepared
    result = loaded("$times = 1\n", "later.rb:1", target: target, way: "1003.times { load path }")
    assert_equal 1000, result.tree.lines.size
    assert_equal 1, result.stderr.scan("later.rb:1 was compiled 1000 times since the trace began").size
    tracer = trace(target, "later.rb:1")
    target.run("3000.times { |n| eval('n', binding, #{@path.dump}, 1) }; nil")
    result = tracer.stop
    assert_operator result.tree.lines.size, :<=, 1000
    refute_empty result.tree
    assert_match(/was compiled 1000 times|faster than it can be looked at/, result.stderr)
  end

  test "the application keeps its own: $!, overridden methods, hooks that are on, exceptions" do
    target = prepared
    target.run("class RubyVM::InstructionSequence; %i[path absolute_path label each_child trace_points to_a].each { |name| " \
               "define_method(name) { |*| raise 'overridden' } }; end; " \
               "class TracePoint; def instruction_sequence() raise 'overridden' end; end; nil")
    target.run("$heard = []; $own = TracePoint.new(:line, :c_call, :call) { |tp| $heard << tp.path }; nil")
    way = "begin; raise 'first'; rescue; $own.enable { load path }; $kept = $!.message; end"
    assert_equal "later.rb:2\n", loaded("one = 1\ntwo = 2\n", "later.rb:2", target: target, way: way).tree
    assert_equal '"first"', target.run("$kept")
    assert_equal [@path, "console"], target.run("$heard.uniq").scan(/"([^"]+)"/).flatten.sort
    way = "begin; load path; rescue => e; $kept = e.message; end"
    result = loaded("one = 1\nraise 'mine'\n", "later.rb:2", target: target, way: way)
    assert_equal ["later.rb:2\n", '"mine"'], [result.tree, target.run("$kept")]
  end

  test "two clients at one line, a fork, and nothing is left" do
    target = prepared
    write(target, PROGRAM)
    count = "GC.start; [ObjectSpace.each_object(TracePoint).select(&:enabled?).size, ObjectSpace.each_object(TracePoint).count]"
    loaded(PROGRAM, "later.rb:1", target: target)
    before = target.run(count)
    others = trace(target, "later.rb:1($seen.size)")
    first = loaded(PROGRAM, "later.rb:11(n)", "later.rb:1", target: target)
    assert_equal 2, first.tree.lines.size
    target.run("Process.wait(fork { load #{@path.dump}; exit!(0) }); load #{@path.dump}; nil")
    assert_equal 2, others.stop.tree.lines.size
    target.run("load #{@path.dump}; nil")
    assert_equal before, target.run(count)
    assert_match(/\A\[0, /, before)
  end

  test "compaction and garbage collection move nothing from under it" do
    target = prepared
    skip "this Ruby cannot compact" unless target.run("GC.respond_to?(:compact)") == "true"
    way = "3.times { GC.compact; GC.start; load path; GC.compact; GC.start; $block.call(8) }"
    result = loaded(PROGRAM, "later.rb:4(self)", "later.rb:11(n)", target: target, way: way)
    assert_equal (["later.rb:4 self=Loaded", "later.rb:11 n=3", "later.rb:11 n=8"] * 3).join("\n"), result.tree.chomp
  end

  test "methods lists what is there of it: blocks that are kept, and code that runs" do
    target = prepared
    write(target, "#{PROGRAM}sleep 0.01 until $over\n")
    target.run("$thread = Thread.new { load #{@path.dump} }; sleep 0.01 until ($seen || []).size == 4; nil")
    result = rbprobe("methods", "-p", target.pid.to_s, "later.rb:11", "later.rb:14")
    assert_match(/^block in .*  #{@path}:11  target \(.*local variables: n, double\)$/, result.stdout)
    assert_match(/^<\S+.*>  #{@path}:14  target \(runs once/, result.stdout)
    target.run("$over = true; $thread.join; nil")
  end

  test "in another Ractor code is not followed, and does no harm" do
    skip "no Ractors before 3.0" unless Processes.target_ruby?(">= 3.0")
    target = prepared
    target.expects_stderr = true
    write(target, PROGRAM)
    tracer = trace(target, "later.rb:2")
    target.run("$r = Ractor.new { eval('[1,\n 2].sum', binding, 'later.rb') }; sleep 0.2; load #{@path.dump}; nil")
    assert_includes tracer.stop.tree, "later.rb:2\n"
  end
end
