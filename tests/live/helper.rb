# What every live test stands on: real target processes, the real tracer, and nothing left of either afterwards.
#
#     class TreeTest < LiveTest
#       test "a nested call stands under its caller" do
#         target = start("shop")                          # tests/apps/shop.rb, with the extension loaded
#         tracer = trace(target, "Shop#sell", "Shop#price")   # returns when the methods are armed
#         target.run("Shop.new.sell(:apple)")             # runs Ruby code in the target
#         assert_equal <<~TREE, tracer.stop.tree          # Ctrl-C; times are masked
#           ...
#
# Environment: RBPROBE_BUILD (build directory), RBPROBE_RUBY (command that starts the target's Ruby, which may begin with
# "chroot DIRECTORY"), RBPROBE_TARGET_ENV (variables for targets, as A=1 B=2), RBPROBE_PATIENCE (factor on all deadlines).

require "minitest"
require "shellwords"
require "etc"
require "json"
require "tmpdir"
require_relative "reporter"
require_relative "processes"
require_relative "../sanitizer_reports"

class LiveTest < Minitest::Test
  include Processes

  def self.test(sentence, &story)
    name = "test_#{format("%03d", @tests = (@tests || 0) + 1)} #{sentence}"
    define_method(name, &story)
  end

  # RBPROBE_SHARE=2/3: every third of a file's tests, from the second on, or else the first. RBPROBE_PART: the same of these,
  # of which others run the rest.
  def self.runnable_methods
    mine = every(super, ENV.fetch("RBPROBE_SHARE", "1/1"))
    every(mine.empty? ? super.take(1) : mine, ENV.fetch("RBPROBE_PART", "1/1"))
  end

  def self.every(tests, words)
    part, parts = words.split("/").map(&:to_i)
    tests.select.with_index { |_, index| index % parts == part - 1 }
  end

  # RBPROBE_UNTIL=SECONDS, as `date +%s` has them: what has not begun by then is skipped, each test with a line.
  def run
    return super unless Time.now.to_i >= Integer(ENV.fetch("RBPROBE_UNTIL", Time.now.to_i + 1))

    self.time = 0
    capture_exceptions { skip "no time was left for it: RBPROBE_UNTIL" }
    Minitest::Result.from(self)
  end

  # In the order in which they are written.
  def self.test_order
    :sorted
  end

  def setup
    @targets = []
    @tracers = []
    @others = []
    @directories = []
  end

  def teardown
    leave_nothing_behind
  end

  # A target that runs tests/apps/APP.rb and says it is ready.
  def start(app, *arguments, **options)
    only_where_namespaces_are_allowed(options[:wrapper])
    # A checkout in a directory of root's own.
    only_root_with_a_nobody if options[:user]
    Target.new(app, arguments, **options).tap do |target|
      @targets << target
      target.wait_until_ready
    end
  end

  # `rbprobe ARGUMENTS`, until it has ended.
  def rbprobe(*arguments, **options)
    launch(*arguments, **options).wait
  end

  # `rbprobe ARGUMENTS`, in the background.
  def launch(*arguments, **options)
    Tracer.new(arguments, **options).tap { |tracer| @tracers << tracer }
  end

  # `rbprobe trace -p TARGET ARGUMENTS`, in the background, armed. Which methods need engine hook is another for each Ruby.
  def trace(target, *arguments, **options)
    consent = arguments.include?("--no-hook") ? [] : ["--yes"]
    launch("trace", "-v", *consent, "-p", target.pid.to_s, *arguments, **options).wait_until_armed
  end

  # A program beside targets and rbprobe, such as a debugger or a server, until the end of the test. Returns its PID.
  def start_beside(*command, out: File::NULL, **options)
    spawn(*command, in: File::NULL, %i[out err] => out, **options).tap { |pid| @others << pid }
  end

  def end_beside(pid)
    @others.delete(pid)
    Process.kill(:TERM, pid)
    Process.wait(pid)
  end

  # strace as the target's debugger.
  def trace_by_strace(target)
    skip "needs strace" unless system("command -v strace >/dev/null")
    start_beside("strace", "-f", "-o", File::NULL, "-p", target.pid.to_s).tap do |strace|
      wait_until("strace has it") { Processes.status_of(target.pid, "TracerPid") == strace.to_s }
    end
  end

  # A target that will not empty its queue any more.
  def abandon(target)
    target.finish
    @targets.delete(target)
    Leftovers.remove_queues_of(target)
  end

  # An empty directory for this test.
  def directory
    Dir.mktmpdir("live-test-").tap { |path| @directories << path }
  end

  # The same, where the target can reach it: here, and for the target.
  def directory_of_target
    path = Dir.mktmpdir("live-test-", "#{Processes::TARGET_ROOT}/tmp").tap { |made| @directories << made }
    [path, "/tmp/#{File.basename(path)}"]
  end

  def assert_exit(status, result)
    assert_equal status, result.status, "exit status; stderr:\n#{result.stderr}"
  end

  # What rbprobe refuses, and what it says about it.
  def assert_refused(status, message, *arguments, **options)
    result = rbprobe(*arguments, **options)
    assert_exit status, result
    assert_match message, result.stderr
    assert_equal "", result.stdout
    result
  end

  # Whether a method with a distinctive name can be listed: the whole way there and back.
  def assert_attachable(target, selector = "Kernel#puts")
    result = rbprobe("methods", "-p", target.pid.to_s, selector)
    assert_exit 0, result
    result
  end

  # --- What not every test has

  # Another user, and rbprobe run by that one, who has to be able to run what was built.
  NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"].freeze

  def only_root
    skip "needs root" unless Process.uid.zero?
  end

  def only_root_with_a_nobody
    only_root
    skip "user 65534 may not reach #{RBPROBE}" unless system(*NOBODY, "test", "-x", RBPROBE)
  end

  # Containers and chroots may forbid some or all of them: for a command that begins with `unshare`.
  def only_where_namespaces_are_allowed(command)
    return unless command&.first == "unshare"

    options = command.drop(1).take_while { |word| word.start_with?("-") }
    unless system("unshare", *options, "true", %i[out err] => File::NULL)
      skip "namespaces (unshare #{options.join(" ")}) are not allowed here"
    end
  end

  # Which a target in a chroot sees as well.
  def shared_directory
    FileUtils.mkdir_p(Processes::BUILD)
    Dir.mktmpdir("live-test-", Processes::BUILD).tap { |path| @directories << path }
  end

  # Compiles NAME.c of tests/apps for the target's Ruby, and returns the directory that has NAME.so then.
  def compile_extension(name)
    path = shared_directory
    ask = 'print RbConfig::CONFIG.values_at("rubyhdrdir", "rubyarchhdrdir").join("\n")'
    names = IO.popen([*Processes::RUBY, "-rrbconfig", "-e", ask], &:read)
    headers = names.lines(chomp: true).map { |header| "-I#{Processes::TARGET_ROOT.chomp("/")}#{header}" }
    assert system("cc", "-shared", "-fPIC", "-O2", "-w", *headers, "-o", "#{path}/#{name}.so",
                  "#{Processes::ROOT}/tests/apps/#{name}.c"),
           "#{name}.c compiles"
    path
  end

  # Processors for which there is assembly: loading, engine patch, native stacks.
  ASSEMBLY = %w[x86_64 aarch64].include?(Etc.uname[:machine])

  # With a sanitizer's malloc in the target there is no place that is known to be safe.
  def only_where_loading_is_possible
    skip "nothing can be loaded on this processor" unless ASSEMBLY
    skip "with a sanitizer's malloc in the target nothing can be loaded" unless Processes::TARGET_ENV.empty?
  end

  # From 3.2 on such a process would crash, and rbprobe refuses it.
  def only_where_ractors_can_be_traced
    skip "YJIT and Ractors: refused" if target_ruby?(">= 3.2") && Processes.yjit?
  end

  # bt leaves out, and says so, what would make the compiler drop its code; --locals allows it.
  def only_without_yjit
    skip "bt asks for --locals beside YJIT" if Processes.yjit?
  end

  # What some Rubies have as a gem that need not be there.
  def only_with_library(name)
    skip "this Ruby has no #{name}" unless system(*Processes::RUBY, "-e", "require '#{name}'", err: File::NULL)
  end

  def only_with_gems(*names)
    code = names.map { |name| "require '#{name}'" }.join(";")
    if Processes::RUBY.first == "chroot" || !system(*Processes::RUBY, "-e", code, err: File::NULL)
      skip "needs #{names.join(" and ")}"
    end
  end

  private

  def leave_nothing_behind
    @others.dup.each { |pid| end_beside(pid) }
    still_running = @tracers.select(&:running?)
    still_running.each(&:kill)
    quietly { wait_until("the targets' queues are gone", 6) { halted_without_queues?(@targets.select(&:alive?)) } }
    stderrs = @targets.map { |target| [target, target.finish] }
    leftovers = Leftovers.of(targets: @targets, tracers: @tracers)
    @directories.each { |path| FileUtils.rm_rf(path) }
    report = SanitizerReports.take
    flunk "a sanitizer's report:\n#{report}" if report
    return if skipped?

    assert_empty still_running.map(&:command), "still running at the end of the test"
    assert_empty leftovers, "left behind"
    stderrs.each { |target, stderr| assert_equal "", stderr, "the target's stderr" unless target.expects_stderr }
  end

  # The last client may be gone before its target has taken its queue away: a bell that rings late gets a queue for 2 s. So
  # that none rings between this look and a target's end, it stands still from here on.
  def halted_without_queues?(targets)
    return false if Leftovers.queues_of(targets).any?

    targets.each(&:halt)
    return true if Leftovers.queues_of(targets).empty?

    targets.each(&:go_on)
    false
  end

  def quietly
    yield
  rescue TimedOut
    nil
  end
end

Minitest.autorun
