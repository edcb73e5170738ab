# rbprobe selftest: what rbprobe relies on of Ruby's VM, tried in the process.

require_relative "helper"

class SelftestTest < LiveTest
  # How vm_assumptions.c names a Ruby.
  RUBY = Processes::RUBY_VERSION_OF_TARGET[/\A\d+\.\d+/]

  def selftest(target, *options, **settings)
    rbprobe("selftest", "-p", target.pid.to_s, *options, **settings)
  end

  def facts_of(target, status: 0)
    result = selftest(target, "--format=json")
    assert_exit status, result
    report = result.objects.first
    assert_equal "selftest", report["type"]
    assert_equal target.pid, report["pid"]
    assert_equal Processes::RUBY_VERSION_OF_TARGET, report["ruby"]
    %w[ok failed not_applicable not_tried].each do |state|
      assert_equal report["facts"].count { |fact| fact["state"] == state }, report[state], state
    end
    report["facts"].to_h { |fact| [fact["name"], fact] }
  end

  test "everything that was seen on this Ruby is seen again, and nothing is claimed that is not" do
    # With warnings: whatever it says, the target's stderr stays empty.
    facts = facts_of(start("console", ruby_options: ["-w"]))
    # What the machine decides.
    facts.delete("clock.tsc")
    facts.each_value do |fact|
      expected = fact["seen"].split.include?(RUBY) ? "ok" : "not_applicable"
      assert_equal expected, fact["state"], fact.inspect
      assert_equal expected == "ok", fact["reason"].nil?, fact.inspect
    end
    assert_includes facts.keys, "patch.layout"
  end

  test "a line for each fact, and the sum" do
    target = start("console")
    result = selftest(target)
    assert_exit 0, result
    first, *lines, sum = result.stdout.lines
    assert_equal "process #{target.pid}, ruby #{Processes::RUBY_VERSION_OF_TARGET}\n", first
    lines.each { |line| assert_match(%r{\A(?:ok       |n/a      )  [a-z]+\.[a-z]+ +\S.*\n\z}, line) }
    assert_match(/\A\d+ ok, 0 failed(?:, \d+ not applicable)?\n\z/, sum)
    assert_match(
      /^ok         patch.calls +A function that is put in a method's place is called instead, .* \(seen on 2\.7 3\.1 .*\)$/,
      selftest(target, "--verbose").stdout
    )
  end

  test "RBPROBE_DEBUG=request shows where the VM keeps what was looked for" do
    places = selftest(start("console"), env: { "RBPROBE_DEBUG" => "request" }).stderr.scan(/: layout: (.*)$/).flatten
    assert_includes places.map { |place| place[/\A[a-z.]+/] }, "context.thread"
    places.each do |place|
      assert_match(/\A[a-z]+\.[a-z]+: (?:(?:word|byte|bit|value) -?\d+|address 0x\h+|not looked for,) of /, place)
    end
  end

  test "where all is well, load and trace say nothing of it" do
    target = start("console")
    refute_match(/self-test/, rbprobe("load", "-v", "-p", target.pid.to_s).stderr)
    refute_match(/self-test/, trace(target, "String#upcase", "Kernel#puts").stop.stderr)
  end

  # Without frames for tail calls, scratch methods would not have the frames that are looked for.
  test "compile options of the application's are not those of scratch methods" do
    target = start("console")
    target.run("RubyVM::InstructionSequence.compile_option = { tailcall_optimization: true, specialized_instruction: false }; 1")
    assert_exit 0, selftest(target)
  end

  # An application's own hook, once on, hides from rbprobe where the VM remembers it.
  test "a fact that does not hold is told, with what is refused for it, and is refused" do
    target = start("console")
    target.run("TracePoint.new(:thread_begin) { }.enable { }; class Pot; attr_reader :lid; end")
    result = selftest(target)
    assert_exit 1, result
    assert_match(
      /^FAILED     hook\.flags .*: it was not found; perhaps a hook .* was on before; so engine hook leaves the process slower/,
      result.stdout
    )
    assert_match(/^not tried  hook\.frames .*: it stands on hook\.flags; without it /, result.stdout)
    assert_match(/^not tried  code\.events .*: it stands on hook\.flags; without it /, result.stdout)
    assert_match(/^\d+ ok, 1 failed(, \d+ not applicable)?, 4 not tried$/, result.stdout)
    hint = "`rbprobe selftest -p #{target.pid}` shows more"
    assert_match(/^rbprobe: process #{target.pid}: self-test: hook\.flags failed; #{hint}$/,
                 rbprobe("load", "-v", "-p", target.pid.to_s).stderr)
    next unless target_ruby?(">= 3.0")

    traced = trace(target, "Pot#lid").stop
    assert_match(/self-test: hook\.flags failed; `rbprobe selftest` shows more$/, traced.stderr)
    assert_refused 1, /Pot#lid .* needs engine hook/, "trace", "-p", target.pid.to_s, "Pot#lid"
  end

  test "after a trace that leaves the process slower, it cannot be tried how to do without that" do
    target = start("console")
    trace(target, "--firehose").stop
    facts = facts_of(target, status: 1)
    assert_equal "failed", facts["hook.flags"]["state"]
    assert_match(/a hook for calls or blocks was on before/, facts["hook.flags"]["reason"])
    # The firehose has found them.
    assert_equal "ok", facts["hook.frames"]["state"]
  end

  test "no code of the application runs for it, and nothing stays" do
    target = start("console", ruby_options: ["-W0"])
    target.run(<<~'RUBY')
      $ran = []
      class Module
        def method_added(name); $ran << name; end
        def extended(base); $ran << :extended; end
      end
      class BasicObject
        def singleton_method_added(name); $ran << name; end
      end
      class Object
        def initialize(*); $ran << :initialize; end
      end
      $ran.clear
      1
    RUBY
    assert_exit 0, selftest(target)
    assert_equal "[]", target.run("$ran")
    assert_equal "[]", target.run("ObjectSpace.each_object(TracePoint).select(&:enabled?)")
    # Somebody may find what the GC has not taken away yet.
    target.run("$found = ObjectSpace.each_object(TracePoint).to_a; $found.each { |point| point.enable rescue nil }; 1.+(2)")
    target.run("$found.each { |point| point.disable rescue nil }; 1")
    assert_equal "[1, nil]", target.run("[Thread.list.size, $!]")
  end

  # Before 3.2 disabling a TracePoint of a define_method method has the VM believe that there are no global ones.
  test "a TracePoint of the application's own goes on seeing everything" do
    target = start("console")
    target.run("class Pot; attr_reader :lid; define_method(:stir) { 1 }; end")
    target.run("$seen = []; TracePoint.new(:call, :c_call, :b_call) { |t| $seen << t.method_id if t.self.is_a?(Pot) }.enable; 1")
    count = "$seen.clear; pot = Pot.allocate; pot.lid; pot.stir; pot.frozen?; $seen.dup"
    before = target.run(count)
    assert_match(/stir/, before)
    selftest(target)
    assert_equal before, target.run(count)
  end

  test "while others trace, who see nothing of it" do
    target = start("console")
    target.run("def knead; 1; end")
    tracer = trace(target, "knead", "Module#define_method", "Module#alias_method", "Kernel#catch", "Module#instance_method")
    assert_exit 0, selftest(target)
    target.run("knead")
    assert_equal "Object#knead <time>\n", tracer.stop.tree
  end

  test "several processes; one whose application has SIGURG; one that never loaded the extension" do
    targets = [start("console"), start("console")]
    targets.last.run("trap('URG') { }; 1")
    targets << start("shop", load: false) if Processes::TARGET_ENV.empty?
    # They are attached to at once, while the last is being loaded into.
    result = rbprobe("selftest", "-p", targets.map(&:pid).join(","), "--format=json", "--timeout=30")
    assert_exit 0, result
    assert_equal targets.map(&:pid).sort, result.objects.map { |object| object["pid"] }.sort
  end

  test "a Ruby that is started for it" do
    result = rbprobe("selftest", "--format=json", "--", *Processes::RUBY, "-W0", env: Processes::TARGET_ENV)
    assert_exit 0, result
    report = result.objects.first
    assert_equal Processes::RUBY_VERSION_OF_TARGET, report["ruby"]
    refute File.exist?("/proc/#{report["pid"]}")
    8.times do
      busy = rbprobe("selftest", "--format=json", "--", *Processes::RUBY, "-W0",
                     "-e", "2.times { Thread.new { loop { } } }", env: Processes::TARGET_ENV)
      assert_exit 0, busy
      left = Processes::Leftovers.queues.map(&:key)
      refute_includes left, Processes::Leftovers.queue_key(busy.objects.first["pid"]), "a queue is left"
    end
    assert_refused 3, /cannot run .*no-such-ruby: No such file or directory$/, "selftest", "--", "/no-such-ruby"
    assert_refused 3, /true ended before it ran any Ruby/, "selftest", "--", "true"
    assert_refused 3, /sh has not begun to run Ruby within 0.1 s/, "selftest", "--timeout=0.1", "--", "sh", "-c", "exec sleep 600"
  end

  test "wrong usage" do
    assert_refused 2, /selftest needs either -p PID or a Ruby/, "selftest"
    assert_refused 2, /selftest needs either -p PID or a Ruby/, "selftest", "-p", "1", "--", "ruby"
    assert_refused 2, /selftest needs either -p PID or a Ruby/, "selftest", "--"
    assert_refused 2, /--format takes text or json, not "xml"/, "selftest", "-p", "1", "--format=xml"
  end
end
