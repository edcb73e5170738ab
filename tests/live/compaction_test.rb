# Compaction in a process that is or was traced: nothing of ours may make objects hang that the collector has moved.

require_relative "helper"

class CompactionTest < LiveTest
  # Moves all objects that can be moved, twice, and then collects: what the VM holds an outdated address of, it stumbles over.
  MOVE = <<~RUBY
    room = RUBY_VERSION < "3.2" ? { double_heap: true } : { expand_heap: true }
    2.times { GC.verify_compaction_references(toward: :empty, **room) }
    GC.start
    :moved
  RUBY

  def only_where_objects_can_be_moved(target)
    skip "this Ruby cannot verify compaction" unless target.run("GC.respond_to?(:verify_compaction_references)") == "true"
  end

  # One that was built without it takes the option and goes on with a warning.
  def yjit?
    code = "exit(defined?(RubyVM::YJIT) && RubyVM::YJIT.enabled? ? 0 : 1)"
    system(*Processes::RUBY, "--yjit", "-e", code, err: File::NULL)
  end

  COMPILERS = [[], %w[--yjit --yjit-call-threshold=2]].freeze

  COMPILERS.each do |options|
    name = options.empty? ? "the interpreter" : "YJIT"

    test "after each command, and while a trace is on: #{name}" do
      skip "this Ruby has no YJIT" if options.any? && !yjit?
      target = start("shop", ruby_options: options)
      only_where_objects_can_be_moved(target)
      assert_equal ":moved", target.run(MOVE)
      pid = target.pid.to_s
      [%w[methods Kernel#puts *#], %w[eval 1+1], %w[bt], %w[memory], %w[selftest]].each do |command, *arguments|
        result = rbprobe(command, "-p", pid, *arguments)
        assert_exit 0, result
        assert_equal ":moved", target.run(MOVE), "after #{command}"
      end
      tracer = trace(target, "Kernel#", "Comparable#", "Enumerable#", "Shop#", "Array#")
      target.run("$shop.price('tea'); [3, 1].sort.inspect.dup; 5.clamp(1, 3); respond_to?(:x)")
      assert_equal ":moved", target.run(MOVE)
      target.run("$shop.price('tea')")
      assert_includes tracer.stop.tree, "Shop#price"
      assert_equal ":moved", target.run(MOVE)
    end

    # With YJIT all methods may be too many for a slow machine: rbprobe gives them up before it stands in anyone's way.
    many = options.empty? ? %w[-f] : %w[Shop# Kernel# Comparable# Enumerable# Array# Hash# String# Integer#]

    test "traces of very many methods that come and go: #{name}" do
      skip "this Ruby has no YJIT" if options.any? && !yjit?
      target = start("shop", ruby_options: options)
      only_where_objects_can_be_moved(target)
      3.times do
        tracer = trace(target, *many, "--no-hook")
        target.run("10.times { $shop.sell(:tea); [3, 1].sort.inspect; 5.clamp(1, 3); respond_to?(:x); catch(:a) { throw :a } }")
        assert_equal ":moved", target.run(MOVE)
        tracer.stop
        assert_equal ":moved", target.run(MOVE)
      end
    end
  end
end
