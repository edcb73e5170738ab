# Clients that come and go at every moment of a program's beginning and end, in steps of a millisecond: the program does all
# of its work, and ends as it would have.
#
# RBPROBE_SWEEP: how many moments are tried in each test; by default few, spread over the whole time.

require_relative "helper"

class BootSweepTest < LiveTest
  MOMENTS = Integer(ENV.fetch("RBPROBE_SWEEP", "12"))
  BOOT_MS = 150
  EXIT_MS = 40

  # Milliseconds, spread over that time.
  def moments(span_ms)
    Array.new(MOMENTS) { |i| (span_ms * i / MOMENTS.to_f).round }
  end

  def wait_ms(milliseconds)
    IO.select(nil, nil, nil, milliseconds / 1000.0)
  end

  def begin_boot(*arguments, **options)
    Processes::Target.new("boot", arguments, **options).tap { |target| @targets << target }
  end

  # It did all of its work, and ended by itself; or it was so before anybody could attach.
  def assert_whole(target, moment)
    target.expect("whole")
    status = target.wait
    assert_equal [0, ""], [status.exitstatus, target.stderr], "the end of a program that was met after #{moment} ms: #{status}"
    @targets.delete(target)
    abandoned(target)
  end

  # One that ends while a bell rings cannot always take its queue away; the next client does.
  def abandoned(target)
    target.finish
    Leftovers.remove_queues_of(target)
  end

  def trace_briefly(target, *options)
    launch("trace", "-q", "-p", target.pid.to_s, *options, stdout: File::NULL)
  end

  test "a firehose that comes at any moment of the boot, and goes at once" do
    moments(BOOT_MS).each do |moment|
      target = begin_boot
      wait_ms(moment)
      tracer = trace_briefly(target, "--firehose", "--yes", "--duration", "0.02")
      assert_whole(target, moment)
      assert_includes [0, 3, 4], tracer.wait.status
    end
  end

  test "selectors that match what is being defined, by several clients that are killed" do
    moments(BOOT_MS).each do |moment|
      target = begin_boot
      wait_ms(moment)
      tracers = Array.new(2) { trace_briefly(target, "--yes", "--args", "*#step_*", "Boot#", "OptionParser*#", "Set#") }
      wait_ms(30)
      tracers.each(&:kill)
      assert_whole(target, moment)
    end
    assert_attachable(start("console")) # takes dead clients' directories away
  end

  test "a client that loads the extension at any moment of the boot" do
    only_where_loading_is_possible
    moments(BOOT_MS).each do |moment|
      target = begin_boot(load: false)
      wait_ms(moment)
      tracer = trace_briefly(target, "--firehose", "--yes", "--duration", "0.02")
      assert_whole(target, moment)
      assert_includes [0, 3, 4], tracer.wait.status
    end
  end

  # In poll, as no Ruby that boots.
  def polls?(pid)
    Processes.comm_of(pid).start_with?("ruby") && File.read("/proc/#{pid}/syscall").start_with?("7 ")
  end

  # The VM's methods that are written in Ruby come late in the boot, and jobs run between them.
  test "a client that loads the extension before the VM has defined all of its methods" do
    only_where_loading_is_possible
    library = "#{shared_directory}/slow_memory.so"
    from = Processes.musl? || Processes.own_allocator? ? ["-DBY_DLSYM"] : []
    assert system("cc", "-shared", "-fPIC", "-O2", "-w", *from, "-o", library, "#{Processes::ROOT}/tests/apps/slow_memory.c")
    target = begin_boot("waits", load: false, env: { "LD_PRELOAD" => library, "LD_BIND_NOW" => "1" })
    wait_until("the VM boots") { polls?(target.pid) }
    result = rbprobe("eval", "-p", target.pid.to_s, "1 + 1")
    assert_exit 0, result
    assert_equal "2\n", result.stdout
    target.expect("ready")
    result = rbprobe("selftest", "-p", target.pid.to_s)
    assert_exit 0, result
    refute_match(/not tried|the application has/, result.stdout + result.stderr)
    target.run_in_background("")
    assert_whole(target, "some")
  end

  # Ruby 3.1 says that YJIT is on, and runs jobs, before it has made all of YJIT's tables.
  test "a client that loads the extension while the VM makes YJIT's tables" do
    only_where_loading_is_possible
    skip "this Ruby has no YJIT" unless system(*Processes::RUBY, "--yjit", "-e", "exit RubyVM::YJIT.enabled?", err: File::NULL)
    library = "#{shared_directory}/slow_mapping.so"
    assert system("cc", "-shared", "-fPIC", "-O2", "-w", "-o", library, "#{Processes::ROOT}/tests/apps/slow_mapping.c")
    target = begin_boot("waits", load: false, ruby_options: %w[--yjit --yjit-call-threshold=1],
                        env: { "LD_PRELOAD" => library, "LD_BIND_NOW" => "1" })
    wait_until("the VM maps memory for YJIT") { polls?(target.pid) }
    result = rbprobe("eval", "-p", target.pid.to_s, "1 + 1")
    assert_exit 0, result
    assert_equal "2\n", result.stdout
    target.expect("ready")
    target.run_in_background("")
    assert_whole(target, "some")
  end

  test "a firehose that goes at any moment of the exit" do
    moments(EXIT_MS).each do |moment|
      target = begin_boot("waits")
      target.wait_until_ready
      tracer = trace(target, "--firehose", stdout: File::NULL)
      target.run_in_background("")
      wait_ms(moment)
      tracer.kill
      assert_whole(target, moment)
    end
    assert_attachable(start("console")) # as above
  end

  test "a firehose that comes at any moment of the exit" do
    moments(EXIT_MS).each do |moment|
      target = begin_boot("waits")
      target.wait_until_ready
      target.run_in_background("")
      wait_ms(moment)
      tracer = trace_briefly(target, "--firehose", "--yes", "--duration", "0.02")
      assert_whole(target, moment)
      assert_includes [0, 3, 4], tracer.wait.status
    end
  end
end
