# What a process waits for is never cut short: whatever its threads are in, they return the same as where nobody attaches,
# and no sooner.

require_relative "helper"

class BlockingTest < LiveTest
  APP = "#{Processes::ROOT}/tests/apps/blocking.rb".freeze
  # They mostly wait. Fewer where other parts of this file run beside this one.
  AT_A_TIME = Integer(ENV.fetch("BLOCKING_AT_A_TIME", ENV.fetch("RBPROBE_PART", "1/1").end_with?("/1") ? "16" : "12"))
  # Seconds that the operations take which end by themselves: with rbprobe more than it needs to attach in every way, and
  # alone as few as show that they wait.
  SECONDS = 2 * [Processes::PATIENCE, 2].min
  SECONDS_ALONE = 0.5
  # An operation that was disturbed is tried again so often. One that is disturbed once in hundreds of tries is told of;
  # more often, it is a failure.
  TRIES_AGAIN = 6
  # With RBPROBE_SHORT: one of each kind.
  FEW = "\\A(open|flock|sysread|read|gets|write to a full " \
        "pipe|IO.select|UNIXServer#accept|sleep|Queue#pop|ConditionVariable#wait|Process.wait|" \
        "(read|recv) with a timeout|Kernel#syscall|C recvmmsg|" \
        "C nanosleep|C poll|C epoll_wait|C semop|C msgrcv|C sigtimedwait|C open)\\z".freeze
  ONLY = Regexp.new(ENV.fetch("BLOCKING_ONLY", Processes::SHORT ? FEW : ""))
  NAMES = IO.popen([*Processes::RUBY, "-W0", APP, "--list"], err: File::NULL, &:readlines).map(&:chomp).grep(ONLY)

  # What Ruby would not begin again, and so is not woken from: whoever wants something of the main thread waits until that
  # has returned.
  NOT_WOKEN = Regexp.union(/\AC /, /\A(open|sysopen|reopen|File\.read|IO\.readlines|IO\.copy_stream|fcntl)/,
                           /\A(sysread|syswrite|send\z|connect to a UNIX socket|readpartial of a terminal)/,
                           /\A(Kernel#syscall|(read|write|recv) with a timeout)\z/)

  # What each returns where nobody attaches: by who waits, and how C functions are called.
  ALONE = {} # rubocop:disable Style/MutableConstant

  # Out of what a stop would cut short, too, nothing can be loaded where there is no other thread.
  NOT_STOPPED = Regexp.union(NOT_WOKEN, /\Awrite( to a full pipe)?\z/)

  # Where malloc is a library's, what it has left on the stack of such a reader may look as if it were at work there. Pipes
  # without a name, sockets and terminals are known as what malloc does not read; this is a FIFO.
  NOT_STOPPED_BESIDE_ALLOCATOR = Regexp.union(NOT_STOPPED, /\A(gets|getc|each_line|read|readpartial)\z/)

  def not_stopped
    @not_stopped ||= Processes.own_allocator? ? NOT_STOPPED_BESIDE_ALLOCATOR : NOT_STOPPED
  end

  # An extension that calls C functions with RUBY_UBF_IO.
  def region
    @region ||= shared_directory.tap do |path|
      names = IO.popen([*Processes::RUBY,
                        "-rrbconfig", "-e", 'print RbConfig::CONFIG.values_at("rubyhdrdir", ' \
                                            '"rubyarchhdrdir").join("\n")'], &:read)
      headers = names.lines(chomp: true).map { |name| "-I#{Processes::TARGET_ROOT.chomp("/")}#{name}" }
      assert system("cc", "-shared", "-fPIC", "-O2", "-w", *headers, "-o", "#{path}/region.so",
                    "#{Processes::ROOT}/tests/apps/region.c"), "region.c compiles"
    end + "/region.so"
  end

  def asleep?(pid)
    Dir.glob("/proc/#{pid}/task/*/stat").all? { |path| File.read(path)[/\) (.)/, 1] == "S" }
  rescue Errno::ENOENT, Errno::ESRCH
    false
  end

  def ended?(pid)
    Processes.status_of(pid, "State") =~ /\AZ/
  end

  # What the operation returns, with what the block does to its process while it waits.
  def outcome(name, role, seconds: SECONDS, **options)
    path = shared_directory
    target = start("blocking", name, role, path, env: { "BLOCKING_SECONDS" => seconds.to_s, **@env }, **options)
    wait_until("#{name} waits") { asleep?(target.pid) || !block_given? && ended?(target.pid) }
    done = yield(target) if block_given?
    File.write("#{path}/release", "")
    [JSON.parse(target.read_line(20)), done]
  rescue Minitest::Assertion => e
    [e.message, nil]
  end

  def outcome_alone(name, role)
    outcome(name, role, seconds: SECONDS_ALONE, load: false).first
  end

  # Several at a time. Returns what the block returned for each name.
  def each_at_once(names)
    queue = names.each_with_object(Queue.new) { |name, all| all << name }
    results = {}
    Array.new(AT_A_TIME) do
      Thread.new do
        until queue.empty?
          name = queue.pop(true) rescue break
          results[name] = yield(name)
        end
      end
    end.each(&:join)
    results
  end

  # Attaches in every way. Whether all came in, or what the first said that did not.
  def attach(target, seconds)
    pid = target.pid.to_s
    commands = [["eval", "-p", pid, "--timeout", seconds, "1"],
                ["trace", "-p", pid, "--timeout", seconds, "--duration", "0.05", "String#upcase"],
                ["bt", "-p", pid, "--timeout", seconds], ["eval", "-p", pid, "--timeout", seconds, "2"]]
    results = commands.map { |command| rbprobe(*command) }
    # On a busy machine the operation may have ended by itself meanwhile, and its process.
    return true if ended?(pid)

    attached = ->(result) { result.status.zero? && !result.stderr.include?("safe point") }
    results.reject(&attached).map(&:stderr).first || true
  end

  def assert_undisturbed(names, role, **options)
    alone = (ALONE[[role, @env.keys]] ||= each_at_once(names) { |name| outcome_alone(name, role) })
    # From 3.3 on Ruby does not let the loader ask for a method's name: until the extension has started there, these are
    # taken for other reads and writes.
    names = names.grep_v(/\Asys(read|write)/) if !options[:load] && Processes.target_ruby?(">= 3.3")
    # With the GVL.
    waited_for = ->(name) { name == "Kernel#syscall" || role == "main" && name.match?(options[:load] ? NOT_WOKEN : not_stopped) }
    attempt = ->(name) { outcome(name, role, **options) { |target| attach(target, waited_for.(name) ? "0.4" : "10") } }
    fine = ->(name, (result, attached)) { result == alone[name] && (attached == true || waited_for.(name)) }
    disturbed = each_at_once(names, &attempt)
    disturbed.each do |name, (result, attached)|
      next if fine.(name, [result, attached])

      again = each_at_once(Array.new(TRIES_AGAIN) { name }.each_with_index.to_a) { |_| attempt.(name) }.values
      next unless again.all? { |one| fine.(name, one) }

      puts "# seldom: #{role}, #{options}: #{name}: #{result}, attached: #{attached}, and not in #{TRIES_AGAIN} more tries"
      disturbed[name] = again.last
    end
    alone = alone.slice(*names)
    assert_equal alone.sort, disturbed.transform_values(&:first).sort
    assert_empty alone.select { |_, result| !result.is_a?(Hash) || result["early"] }, "alone"
    late = disturbed.reject { |name, (_, attached)| attached == true || waited_for.(name) }
    assert_empty late.transform_values(&:last), "attached while it waited"
  end

  def setup
    refute_empty NAMES, "operations of #{APP}"
    super
    unless Processes::TARGET_ENV.empty?
      skip "a sanitizer's functions stand between libc's and their callers, who are not known then"
    end
    @env = {}
  end

  EXTENSIONS = NAMES.grep(/\AC /)

  [true, false].each do |without_gvl|
    test "a function of libc that an extension calls by its name is not cut short, #{without_gvl ? "without" : "with"} the GVL" do
      target = start("console")
      target.run("require '#{region}'; $from, $to = IO.pipe; Thread.new { sleep }; nil")
      target.run("Thread.new { sleep 3; $to.puts 'hello' }") if without_gvl
      target.run("fork { sleep 3; $to.puts 'hello'; exit! }") unless without_gvl
      target.run_in_background("Region.line($from.fileno, #{without_gvl})")
      wait_until("it reads") { File.read("/proc/#{target.pid}/syscall").match?(/\A(0|19|63|65) /) && asleep?(target.pid) }
      rbprobe("eval", "-p", target.pid.to_s, "--timeout", "1", "1 + 1")
      assert_equal '"hello\n"', target.answer(20)
    end
  end

  # Nothing of the extension is on the stack, or the VM waits for it.
  { "ends in a call of libc's" => ["Region.tail($from.fileno)", "6"],
    "waits by the VM's condition variables" => ["Region.condition(3000)", "false"] }.each do |what, (call, answer)|
    test "an extension's function that #{what} is not cut short" do
      skip "this Ruby offers none" if call.include?("condition") && !Processes.target_ruby?(">= 3.0")
      target = start("console")
      target.run("require '#{region}'; $from, $to = IO.pipe; Thread.new { sleep }; nil")
      target.run("Thread.new { sleep 3; $to.puts 'hello' }; nil")
      target.run_in_background(call)
      wait_until("it waits") { asleep?(target.pid) }
      rbprobe("eval", "-p", target.pid.to_s, "--timeout", "1", "1 + 1")
      assert_equal answer, target.answer(20)
    end
  end

  test "IO#sysread of an application that has its own in front of Ruby's is not cut short" do
    target = start("console", load: false)
    target.run("require 'io/nonblock'; IO.class_eval { alias_method :plain, :sysread; def sysread(*a); plain(*a); end }; nil")
    target.run("$from, $to = IO.pipe; $from.nonblock = false; Thread.new { sleep }; nil")
    assert_exit 0, rbprobe("load", "-p", target.pid.to_s)
    target.run("Thread.new { sleep 3; $to.puts 'hello' }; nil")
    target.run_in_background("$from.sysread(10)")
    wait_until("it reads") { asleep?(target.pid) }
    rbprobe("eval", "-p", target.pid.to_s, "--timeout", "1", "1 + 1")
    assert_equal '"hello\n"', target.answer(20)
  end

  { "required" => true, "loaded" => false }.each do |how, load|
    %w[main thread].each do |role|
      test "the extension #{how}, #{role == "main" ? "the main thread" : "another thread"} waits" do
        only_where_loading_is_possible unless load
        assert_undisturbed(NAMES, role, load: load)
      end
    end

    test "the extension #{how}, the main thread waits in C code that says how it may be interrupted" do
      only_where_loading_is_possible unless load
      @env = { "BLOCKING_REGION" => region }
      assert_undisturbed(EXTENSIONS, "main", load: load)
    end
  end
end
