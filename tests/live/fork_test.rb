# rbprobe fork: a frozen copy, of which the process knows nothing, and which harms nobody.

require_relative "helper"

class ForkTest < LiveTest
  def setup
    super
    @copies = []
  end

  def teardown
    @copies.each { |pid| quietly_kill(pid) }
    super
  end

  def quietly_kill(pid)
    Process.kill(:KILL, pid)
  rescue Errno::ESRCH
    nil
  end

  def copy_of(target, pid = target.pid)
    result = rbprobe("fork", "-p", pid.to_s)
    assert_exit 0, result
    copy = Integer(result.stdout)
    @copies << copy
    stood_still = /the process stood still for \d+\.\d ms/
    assert_match(/^rbprobe: process #{pid}: its copy #{copy} is frozen; #{stood_still}; kill #{copy} when you are done$/,
                 result.stderr)
    wait_until("it has settled") do
      File.read("/proc/#{copy}/comm") == "rbprobe-frozen\n" && Processes.status_of(copy, "State").start_with?("S")
    end
    wait_until("it has closed everything") { Dir.children("/proc/#{copy}/fd").sort == %w[0 1 2] }
    copy
  end

  def gone?(pid)
    (Processes.status_of(pid, "State") || "Z").start_with?("Z")
  end

  def keepers_of(target)
    Dir.glob("/proc/[0-9]*/status").count do |path|
      status = File.read(path)
      status.include?("Name:\trbprobe-keeper\n") && status.include?("PPid:\t#{target.pid}\n")
    rescue SystemCallError
      false
    end
  end

  test "a copy that ends during a trace is none of the children that the process forks" do
    target = start("shop")
    copy = copy_of(target)
    tracer = trace(target, "Shop#price")
    Process.kill(:KILL, copy)
    wait_until("it has ended") { gone?(copy) }
    target.run("1")
    wait_until("nobody waits for it any more") { `ps --ppid #{target.pid} -o pid=`.strip.empty? }
    refute_match(/forks child processes/, tracer.stop.stderr)
  end

  test "it has the memory of that moment, no descriptors, and runs nothing" do
    target = start("console")
    target.run("$mark = 'a mark in memory ' * 3 + 'one'; 1")
    copy = copy_of(target)
    assert_equal [File.join(File.realpath(Processes::TARGET_ROOT), "/dev/null")],
                 Dir.children("/proc/#{copy}/fd").map { |fd| File.readlink("/proc/#{copy}/fd/#{fd}") }.uniq
    target.run("$mark.replace('a mark in memory ' * 3 + 'two'); 1")
    assert_equal "1", Processes.status_of(copy, "Threads")
    found = memory_of(copy).any? { |bytes| bytes.include?("a mark in memory a mark in memory a mark in memory one") }
    assert found, "the mark is in the copy's memory"
  end

  # What is in its heap, mapping by mapping.
  def memory_of(pid)
    File.open("/proc/#{pid}/mem", "rb") do |memory|
      File.readlines("/proc/#{pid}/maps").grep(/ rw-p /).map do |line|
        from, to = line[/\A\S+/].split("-").map { |address| address.to_i(16) }
        next "" if to - from > 256 << 20 # no heap of a test's, but what a sanitizer has set aside

        memory.seek(from)
        memory.read(to - from) || ""
      rescue SystemCallError
        ""
      end
    end
  end

  test "the application does not notice it, and may wait for its own children" do
    target = start("console")
    target.run("$children = 0; trap('CLD') { $children += 1 }; at_exit { puts 'at exit' }; GC.start; 1")
    before = Processes.descriptors_of(target.pid)
    copy = copy_of(target)
    assert_equal before, Processes.descriptors_of(target.pid)
    assert_equal "true", target.run("begin; Process.wait(-1, Process::WNOHANG); false; rescue Errno::ECHILD; true; end")
    Process.kill(:TERM, copy)
    wait_until("it is gone") { gone?(copy) }
    wait_until("nothing is left of it") { keepers_of(target).zero? && !File.exist?("/proc/#{copy}") }
    assert_equal "0", target.run("$children")
    assert_equal "true", target.run("begin; Process.wait(-1, Process::WNOHANG); false; rescue Errno::ECHILD; true; end")
    assert_equal "3", target.run("$children = 0; system('exit 3'); $?.exitstatus")
  end

  test "signals for the terminal's processes do not reach it, and it stays when the process is gone" do
    target = start("console")
    copy = copy_of(target)
    refute_equal Process.getpgid(target.pid), Process.getpgid(copy)
    wait_until("its queue is gone", 6) { Leftovers.queues_of([target]).empty? }
    target.signal(:KILL)
    target.wait
    wait_until("its keeper is gone") { keepers_of(target).zero? }
    refute gone?(copy)
    Process.kill(:TERM, copy)
    wait_until("it is gone") { gone?(copy) }
  end

  test "rbprobe knows it for what it is" do
    target = start("console")
    copy = copy_of(target)
    assert_match(/^ *#{copy} .* frozen copy /, rbprobe("ps").stdout)
    refute_match(/rbprobe-keeper/, rbprobe("ps").stdout)
    assert_refused 3, /process #{copy} is a copy that rbprobe has made of another one.*a debugger can look at it/,
                   "methods", "-p", copy.to_s, "Kernel#puts"
  end

  test "of a busy process, of one that never loaded the extension, and twice" do
    only_where_loading_is_possible
    busy = start("busy", 4)
    busy.run("go")
    copies = [copy_of(busy), copy_of(busy)]
    assert_equal 2, copies.uniq.size
    steps = busy.run("steps").to_i
    wait_until("it goes on") { busy.run("steps").to_i > steps }
    busy.run("halt")
    copy_of(start("shop", load: false))
  end

  test "in another PID namespace it is named as it is seen from here" do
    only_root
    skip "the target's Ruby is in a chroot" if Processes::RUBY.first == "chroot"
    outside = start("console", wrapper: %w[unshare -p -f -m --mount-proc])
    pid = outside.adopt(File.read("/proc/#{outside.pid}/task/#{outside.pid}/children").split.first)
    outside.run("$children = 0; trap('CLD') { $children += 1 }; 1")
    copy = copy_of(outside, pid)
    assert_equal File.readlink("/proc/#{pid}/ns/pid"), File.readlink("/proc/#{copy}/ns/pid")
    Process.kill(:TERM, copy)
    wait_until("it is gone, without a zombie") { !File.exist?("/proc/#{copy}") }
    assert_equal "0", outside.run("$children")
  end

  test "a debugger can look at it" do
    skip "needs gdb" unless system("command -v gdb >/dev/null")
    skip "gdb cannot unwind musl without its debugging symbols" if Processes.musl?
    skip "the target's Ruby is in a chroot" if Processes::RUBY.first == "chroot"
    copy = copy_of(start("console"))
    frames = IO.popen(["gdb", "-p", copy.to_s, "-batch", "-ex", "bt"], err: File::NULL, &:read)
    assert_match(/frozen_main/, frames)
    assert_match(/rb_protect/, frames)
  end

  test "wrong usage" do
    assert_refused 2, /fork needs the PID of one process/, "fork"
  end
end
