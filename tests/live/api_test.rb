# What the application can say: Rbprobe.allow, Rbprobe.on_attach, and nothing where it has not required the extension.

require "open3"
require_relative "helper"

class ApiTest < LiveTest
  COMMANDS = {
    "trace" => [%w[trace --duration 0.1 Integer#pow], %w[stat --duration 0.1 Integer#pow], %w[methods Integer#pow]],
    "eval" => [%w[eval 1+1], %w[console]],
    "backtrace" => [%w[bt]],
    "heap" => [%w[heap dump -o -]],
    "memory" => [%w[memory]],
    "fork" => [%w[fork]],
    "selftest" => [%w[selftest]],
  }.freeze
  KINDS = COMMANDS.keys.freeze

  def symbols(kinds)
    "[#{kinds.map { |kind| ":#{kind}" }.join(", ")}]"
  end

  def ask(target, words, *more)
    verbs = words.first == "heap" ? 2 : 1
    rbprobe(*words.take(verbs), "-p", target.pid.to_s, *words.drop(verbs), *more)
  end

  def assert_not_allowed(target, kind, words, allowed)
    result = ask(target, words)
    assert_exit 1, result
    refused = /\Arbprobe: process #{target.pid}: the application does not allow #{kind}[^\n]* \(Rbprobe\.allow\); /
    assert_match(/#{refused}it allows #{allowed}\n\z/, result.stderr)
    assert_equal "", result.stdout
  end

  def assert_allowed(target, words)
    result = ask(target, words)
    assert_exit 0, result
    # A frozen copy stays until somebody ends it.
    Process.kill(:KILL, result.stdout.to_i) if words == %w[fork] && result.stdout.to_i > 1
  end

  # A target that notes in $seen who has attached.
  def noting
    start("console").tap { |target| target.run("$seen = []; Rbprobe.on_attach { |who| $seen << who }; 1") }
  end

  test "it knows its version and what there is to allow" do
    target = start("console")
    version = rbprobe("--version").stdout[/\d+\.\d+\.\d+/].inspect
    assert_equal [version, version], [target.run("Rbprobe.version"), target.run("Rbprobe::VERSION")]
    assert_equal symbols(KINDS), target.run("Rbprobe::ALL")
    assert_equal symbols(KINDS), target.run("Rbprobe.allow")
    assert_equal "[[:trace, :fork], [:trace, :fork]]", target.run("[(Rbprobe.allow = [:trace, :fork]), Rbprobe.allow]")
  end

  test "it refuses what makes no sense, and then nothing changes" do
    target = start("console")
    target.run("def refused; yield; rescue Exception => e; [e.class, e.message]; end; Rbprobe.allow = [:heap]")
    assert_equal '[ArgumentError, "Rbprobe.allow knows no tarce, but: ' + "#{KINDS.join(", ")}\"]",
                 target.run("refused { Rbprobe.allow = [:trace, :tarce] }")
    assert_equal '[TypeError, "Rbprobe.allow takes Symbols, not String"]', target.run('refused { Rbprobe.allow = ["trace"] }')
    assert_equal '[TypeError, "Rbprobe.allow takes an Array of Symbols, not NilClass"]',
                 target.run("refused { Rbprobe.allow = nil }")
    assert_equal '[ArgumentError, "Rbprobe.on_attach takes a block"]', target.run("refused { Rbprobe.on_attach }")
    if Processes.target_ruby?(">= 3.0")
      code = "Warning[:experimental] = false; r = Ractor.new { begin; Rbprobe.allow = [:eval]; rescue => e; e.message; end }; " \
             "r.respond_to?(:value) ? r.value : r.take"
      assert_equal '"only the main Ractor can say what rbprobe may do"', target.run(code)
    end
    assert_equal "[:heap]", target.run("Rbprobe.allow")
  end

  KINDS.each do |allowed|
    test "#{allowed} alone is allowed, and each other command gets one line, whoever asks" do
      target = start("console")
      target.run("Rbprobe.allow = [:#{allowed}]")
      COMMANDS.each do |kind, commands|
        commands.each do |words|
          kind == allowed ? assert_allowed(target, words) : assert_not_allowed(target, kind, words, allowed)
        end
      end
      target.run("Rbprobe.allow = Rbprobe::ALL")
      assert_equal "2\n", ask(target, %w[eval 1+1]).stdout
    end
  end

  test "nothing is allowed" do
    target = start("console")
    target.run("Rbprobe.allow = []")
    COMMANDS.each { |kind, commands| assert_not_allowed(target, kind, commands.first, "nothing") }
  end

  test "without eval, expressions are variables, and nobody can allow more" do
    target = start("console")
    target.run("class Shop; def sell(item); @item = item; end; def close; $closed = true; end; end; Rbprobe.allow = [:trace]")
    ["Rbprobe.allow = Rbprobe::ALL", "item.to_s", "close", "x: Rbprobe"].each do |code|
      assert_not_allowed(target, "eval", ["trace", "--duration", "5", "Shop#sell(#{code})"], "trace")
    end
    assert_not_allowed(target, "eval", ["trace", "--duration", "5", "Shop#sell", "--if", "item == 1"], "trace")
    assert_not_allowed(target, "eval", ["trace", "--duration", "5", "Shop#sell(self)", "--inspect"], "trace")
    assert_not_allowed(target, "eval", ["stat", "--duration", "5", "--by", "item.class", "Shop#sell"], "trace")
    tracer = trace(target, "Shop#sell(self, item, @item, it: item)")
    target.run("Shop.new.sell(7); 1")
    assert_equal "Shop#sell(self=#<Shop>, item=7, @item=nil, it=7) <time>\n", tracer.stop.tree
    assert_equal "[[:trace], nil]", target.run("[Rbprobe.allow, $closed]")
  end

  test "what is under way ends when it is not allowed any more" do
    target = start("console")
    target.run("class Shop; def sell(item); end; end; 1")
    kept = trace(target, "Shop#sell")
    ended = trace(target, "Shop#sell(item.to_s)")
    evaluation = launch("eval", "-p", target.pid.to_s, "$begun = true; sleep")
    wait_until("it has begun") { target.run("$begun") == "true" }
    target.run("Rbprobe.allow = [:trace]")
    result = ended.wait
    assert_match(/process #{target.pid} refused: the application does not allow eval, which expressions.* it allows trace$/,
                 result.stderr)
    refute_equal 0, result.status
    result = evaluation.wait
    assert_match(/the application does not allow eval/, result.stderr)
    refute_equal 0, result.status
    wait_until("the code has ended") { target.run("Thread.list.size") == "1" }
    target.run("Shop.new.sell(1)")
    assert_equal "Shop#sell <time>\n", kept.stop.tree
  end

  test "a process that does not come to a safe point shows no Ruby frames where backtraces are not allowed" do
    skip "on 2.7 there are none" if Processes.target_ruby?("< 3.0")
    target = start("console")
    target.run("Rbprobe.allow = [:trace]")
    target.run_in_background("3.pow(7**60000, 11**60000)")
    wait_until_it_computes(target.pid)
    result = rbprobe("bt", "-p", target.pid.to_s, "--timeout", "1")
    assert_exit 0, result
    assert_match(/its Ruby frames are not shown: the application does not allow it/, result.stdout)
    refute_match(/in console/, result.stdout)
    abandon(target)
  end

  test "the application hears who attaches" do
    target = noting
    tracer = trace(target, "Integer#pow")
    wait_until("it has been told") { target.run("$seen.size") == "1" }
    assert_equal "[#{tracer.pid}, #{Process.uid}]", target.run("[$seen[0].pid, $seen[0].uid]")
    assert_match(/rbprobe trace .*-p #{target.pid} Integer#pow"\z/, target.run("$seen[0].command"))
    assert_equal "Rbprobe::Client", target.run("$seen[0].class")
    target.run("Rbprobe.on_attach { $name = Thread.current.name }; 1")
    assert_attachable(target)
    wait_until("the second block has run") { target.run("$name") == '"rbprobe on_attach"' }
    assert_equal "2", target.run("$seen.size")
    tracer.stop
  end

  test "what a block raises, throws or exits harms nobody, and -v shows it" do
    target = start("console")
    target.run("$done = 0; Rbprobe.on_attach { raise 'no log' }; Rbprobe.on_attach { throw :log }; " \
               "Rbprobe.on_attach { exit! if false; exit }; Rbprobe.on_attach { $done += 1 }")
    tracer = trace(target, "Integer#pow")
    tracer.wait_for(/^rbprobe: process #{target.pid}: a block of the application's Rbprobe\.on_attach failed: no log$/)
    tracer.wait_for(/Rbprobe\.on_attach failed: uncaught throw :log$/)
    wait_until("the last one ran") { target.run("$done") == "1" }
    tracer.stop
    assert_equal "1", target.run("Thread.list.size")
  end

  test "what a block throws is shown without the application's inspect" do
    target = start("console")
    target.run("class Tag; def inspect; $asked = true; end; end; Rbprobe.on_attach { throw Tag.new }; " \
               "Rbprobe.on_attach { raise '100%p' }; Rbprobe.on_attach { $done = 1 }")
    tracer = trace(target, "Integer#pow")
    tracer.wait_for(/Rbprobe\.on_attach failed: uncaught throw #<Tag>$/)
    tracer.wait_for(/Rbprobe\.on_attach failed: 100%p$/)
    wait_until("the last one ran") { target.run("$done") == "1" }
    tracer.stop
    assert_equal "nil", target.run("$asked")
  end

  # That of the Ruby which runs the tests, by which sig/ is checked.
  def only_with_rbs
    skip "needs the gem rbs, which Ruby comes with from 3.0 on" if Gem::Specification.find_all_by_name("rbs").empty?
  end

  # [name, arity] of Rbprobe's own public methods, as sig/ has them.
  def signatures
    require "rbs"
    loader = RBS::EnvironmentLoader.new.tap { |made| made.add(path: Pathname("#{Processes::ROOT}/sig")) }
    module_name = RBS::TypeName.new(name: :Rbprobe, namespace: RBS::Namespace.root)
    environment = RBS::Environment.from_loader(loader).resolve_type_names
    all = RBS::DefinitionBuilder.new(env: environment).build_singleton(module_name).methods
    own = all.select { |_, method| method.public? && method.defs.any? { |one| one.implemented_in == module_name } }
    own.flat_map { |name, method| method.method_types.map { |one| [name, arity_of(one.type)] } }.sort
  end

  def arity_of(type)
    required = type.required_positionals.size + type.trailing_positionals.size
    required += 1 unless type.required_keywords.empty?
    type.optional_positionals.empty? && type.rest_positionals.nil? ? required : -required - 1
  end

  test "rbs accepts the signatures" do
    only_with_rbs
    output, status = Open3.capture2e(RbConfig.ruby, "-e", 'load Gem.bin_path("rbs", "rbs")', "--", "-I",
                                     "#{Processes::ROOT}/sig", "validate")
    assert_predicate status, :success?, output.gsub(/^Validating .*?\.\.\.\n?/, "")
  end

  test "the signatures are those of the methods that there are" do
    only_with_rbs
    own = "Rbprobe.singleton_methods.sort.map { |name| [name, Rbprobe.method(name).arity] }"
    assert_equal start("console").run(own), signatures.inspect
  end

  test "who changes all Arrays that ObjectSpace has does not reach the blocks" do
    target = start("console")
    target.run("$seen = 0; $block = proc { $seen += 1 }; Rbprobe.on_attach(&$block)")
    assert_equal "0", target.run("ObjectSpace.each_object(Array).count { |array| array.delete($block) }")
    assert_attachable(target)
    wait_until("it was told") { target.run("$seen") == "1" }
  end

  test "a block that does not come back holds up no client" do
    target = start("console")
    target.run("$seen = []; $gate = Queue.new; Rbprobe.on_attach { |who| $gate.pop; $seen << who.command }; 1")
    3.times { |n| assert_equal "#{n}\n", rbprobe("eval", "-p", target.pid.to_s, n.to_s).stdout }
    assert_equal "[]", target.run("$seen")
    target.run("3.times { $gate << 1 }")
    wait_until("all were told of, in order") { target.run("$seen.map { |text| text[/\\d+\\z/] }") == '["0", "1", "2"]' }
    wait_until("the thread is gone") { target.run("Thread.list.size") == "1" }
  end

  test "a thread that is killed in a block ends, and the next client is told of" do
    target = start("console")
    target.run("$seen = 0; Rbprobe.on_attach { |who| ($seen += 1) == 1 ? Thread.current.kill : ($seen = :again) }; 1")
    2.times { assert_exit 0, rbprobe("eval", "-p", target.pid.to_s, "1") }
    wait_until("it was told") { target.run("$seen") == ":again" }
    wait_until("the thread is gone") { target.run("Thread.list.size") == "1" }
  end

  test "a forked child hears of its own clients, not of its parent's, and has its parent's restriction" do
    target = noting
    tracer = launch("trace", "-v", "--yes", "-p", target.pid.to_s, "--follow-forks", "Integer#pow").wait_until_armed
    wait_until("the parent has been told") { target.run("$seen.size") == "1" }
    target.run("Rbprobe.allow = [:trace, :memory]; $seen.clear; reader, $gate = IO.pipe; answers, writer = IO.pipe; " \
               "$child = fork { $gate.close; 2.pow(3); reader.gets; sleep 0.01 while $seen.empty?; " \
               "writer.puts $seen.map(&:command).inspect; writer.close; exit! }; writer.close; $answers = answers; 1")
    child = target.run("$child").to_i
    target.adopt(child)
    assert_match(/the application does not allow eval/, rbprobe("eval", "-p", child.to_s, "1").stderr)
    target.run("$gate.puts; 1")
    assert_match(/\A"\[\\"[^,]*rbprobe eval -p #{child} 1\\"\]/, target.run("$answers.read"))
    assert_equal "[]", target.run("Process.wait($child); $seen")
    tracer.stop
  end

  test "where a client has loaded the extension the application sees nothing of it, until it requires it" do
    only_where_loading_is_possible
    target = start("console", load: false)
    assert_exit 0, rbprobe("load", "-p", target.pid.to_s)
    assert_equal "nil", target.run("defined?(Rbprobe)")
    assert_equal '[true, "constant"]',
                 target.run("[$:.unshift('#{BUILD}/tracee') && require('rbprobe'), defined?(Rbprobe)]")
    target.run("$seen = []; Rbprobe.on_attach { |who| $seen << who.pid }; Rbprobe.allow = [:trace]")
    assert_not_allowed(target, "eval", %w[eval 1], "trace")
    wait_until("it was told") { target.run("$seen.size") == "1" }
  end
end
