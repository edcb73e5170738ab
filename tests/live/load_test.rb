# Processes that never heard of rbprobe: the extension is put into them while they run, whatever they are doing, and nothing
# else about them changes. And those that use SIGURG for themselves.

require_relative "helper"
require_relative "ipc"
require "socket"

class LoadTest < LiveTest
  def setup
    super
    only_where_loading_is_possible
  end

  def libraries_of(pid)
    paths = File.readlines("/proc/#{pid}/maps").map { |line| line.split(" ", 6)[5]&.chomp }.compact
    paths.select { |path| path.start_with?("/") }.uniq
  end

  def load(target, *options, **how)
    rbprobe("load", "-p", target.pid.to_s, *options, **how)
  end

  def bare(app = "shop", **options)
    start(app, load: false, **options)
  end

  # What of a process must be as it was. libc keeps for the next ones the stacks of threads that have ended and what they
  # allocated from:
  # anonymous memory is left out.
  def picture_of(pid)
    status = File.read("/proc/#{pid}/status")
    { threads: Processes.threads_of(pid),
      descriptors: Dir.children("/proc/#{pid}/fd").sort.map { |fd| [fd, File.readlink("/proc/#{pid}/fd/#{fd}")] },
      blocked: status[/^SigBlk:.*/], ignored: ignored(status), caught: caught(status), pending: status[/^ShdPnd:.*/],
      tracer: status[/^TracerPid:.*/], timers: File.read("/proc/#{pid}/timers"),
      place: File.read("/proc/#{pid}/stat").split[-35, 2], policy: IO.popen(["chrt", "-p", pid.to_s], &:read),
      capabilities: status[/^Cap.*?(?=^Specul)/m], directory: File.readlink("/proc/#{pid}/cwd"),
      queues: Leftovers.queues_of(@targets), files: Leftovers.socket_directories(@tracers.map(&:pid)),
      children: File.read("/proc/#{pid}/task/#{pid}/children") }
  end

  # libc's own two, which it takes when a process makes its first thread, are left out.
  def caught(status)
    status[/^SigCgt:\s*(\h+)/, 1].hex & ~(0b11 << 31)
  end

  # musl's third, which it ignores once a library with variables of threads has been loaded.
  def ignored(status)
    status[/^SigIgn:\s*(\h+)/, 1].hex & ~(Processes.musl? ? 1 << 33 : 0)
  end

  # A thread of libc's, as Ruby keeps its own for a while.
  ENDS_WHEN_TRACED = <<~'RUBY'.freeze
    require "fiddle"
    libc = Fiddle.dlopen(nil)
    call = lambda do |name, *arguments|
      Fiddle::Function.new(libc[name], arguments.map { Fiddle::TYPE_VOIDP }, Fiddle::TYPE_INT).call(*arguments)
    end
    tasks = -> { Dir.children("/proc/self/task") }
    $semaphore, $thread, before = Fiddle.malloc(64), Fiddle.malloc(64), tasks.call
    call.("sem_init", $semaphore, 0, 0)
    call.("pthread_create", $thread, 0, libc["sem_wait"], $semaphore)
    ends = (tasks.call - before).first
    Thread.new do
      sleep 0.01 until File.read("/proc/self/task/#{ends}/status") =~ /^TracerPid:\s*[1-9]/
      call.("sem_post", $semaphore)
    end
    nil
  RUBY

  # The main thread is in a write that a stop would cut short: another one has to be stopped.
  def in_syswrite(path)
    File.mkfifo(path)
    bare("console").tap do |target|
      target.run("require 'io/nonblock'; $fifo = File.open(#{path.dump}, 'r+'); $fifo.nonblock = false")
      yield target
      target.run("Thread.new { sleep }; nil")
      target.run_in_background("$fifo.syswrite('x' * 300_000)")
      # By its number on x86-64 and on aarch64.
      wait_until("the main thread is in write") { File.read("/proc/#{target.pid}/syscall").match?(/\A(1|64) /) }
    end
  end

  test "a thread that ends as the extension is loaded by it is no end of the process" do
    skip "needs strace" unless system("command -v strace >/dev/null")
    skip "needs fiddle" unless system(*Processes::RUBY, "-W0", "-rfiddle", "-e", "", err: File::NULL)
    target = in_syswrite("#{shared_directory}/fifo") { |process| process.run(ENDS_WHEN_TRACED) }
    slowly = %W[strace -f -o #{File::NULL} -e trace=ptrace -e inject=ptrace:delay_exit=2000000:when=1]
    result = load(target, command: slowly, env: { "RBPROBE_DEBUG" => "load" })
    assert_match(/thread \d+ ended before it could be stopped.*rbprobe_start returned 0/m, result.stderr)
    refute_match(/process \d+ ended/, result.stderr)
  end

  test "IO#syswrite is not cut short by a load for which another thread was stopped" do
    path = "#{shared_directory}/fifo"
    target = in_syswrite(path) { nil }
    assert_refused 3, /Ruby did not come to a point where it could start/, "load", "-p", target.pid.to_s
    assert_refused 3, /write/, "eval", "-p", target.pid.to_s, "--timeout", "1", "1 + 1"
    assert_equal 300_000, File.open(path) { |fifo| fifo.read(300_000).size }
    target.expect("= 300000")
    assert_equal "2\n", rbprobe("eval", "-p", target.pid.to_s, "1 + 1").stdout
  end

  test "trace loads the extension where it is missing" do
    target = bare
    tracer = trace(target, "Shop#price(item)")
    target.run("$shop.price(:a)")
    result = tracer.stop
    assert_equal "Shop#price(item=:a) <time>\n", result.tree
    assert_match(/loaded the extension/, result.stderr)
  end

  test "after a load, a trace and a detach the only difference is one library" do
    target = bare
    libraries = libraries_of(target.pid)
    before = picture_of(target.pid)
    tracer = trace(target, "Shop#price")
    target.run("$shop.price(:a)")
    refute_equal before, picture_of(target.pid)
    assert_exit 0, tracer.stop
    wait_until(-> { "it is as before: #{before} #{picture_of(target.pid)}" }) { picture_of(target.pid) == before }
    added = libraries_of(target.pid) - libraries
    assert_equal ["rbprobe.so"], added.map { |path| File.basename(path) }
    assert_equal "[]", target.run("$LOADED_FEATURES.grep(/rbprobe/)")
    assert_equal "nil", target.run("$!")
  end

  test "it can be attached to again, and by two at once" do
    target = bare
    assert_attachable(target)
    first = trace(target, "Shop#price")
    assert_attachable(target)
    target.run("$shop.price(:a)")
    assert_equal "Shop#price <time>\n", first.stop.tree
    assert_exit 0, rbprobe("methods", "-p", target.pid.to_s, "--no-load", "Shop#price")
  end

  test "a process that others fork from keeps no bell, and neither do its children" do
    target = bare("console")
    tracer = trace(target, "Kernel#puts")
    child = target.adopt(target.run("fork { sleep }"))
    tracer.stop
    [target.pid, child].each do |pid|
      wait_until("process #{pid} has given SIGURG back") do
        caught(File.read("/proc/#{pid}/status"))[Signal.list["URG"] - 1].zero?
      end
    end
    tracer = trace(target, "Kernel#puts")
    assert_exit 0, rbprobe("methods", "-p", child.to_s, "Kernel#puts")
    tracer.stop
  end

  test "rbprobe load makes it stay: those attach who may not trace the process" do
    only_root_with_a_nobody
    target = bare(user: 65_534)
    assert_attachable(target)
    assert_exit 0, load(target)
    wait_until("no queue is left") { Leftovers.queues_of([target]).empty? }
    # Where ptrace is not permitted, there is only the signal: so it is while another traces the process.
    trace_by_strace(target)
    assert_exit 0, rbprobe("methods", "-p", target.pid.to_s, "Shop#price", command: NOBODY)
  end

  test "loading twice, and requiring afterwards, is harmless" do
    target = bare
    assert_exit 0, load(target)
    result = load(target, "-v")
    assert_exit 0, result
    assert_match(/loaded already/, result.stderr)
    assert_equal "true", target.run("require '#{BUILD}/tracee/rbprobe'")
    assert_equal 1, libraries_of(target.pid).grep(/rbprobe\.so/).size
    assert_attachable(target)
  end

  test "--no-load forbids it" do
    target = bare
    before = libraries_of(target.pid)
    %w[trace methods].each do |command|
      assert_refused 3, /has not loaded the rbprobe extension.*rbprobe load -p/m, command, "-p", target.pid.to_s,
                     "--no-load", "Shop#price"
    end
    assert_equal before, libraries_of(target.pid)
  end

  # What the main thread is doing when it is stopped. Each returns something that tells whether it came through unharmed.
  {
    "sleep" => ["t = Process.clock_gettime(1); sleep 1; (Process.clock_gettime(1) - t)" \
                "#{Processes::PATIENCE >= 10 ? ".floor.to_f" : ".round(1)"}", "1.0"],
    "arithmetic" => ["s = 0; 20_000_000.times { |i| s ^= i * 3 }; s", nil],
    "floats" => ["x = 0.5; 10_000_000.times { x = 3.9 * x * (1.0 - x) }; x", nil],
    "allocation" => ["a = Array.new(300_000) { |i| \"%08d\" % i * (i % 7) }; a.join.sum(32)", nil],
    "reading a pipe" => ["r, w = IO.pipe; pid = fork { r.close; 100.times { |i| w.write('%04d' % i); sleep 0.01 }; exit! }; " \
                         "w.close; s = r.read; Process.wait(pid); s == (0..99).map { |i| '%04d' % i }.join", "true"],
    "Queue#pop" => ["q = Queue.new; Thread.new { sleep 1; q << 7 }; q.pop", "7"],
    "waiting for a child" => ["pid = fork { sleep 1; exit! 9 }; Process.wait2(pid)[1].exitstatus", "9"],
    "GC.stress" => ["GC.stress = true; s = 200.times.map { |i| i.to_s * 3 }.join; GC.stress = false; s.sum", nil],
  }.each do |what, (code, expected)|
    test "a main thread that is in #{what} is none the worse" do
      target = bare
      # Programs count from their second run on: constants and caches.
      expected ||= target.run(code)
      target.run_in_background(code)
      sleep 0.2
      # With a collection at every allocation, starting takes longer than usual.
      result = load(target, "--timeout", (20 * Processes::PATIENCE).to_s)
      assert_exit 0, result
      assert_equal expected, target.answer
      assert_attachable(target)
    end
  end

  test "eight threads that compute and eight that allocate" do
    target = bare
    target.run("$stop = false; $all = 16.times.map { |n| Thread.new { s = 0; until $stop; " \
               "n.even? ? 1000.times { |i| s += i } : " \
               "('x' * rand(5000)).reverse; end; s } }; nil")
    assert_exit 0, load(target)
    assert_attachable(target)
    assert_equal "16", target.run("$stop = true; $all.map(&:value).size")
  end

  test "many loads into one kind of process each: none is harmed" do
    20.times do
      target = bare
      target.run_in_background("s = +''; 30_000.times { |i| s << ('x' * (i % 2000))[0, 1]; GC.start if i % 10_000 == 0 }; s.size")
      assert_exit 0, load(target)
      assert_equal "29985", target.answer
      target.finish
      @targets.delete(target)
    end
  end

  # What names the version of a Ruby in development, the files of its own library, is mapped a moment later.
  test "a process that has only just started" do
    20.times do |i|
      pid = start_beside(*Processes::RUBY, "-e", "sleep")
      sleep 0.002 * i
      result = rbprobe("eval", "-p", pid.to_s, "1 + 1")
      refute_match(/no extension is built/, result.stderr)
      Process.kill(:KILL, pid)
    end
  end

  test "a client that is killed at any moment of loading harms nothing" do
    40.times do |i|
      target = bare("console")
      tracer = launch("load", "-p", target.pid.to_s)
      sleep i * 0.0002
      tracer.kill
      assert_equal "3", target.run("1 + 2")
      assert_attachable(target)
      target.finish
      @targets.delete(target)
    end
  end

  test "a queue that a dead process of the same PID has left is no obstacle" do
    target = bare
    id = Ipc.create(Leftovers.queue_key(target.pid))
    # Old enough to be taken for a dead process's by the extension, which begins only now.
    sleep 3
    tracer = trace(target, "Shop#price")
    target.run("$shop.price(:a)")
    assert_equal "Shop#price <time>\n", tracer.stop.tree
  ensure
    Ipc.remove(id) if id
  end

  test "an application that has SIGURG keeps it, and is not sent it" do
    [true, false].each do |before|
      target = bare
      trap = "$urgent = 0; trap('URG') { $urgent += 1 }; nil"
      target.run(trap) if before
      assert_exit 0, load(target)
      target.run(trap) unless before
      tracer = trace(target, "Shop#price")
      target.run("$shop.price(:a)")
      result = tracer.stop
      assert_exit 0, result
      assert_equal "Shop#price <time>\n", result.tree
      assert_equal "0", target.run("sleep 0.1; $urgent")
      target.signal(:URG)
      wait_until("the trap runs") { target.run("$urgent") == "1" }
    end
  end

  test "an application that ignores SIGURG after loading" do
    target = bare
    assert_exit 0, load(target)
    target.run("trap('URG', 'IGNORE'); nil")
    assert_attachable(target)
    wait_until("no queue is left") { Leftovers.queues_of([target]).empty? }
  end

  test "an extension that was required before the application took SIGURG, or after" do
    target = start("console")
    target.run("$urgent = 0; trap('URG') { $urgent += 1 }; nil")
    assert_attachable(target)
    other = start("console", load: false)
    other.run("$urgent = 0; trap('URG') { $urgent += 1 }; require '#{BUILD}/tracee/rbprobe'")
    assert_attachable(other)
    assert_equal %w[0 0], [target, other].map { |one| one.run("sleep 0.1; $urgent") }
  end

  test "a Puma cluster with fork_worker is traced and does not fork anew" do
    only_with_gems("puma")
    File.write("#{site = directory}/config.ru",
               "class App; def answer; [200, {}, []]; end; end; A = App.new; run ->(_) { A.answer }\n")
    socket = "#{site}/puma.sock"
    puma = start_beside(*Processes::RUBY, "-S", "puma", "-w", "2", "--fork-worker=0", "-b", "unix://#{socket}",
                        "#{site}/config.ru", out: "#{site}/log", pgroup: true)
    booted = -> { File.read("#{site}/log").scan(/Worker (\d+) \(PID: (\d+)\) booted/) }
    workers = wait_until("both workers have booted") { booted.call.then { |all| all if all.size == 2 } }
    tracer = launch("trace", "-v", "-p", [puma, *workers.map(&:last)].join(","), "App#answer")
    wait_until("all three are armed") { tracer.stderr.scan(/: tracing \d method/).size == 3 }
    UNIXSocket.open(socket) { |s| s.write("GET / HTTP/1.0\r\n\r\n"); s.read }
    result = tracer.stop
    assert_match(/App#answer/, result.stdout)
    assert_equal 3, result.stderr.scan("the application has SIGURG").size
    sleep 1
    assert_equal workers, booted.call
  end

  # It may start in there, or wait for a better moment; that it could not is not remembered.
  test "a process that has no stack left while the extension starts" do
    target = bare("console")
    target.run_in_background("def deeper; deeper; end; at = Time.now; while Time.now - at < 3 do " \
                             "begin; deeper; rescue SystemStackError; end; end; :back")
    wait_until_it_computes(target.pid)
    first = rbprobe("eval", "-p", target.pid.to_s, "1")
    refute_match(/overridden/, first.stderr)
    assert_equal ":back", target.answer
    assert_exit 0, rbprobe("eval", "-p", target.pid.to_s, "1")
  end

  # Goes down so far that some frames fewer are left than of the stack, and computes there. Whether threads take turns afterwards:
  # a thread whose stack was used up takes no interrupts before an exception has passed.
  ROUNDS = (60_000_000 * (Processes.yjit? ? 10 : 1) / [Processes::PATIENCE / 4, 1].max).to_i # some seconds
  DIVE = <<~RUBY
    def dive(left)
      $count += 1
      return dive(left - 1) unless left == 0

      left += 1 while left < #{ROUNDS}
    end
    def most
      $count = 0
      dive(-1)
    rescue SystemStackError
      $count
    end
    def turns?
      turn = nil
      Thread.new { turn = true }
      now = -> { Process.clock_gettime(Process::CLOCK_MONOTONIC) }
      began = now.call
      nil until turn || now.call - began > 3
      turn
    end
    $most = most
    nil
  RUBY

  [true, false].each do |required|
    test "a process that has little stack left: its threads take turns as before, #{required ? "required" : "loaded"}" do
      [0, 1, 3, 8].each do |frames|
        target = required ? start("console") : bare("console")
        target.run(DIVE)
        target.run_in_background("dive($most - #{frames}); turns?")
        wait_until_it_computes(target.pid)
        rbprobe("eval", "-p", target.pid.to_s, "--timeout", "0.3", "1") # may come too early
        assert_equal "true", target.answer, "#{frames} frames left"
        assert_equal "1\n", rbprobe("eval", "-p", target.pid.to_s, "1").stdout
      end
    end
  end

  # Each try to do something there raises an exception with a backtrace of a million frames.
  test "a process that has little left of a large stack goes on, and is asked again when there is room" do
    target = start("console", env: { "RUBY_THREAD_VM_STACK_SIZE" => (128 << 20).to_s })
    target.run(DIVE)
    target.run_in_background("dive($most - 1); turns?")
    wait_until_it_computes(target.pid)
    client = launch("eval", "-p", target.pid.to_s, "--timeout", (60 * Processes::PATIENCE).to_s, "1 + 1")
    assert_equal "true", target.answer
    assert_equal "2\n", client.wait.stdout
  end

  # The object is in a local variable of the frame that the first jobs interrupt, and garbage when its thread has ended.
  INTERRUPTED = <<~RUBY
    $objects = ObjectSpace::WeakMap.new
    def interrupted
      kept = Object.new
      $objects[kept] = $objects
      count = 0
      count += 1 until $stop
      kept
    end
    $thread = Thread.new { interrupted; nil }
    nil
  RUBY

  test "nothing of the method that is interrupted is kept" do
    target = bare("console")
    target.run(INTERRUPTED)
    3.times { assert_equal "1\n", rbprobe("eval", "-p", target.pid.to_s, "1").stdout }
    assert_exit 0, rbprobe("bt", "-p", target.pid.to_s)
    target.run("$stop = true; $thread.join; $thread = nil")
    wait_until("the object is gone") do
      target.run("Thread.new { 100.times { Object.new } }.join; GC.start; $objects.size") == "0"
    end
  end

  test "a process that is stopped" do
    target = bare
    target.signal(:STOP)
    wait_until("it is stopped") { Processes.status_of(target.pid, "State").start_with?("T") }
    assert_refused 3, /is stopped.*kill -CONT #{target.pid}/, "load", "-p", target.pid.to_s
    target.signal(:CONT)
    assert_exit 0, load(target)
  end

  test "a process that another tracer has: it is named" do
    target = bare
    strace = trace_by_strace(target)
    assert_refused 3, /traced by strace \(process #{strace}\)/, "load", "-p", target.pid.to_s
  end

  test "another user's process" do
    only_root_with_a_nobody
    target = bare
    assert_refused 3, /belongs to user root.*as root/, "load", "-p", target.pid.to_s, command: NOBODY
  end

  test "a user loads into their own process" do
    only_root_with_a_nobody
    target = bare(user: 65_534)
    assert_exit 0, load(target, command: NOBODY)
    assert_attachable(target)
  end

  test "what is not Ruby, or gone" do
    pid = spawn("sleep", "60")
    assert_refused 3, /process #{pid} is not a Ruby process/, "load", "-p", pid.to_s
    Process.kill(:TERM, pid)
    Process.wait(pid)
    assert_refused 3, /no process has the PID #{pid}/, "load", "-p", pid.to_s
  end

  # --- Namespaces. The tracer is outside.

  # A target behind `unshare`; its own process may be a child of that.
  def start_in(*wrapper, console: "shop")
    only_root
    skip "the target's Ruby is in a chroot" if Processes::RUBY.first == "chroot"
    only_where_namespaces_are_allowed(wrapper)
    target = Target.new(console, [], load: false, wrapper: wrapper)
    @targets << target
    yield target.pid if block_given?
    target.tap(&:wait_until_ready)
  end

  def innermost(pid)
    child = File.read("/proc/#{pid}/task/#{pid}/children").split.first
    child ? innermost(child.to_i) : pid
  end

  NAMESPACES = {
    "mount" => %w[unshare -m],
    "PID" => %w[unshare -p -f --mount-proc],
    "IPC" => %w[unshare -i],
    "network" => %w[unshare -n],
    "user" => %w[unshare -U],
    "user, as its root" => %w[unshare -U -r],
    "every" => %w[unshare -U -r -m -p -i -n -u -f --mount-proc],
    "every but the user" => %w[unshare -m -p -i -n -u -f --mount-proc],
    "every and a read-only root" => ["unshare", *%w[-m -p -i -n -u -f --mount-proc sh -c],
                                     'mount -o remount,bind,ro /; exec "$@"', "sh"],
    "mount, where /tmp cannot be written" =>
      ["unshare", "-m", "sh", "-c", 'mount --bind /tmp /tmp; mount -o remount,bind,ro /tmp; exec "$@"', "sh"],
    "mount, where the extension cannot be seen" =>
      ["unshare", "-m", "sh", "-c", "mount -t tmpfs none '#{BUILD}/tracee'; exec \"$@\"", "sh"],
  }.freeze

  NAMESPACES.each do |kind, wrapper|
    test "a process in another namespace: #{kind}" do
      target = start_in(*wrapper)
      pid = innermost(target.pid)
      target.adopt(pid)
      tracer = launch("trace", "-v", "-p", pid.to_s, "Shop#price(item)").wait_until_armed
      target.run("$shop.price(:a)")
      result = tracer.stop
      assert_exit 0, result
      assert_equal "Shop#price(item=:a) <time>\n", result.tree
    end
  end

  test "a process in a user namespace whose users are others outside" do
    target = start_in("unshare", "-U", "--keep-caps", "sh",
                      "-c", 'while [ "$(cat /proc/self/gid_map)" = "" ]; do sleep 0.02; done; ' \
                      'exec setpriv --reuid=0 --regid=0 --clear-groups "$@"', "sh") do |pid|
      wait_until("it is in its namespace") { File.readlink("/proc/#{pid}/ns/user") != File.readlink("/proc/self/ns/user") }
      %w[uid_map gid_map].each { |map| File.write("/proc/#{pid}/#{map}", "0 100000 65536") }
    end
    assert_attachable(target)
  end

  test "a process that is traced gets the lowest free descriptors for its own files" do
    target = start("shop")
    free = target.run("File.open('/dev/null') { |file| file.fileno }")
    tracer = trace(target, "Shop#price")
    assert_equal free, target.run("File.open('/dev/null') { |file| file.fileno }")
    tracer.stop
  end
end
