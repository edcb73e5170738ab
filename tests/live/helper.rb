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
require "json"
require "tmpdir"
require_relative "reporter"
require_relative "processes"

class LiveTest < Minitest::Test
  include Processes

  def self.test(sentence, &story)
    name = "test_#{format("%03d", @tests = (@tests || 0) + 1)} #{sentence}"
    define_method(name, &story)
  end

  # In the order in which they are written.
  def self.test_order
    :sorted
  end

  def setup
    @targets = []
    @tracers = []
    @directories = []
  end

  def teardown
    leave_nothing_behind
  end

  # A target that runs tests/apps/APP.rb and says it is ready.
  def start(app, *arguments, **options)
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

  # An empty directory for this test.
  def directory
    Dir.mktmpdir("live-test-").tap { |path| @directories << path }
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

  private

  def leave_nothing_behind
    still_running = @tracers.select(&:running?)
    still_running.each(&:kill)
    # The last client may be gone before its target has taken its queue away: a bell that rings late gets a queue for 2 s.
    quietly { wait_until("the targets' queues are gone", 6) { Leftovers.queues_of(@targets.select(&:alive?)).empty? } }
    stderrs = @targets.map { |target| [target, target.finish] }
    leftovers = Leftovers.of(targets: @targets, tracers: @tracers)
    @directories.each { |path| FileUtils.rm_rf(path) }
    return if skipped?

    assert_empty still_running.map(&:command), "still running at the end of the test"
    assert_empty leftovers, "left behind"
    stderrs.each { |target, stderr| assert_equal "", stderr, "the target's stderr" unless target.expects_stderr }
  end

  def quietly
    yield
  rescue TimedOut
    nil
  end
end

Minitest.autorun
