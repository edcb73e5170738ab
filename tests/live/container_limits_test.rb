# What a container's control groups do to a process: it is paused, may have no more threads, or has hardly any memory left. Each
# is refused with its cause before anything is changed. The groups are made here, without a container's tools.

require_relative "helper"

class ContainerLimitsTest < LiveTest
  # Where a controller of version 1 is mounted, or version 2 for all of them.
  MOUNTS = File.readlines("/proc/self/mountinfo").filter_map do |line|
    fields, (type, _, options) = line.split(" - ").map(&:split)
    [fields[4], type == "cgroup2" ? ["2"] : options.split(",")] if fields[3] == "/" && type.start_with?("cgroup")
  end.freeze

  def setup
    super
    only_root
    only_where_loading_is_possible
    @groups = []
  end

  def teardown
    super
  ensure
    @groups.to_a.each do |path|
      wait_until("#{path} is empty") { File.read("#{path}/cgroup.procs").empty? }
      Dir.rmdir(path)
    end
  end

  # A group of our own below the one that we are in, which has the controller.
  def group(controller)
    mount, kind = MOUNTS.find { |_, kinds| kinds.include?(controller) } || MOUNTS.find { |_, kinds| kinds == ["2"] }
    skip "the controller #{controller} is not mounted here" unless mount
    if kind == ["2"] && controller != "2"
      controllers = File.read("#{mount}/cgroup.controllers").split
      skip "the controller #{controller} is not there" unless controllers.include?(controller)
      File.write("#{mount}/cgroup.subtree_control", "+#{controller}")
    end
    path = "#{mount}/rbprobe-test-#{$$}-#{@groups.size}"
    Dir.mkdir(path)
    @groups << path
    path
  rescue SystemCallError => error
    skip "no control group may be made here: #{error.message}"
  end

  # The first of these files that the group has, as the versions call it.
  def set(group, value, *files)
    File.write(files.map { |file| "#{group}/#{file}" }.find { |path| File.exist?(path) }, value.to_s)
  end

  def start_in(group, load: false)
    start("console", load: load).tap { |target| File.write("#{group}/cgroup.procs", target.pid.to_s) }
  end

  def refuses(message, target, *command)
    result = assert_refused(3, message, *command, "-p", target.pid.to_s)
    assert_equal 1, result.stderr.lines.size, result.stderr
    result
  end

  # --- Paused

  def freeze(group, on)
    if File.exist?("#{group}/freezer.state")
      File.write("#{group}/freezer.state", on ? "FROZEN" : "THAWED")
      wait_until("it is frozen") { File.read("#{group}/freezer.state") == (on ? "FROZEN\n" : "THAWED\n") }
    else
      File.write("#{group}/cgroup.freeze", on ? "1" : "0")
      wait_until("it is frozen") { File.read("#{group}/cgroup.events").include?("frozen #{on ? 1 : 0}") }
    end
  end

  { "version 1" => "freezer", "version 2" => "2" }.each do |version, controller|
    [false, true].each do |load|
      test "a paused container, cgroup #{version}, extension #{load ? "loaded" : "not loaded"}" do
        group = group(controller)
        target = start_in(group, load: load)
        freeze(group, true)
        begin
          [%w[load], %w[bt], %w[trace Kernel#puts], ["eval", "1"]].each do |name, *arguments|
            result = assert_refused(3, /process #{target.pid} is frozen with its cgroup.*docker unpause/, name, "-p",
                                    target.pid.to_s, *arguments)
            assert_equal 1, result.stderr.lines.size, result.stderr
          end
          assert_match(/^ *#{target.pid} .* paused +\d{4}-/, rbprobe("ps").stdout)
        ensure
          freeze(group, false)
        end
        assert_equal "3", target.run("1 + 2")
        assert_attachable(target)
      end
    end
  end

  test "a paused container whose groups are not to be seen, as a sidecar has it" do
    group = group("freezer")
    target = start_in(group)
    hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup; exec "$@"', "sh"]
    only_where_namespaces_are_allowed(hidden)
    freeze(group, true)
    begin
      assert_refused(3, /is frozen with its cgroup/, "bt", "-p", target.pid.to_s, command: hidden)
    ensure
      freeze(group, false)
    end
  end

  test "a trace goes on when its process does, and a second client is told meanwhile" do
    group = group("freezer")
    target = start_in(group)
    tracer = trace(target, "Kernel#srand")
    freeze(group, true)
    begin
      refuses(/is frozen with its cgroup/, target, "bt")
    ensure
      freeze(group, false)
    end
    target.run("srand(1)")
    assert_match(/Kernel#srand/, tracer.stop.stdout)
  end

  # --- Threads

  test "a process that may have no more threads" do
    group = group("pids")
    target = start_in(group)
    threads = threads_of(target.pid)
    set(group, threads + 1, "pids.max")
    refuses(/attaching to process #{target.pid} takes 2 more threads.* may have 1 \(its pids\.max is #{threads + 1}\)/, target,
            "load")
    refute_includes File.read("/proc/#{target.pid}/maps"), "rbprobe.so"
    set(group, threads + 2, "pids.max")
    assert_attachable(target)
  end

  test "rbprobe in the same container needs two more for itself" do
    group = group("pids")
    target = start_in(group)
    inside = ["sh", "-c", "echo $$ >#{group}/cgroup.procs; exec \"$@\"", "sh"]
    set(group, threads_of(target.pid) + 4, "pids.max")
    assert_refused(3, /takes 4 more threads.* may have 3/, "bt", "-p", target.pid.to_s, command: inside)
    set(group, threads_of(target.pid) + 5, "pids.max")
    assert_exit 0, rbprobe("bt", "-p", target.pid.to_s, command: inside)
  end

  # --- Memory

  MIB = 1 << 20

  # So that this much is left, whatever it uses.
  def leave(group, bytes)
    usage = Dir.glob("#{group}/memory.{usage_in_bytes,current}").first
    limit = File.read(usage).to_i + bytes
    set(group, limit, "memory.limit_in_bytes", "memory.max")
  end

  test "a process that has hardly any memory left" do
    skip "there is swap, which counts as memory" unless File.read("/proc/meminfo")[/^SwapFree: +(\d+)/, 1] == "0"
    group = group("memory")
    target = start_in(group)
    target.run("$kept = 'x' * #{20 * MIB}; nil")
    leave(group, MIB)
    refuses(/process #{target.pid} could be killed for want of memory.* has \d+ KiB left of \d+ MiB, .* may need 2 MiB/, target,
            "load")
    refute_includes File.read("/proc/#{target.pid}/maps"), "rbprobe.so"
    leave(group, 5 * MIB)
    assert_exit 0, rbprobe("bt", "-p", target.pid.to_s)
    assert_refused(3, /may need 10 MiB/, "trace", "-p", target.pid.to_s, "Kernel#srand")
    leave(group, 13 * MIB)
    tracer = trace(target, "Kernel#srand")
    target.run("srand(1)")
    assert_match(/Kernel#srand/, tracer.stop.stdout)
  end

  test "a trace whose reader is late does not have its process killed" do
    skip "there is swap, which counts as memory" unless File.read("/proc/meminfo")[/^SwapFree: +(\d+)/, 1] == "0"
    group = group("memory")
    target = start_in(group)
    target.run("def work(text); text; end; $text = 'x' * 500; nil")
    leave(group, 12 * MIB)
    tracer = trace(target, "-f", "--args", "Object#work")
    tracer.signal(:STOP)
    target.run("100_000.times { work($text) }; nil")
    tracer.signal(:CONT)
    assert_exit 0, tracer.stop
    assert_predicate target, :alive?
  end
end
