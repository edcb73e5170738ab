# Calls every public method of Ruby's core classes with many shapes of arguments, and writes down what came of each call:
#
#   program.rb OUTCOMES [N]   Waits for a line on standard input ("go"), makes all calls, writes one line a call to the
#                             file OUTCOMES. N: only each N-th call of a method.
#
# A line is a key (method, receiver, arguments, block), a tab, and what came of it: value, class of the exception and
# message, $~, $_ and $!, the labels of the backtrace, the receiver afterwards, the frames that the block saw. Nothing of it
# may depend on being watched.
#
# Everything happens in an empty directory of its own. Methods whose purpose is to end, replace, block or change the process
# are not called; NOT_CALLED names them.

require "tmpdir"

module Oracle
  class Enough < StandardError; end

  BLOCK_CALLS_MAX = 40
  FRAMES = 5 # that are compared: what is called, what it calls, and the first of ours

  class Ordered
    include Comparable
    attr_reader :n

    def initialize(n)
      @n = n
    end

    def <=>(other)
      other.is_a?(Ordered) ? n <=> other.n : nil
    end

    def inspect
      "#<Ordered #{n}>"
    end

    def succ
      Ordered.new(n + 1)
    end
  end

  class Listed
    include Enumerable

    def each
      return to_enum(:each) unless block_given?

      yield 3
      yield 1
      yield "b"
      yield 1
      self
    end

    def inspect
      "#<Listed>"
    end
  end

  class Numbers < Listed
    def each
      yield 3
      yield 1
      yield 2
      self
    end
  end

  # Receivers, made anew for each call. Instance methods that the class itself defines are called on them.
  RECEIVERS = {
    String => ['+"abc"', '+""', '+"\u00e4b\u00e7 b"', '"b".freeze', '+"a\xffb".b', '+"12.5e3xyz"', '+"a,b;b\n c\n"'],
    Symbol => %w[:abc :b :"" :+],
    Array => ["[3, 1, 2]", "[]", "[1, [2, [3, nil]], 1]", '["b", "a", "b"]', "[nil, false, true].freeze"],
    Hash => ["{ a: 1, b: 2 }", "{}", '{ 1 => "b", nil => [1] }', "Hash.new { |h, k| h[k] = k }", "{ b: { a: 1 } }.freeze",
             "{ a: 1 }.compare_by_identity"],
    Integer => ["0", "7", "-3", "2**64", "65"],
    Float => ["0.5", "-3.25", "1e20", "Float::NAN", "Float::INFINITY"],
    Range => ["(1..5)", "(1...1)", '("a".."e")', "(1.5..2.5)", "(nil..3)"],
    Kernel => ["Object.new", "[1, 2]", '+"b"', "nil"],
    Module => ["Module.new", "Class.new", "Class.new(String) { def b; 1; end; B = 2; @@c = 3 if false }",
               "Module.new { def a; end; def self.b; end }"],
    Method => ["7.method(:+)", '"abc".method(:sub)', "Listed.new.method(:each)", "[3, 1].method(:map)", "Ordered.method(:new)"],
    Proc => ["proc { |a, b = 2, *c| [a, b, c] }", "lambda { |a| a }", "proc { |a, k: 1| [a, k] }", ":upcase.to_proc"],
    IO => ['IO.pipe.then { |r, w| w << "b1\nb2\n"; w.close; r }', 'File.open("file", "r+")', 'File.open("new", "w")'],
    File => ['File.open("file", "r+")', 'File.open("file")', 'File.open("new", "a+")'],
    Time => ["Time.at(0).utc", "Time.at(1_600_000_000, 123_456_789, :nsec).utc", "Time.new(2020, 2, 29, 12, 30, 15, '+02:00')"],
    Comparable => ["Ordered.new(2)", "Ordered.new(-1)"],
    Enumerable => ["Listed.new", "Numbers.new"],
  }.freeze

  # Classes and modules whose own singleton methods are called.
  SINGLETONS = [String, Symbol, Array, Hash, Integer, Float, Range, Kernel, Module, Method, Proc, IO, File, Time,
                Comparable, Enumerable, Process, GC, ObjectSpace].freeze

  ARGUMENTS = [
    "", "nil", "1", "-1", "0", "2, 1", "1, 2, 3", '"b"', '"b", "x"', ":b", ":a, 1", "0.5", "/b/", '/(b)(?<n>.)?/', "[1]",
    "[1, 2], [3]", "{ a: 1 }", "1..2", "-2..", "Object.new", "Integer", "String", "7, 0.5", '"%d b", 3', "Ordered.new(1)",
    "Ordered.new(1), Ordered.new(2)", '/b/, "<\\\\0>"', "a: 1", "true", "1, 2, 3, 4", "Time.at(1).utc", '"file"',
    '"file", "new"', "1000", "3, in: \"UTC\"", "exception: false", '"b", exception: false',
  ].freeze

  # The block, by what it does: none, gives its argument back, leaves the call in one way or other.
  BLOCKS = {
    "" => nil,
    "{ }" => ->(seen) { proc { |*a| seen.call; a.first } },
    "{ true }" => ->(seen) { proc { |*| seen.call; true } },
    "{ <=> }" => ->(seen) { proc { |a, b| seen.call; b ? b <=> a : a.to_s } },
    "{ raise }" => ->(seen) { proc { |*| seen.call; raise IndexError, "from the block" } },
    "{ throw }" => ->(seen) { proc { |*| seen.call; throw :out, 5 } },
    "{ next }" => ->(seen) { proc { |*a| seen.call; next a.size } },
  }.freeze

  ENDS = "ends, replaces or forks the process"
  WAITS = "waits"
  CHANGES = "changes the process for all that comes after"
  NOT_CALLED = {
    "Kernel" => { ENDS => %w[exit exit! abort exec fork], WAITS => %w[sleep gets readline readlines select],
                  CHANGES => %w[trap at_exit srand set_trace_func trace_var untrace_var syscall load require
                                require_relative autoload binding
                                spawn system ` test open warn callcc define_singleton_method instance_variable_set extend] },
    "Process" => { ENDS => %w[exit exit! abort exec fork daemon kill _fork],
                   WAITS => %w[wait wait2 waitpid waitpid2 waitall detach],
                   CHANGES => %w[setrlimit setpriority setsid setpgid setpgrp setproctitle uid= gid= euid= egid= initgroups
                                 groups= maxgroups= spawn warmup] },
    "GC" => { CHANGES => %w[stress= disable measure_total_time= auto_compact= verify_compaction_references config latest_gc_info
                            verify_internal_consistency verify_transient_heap_internal_consistency
                            add_stress_to_class remove_stress_to_class] },
    "ObjectSpace" => { CHANGES => %w[define_finalizer undefine_finalizer],
                       "every object of the process" => %w[each_object _id2ref] },
    "IO" => { WAITS => %w[select popen readlines read foreach binread copy_stream console wait wait_readable wait_writable
                          wait_priority console_size],
              CHANGES => %w[new for_fd open sysopen reopen fcntl ioctl try_convert pipe close_on_exec= autoclose= timeout=] },
    "File" => { CHANGES => %w[umask mkfifo flock chmod lchmod chown lchown] },
    "Module" => { CHANGES => %w[refine using used_modules used_refinements autoload] },
  }.freeze

  module_function

  def not_called(owner, name)
    NOT_CALLED.fetch(owner.name, {}).find { |_, names| names.include?(name.to_s) }&.first
  end

  # [selector, receiver as source, name]
  def methods
    RECEIVERS.flat_map { |owner, receivers|
      owner.public_instance_methods(false).sort.flat_map do |name|
        receivers.map { |source| ["#{owner}##{name}", source, name, owner] }
      end
    } + SINGLETONS.flat_map { |owner|
      owner.singleton_methods(false).sort.map { |name| ["#{owner}.#{name}", owner.name, name, owner] }
    }
  end

  # Compiled once a method. As source, so that it is an ordinary call from a frame of its own, in which $~ and $_ are those
  # of the call.
  def caller_of(name)
    plain = name.match?(/\A[a-z_A-Z]\w*[?!]?\z/)
    called = plain ? "#{name}(" : "public_send(:#{name.inspect.delete_prefix(":")}, "
    call = "receiver.#{called}*arguments, **options, &block)"
    eval("->(receiver, arguments, options, block) { $~ = nil; $_ = nil; value = #{call}; [value, $~, $_] }", binding, "call")
  end

  def shown(value)
    text = value.inspect
    text = "#{text[0, 400]}... (#{text.size})" if text.size > 400
    text.b.gsub(/0x[0-9a-f]{6,}/n, "0x").gsub(/[\t\n]/n, " ")
  rescue StandardError, SystemStackError => e
    "#{value.class}: inspect raised #{e.class}"
  end

  def labels(backtrace)
    (backtrace || []).first(FRAMES).map { |line| line[/in [`'](.*)'/, 1] }.join("<")
  end

  def outcome(call, receiver, arguments, options, maker)
    frames = nil
    calls = 0
    block = maker&.call(lambda {
      calls += 1
      frames ||= labels(caller)
      raise Enough if calls > BLOCK_CALLS_MAX
    })
    returned = false
    text = nil
    thrown = catch(:out) do
      value, match, line = call.call(receiver, arguments, options, block)
      returned = true
      text = "#{value.class} #{shown(value)} ~#{shown(match)} _#{shown(line)}"
      nil
    end
    text = "thrown #{thrown}" unless returned
    "#{text} !#{shown($!)} block #{calls} #{frames} then #{shown(receiver)}"
  rescue Exception => e # rubocop:disable Lint/RescueException
    "raised #{e.class}: #{shown(e.message)} #{labels(e.backtrace)} !#{shown($!)} cause #{shown(e.cause)} block #{calls} " \
    "#{frames} then #{shown(receiver)}"
  end

  def fresh_directory
    Dir.children(".").each { |name| File.directory?(name) ? Dir.rmdir(name) : File.unlink(name) }
    File.write("file", "b1\nabc\nb3\n")
    File.utime(0, 0, "file")
  end

  def parse(source)
    positional = []
    options = {}
    eval("positional, options = ->(*a, **o) { [a, o] }.call(#{source})", binding)
    [positional, options]
  end

  def touches_files?(owner)
    [IO, File, Kernel].include?(owner)
  end

  def run(file, every)
    methods.group_by { |selector, _, name, owner| [selector, name, owner] }.each do |(selector, name, owner), rows|
      next if not_called(owner, name)

      method = rows.first[0].include?("#") ? owner.instance_method(name) : owner.method(name)
      file.puts "#{selector}\t#{method.arity} #{method.owner} #{method.parameters} #{method.source_location}"
      call = caller_of(name)
      number = 0
      rows.each do |_, source, *|
        ARGUMENTS.each do |argument_source|
          BLOCKS.each do |block_source, maker|
            next if (number += 1) % every != 0

            fresh_directory if touches_files?(owner)
            arguments, options = parse(argument_source)
            Random.srand(7)
            receiver = eval(source, binding, "receiver")
            result = outcome(call, receiver, arguments, options, maker)
            file.puts "#{selector}\t#{source}\t#{argument_source}\t#{block_source}\t#{result}"
            receiver.close if receiver.is_a?(IO) && !receiver.closed?
          end
        end
      end
    end
  end
end

if $PROGRAM_NAME == __FILE__
  $stdout.sync = true
  $VERBOSE = nil
  answers = $stdout.dup
  $stdout.reopen("/dev/null")
  outcomes = File.open(ARGV.fetch(0), "wb")
  every = ARGV.fetch(1, "1").to_i
  outcomes.sync = true if ENV["ORACLE_SYNC"] # what was called last, before a crash
  ARGV.clear
  answers.puts "ready"
  $stdin.gets
  $stdin.reopen("/dev/null")
  Dir.mktmpdir("oracle") do |directory|
    Dir.chdir(directory) do
      Oracle.run(outcomes, every)
      Oracle.fresh_directory
      File.unlink("file")
    end
  end
  outcomes.close
  answers.puts "done"
end
