# Attaching to what cannot be attached to: each refusal says what is wrong and what to do, and harms nothing.

require_relative "helper"
require_relative "ipc"

class AttachTest < LiveTest
  def methods_of(pid, *options)
    ["methods", "-p", pid.to_s, *options, "Kernel#puts"]
  end

  test "no such process" do
    gone = spawn("true")
    Process.wait(gone)
    assert_refused 3, /no process has the PID #{gone}/, *methods_of(gone)
    assert_refused 3, /no process has the PID #{gone}/, "trace", "-p", gone.to_s, "Shop#price"
  end

  test "a thread's id" do
    target = start("console")
    target.run("$thread = Thread.new { sleep }; nil")
    thread = nil
    wait_until("it is there") { thread = (Dir.children("/proc/#{target.pid}/task").map(&:to_i) - [target.pid]).max }
    assert_refused 3, /#{thread} is a thread of process #{target.pid}; give that PID: -p #{target.pid}/, *methods_of(thread)
    assert_refused 3, /#{thread} is a thread of process #{target.pid}/, "load", "-p", thread.to_s
  end

  test "PIDs without -p, or after it" do
    one, other = start("shop"), start("shop")
    assert_match(/\Aprocess #{one.pid}\b/, rbprobe("bt", one.pid.to_s).stdout)
    both = rbprobe("bt", "-p", one.pid.to_s, other.pid.to_s)
    assert_exit 0, both
    assert_equal [one.pid, other.pid], both.stdout.scan(/^process (\d+)/).flatten.map(&:to_i)
    assert_match(/^Shop#price /, rbprobe("methods", one.pid.to_s, "Shop#price").stdout)
    assert_equal "#{one.pid}\n", rbprobe("eval", one.pid.to_s, "Process.pid").stdout
    assert_equal "12\n", rbprobe("eval", "-p", one.pid.to_s, "12").stdout
    both = rbprobe("memory", "-p", one.pid.to_s, other.pid.to_s, "--no-objects")
    assert_equal [one.pid, other.pid], both.stdout.scan(/  process (\d+)/).flatten.map(&:to_i)
    assert_refused 2, /fork needs the PID of one process/, "fork", "-p", "#{one.pid},#{other.pid}"
    assert_refused 2, /12 is a number, and no process is asked for here/, "exec", "12", "--", "ruby"
  end

  test "not a Ruby process" do
    pid = start_beside("sleep", "60")
    assert_refused 3, /process #{pid} is not a Ruby process/, *methods_of(pid)
  end

  test "the extension is not loaded and may not be: how to load it, and no signal is sent" do
    target = start("console", load: false)
    assert_refused 3, /has not loaded the rbprobe extension.*-rrbprobe/m, *methods_of(target.pid, "--no-load")
    assert_equal "3", target.run("1 + 2")
    assert_equal "0", target.run("File.read('/proc/self/status')[/SigCgt:\\s*(\\h+)/, 1].hex[22]")
  end

  test "a process that has ended and was not waited for" do
    pid = spawn(*Processes::RUBY, "-e", "")
    wait_until("it is a zombie") { Processes.status_of(pid, "State").start_with?("Z") }
    assert_refused 3, /has ended already/, *methods_of(pid)
    Process.wait(pid)
  end

  test "a process that is stopped" do
    target = start("console")
    target.signal(:STOP)
    wait_until("it is stopped") { Processes.status_of(target.pid, "State").start_with?("T") }
    assert_refused 3, /is stopped.*kill -CONT #{target.pid}/, *methods_of(target.pid)
    target.signal(:CONT)
    assert_attachable(target)
  end

  test "a process whose C code holds the GVL" do
    target = start("console")
    target.run_in_background("3.pow(7**60000, 11**60000)")
    wait_until_it_computes(target.pid)
    assert_refused 3, /did not come to a safe point within 0\.5 s.*--timeout/, *methods_of(target.pid, "--timeout", "0.5")
    abandon(target)
  end

  # The kernel gives out PIDs in order; root may say where it goes on.
  def process_with_pid(pid, *command)
    50.times do
      File.write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_s)
      other = Process.spawn(*command, %i[out err] => File::NULL)
      return other if other == pid
      Process.kill(:KILL, other)
      Process.wait(other)
    end
    skip "the PID could not be had again"
  end

  test "the PID is given to another process while rbprobe attaches" do
    skip "needs root" unless Process.uid.zero? && File.writable?("/proc/sys/kernel/ns_last_pid")
    target = start("console")
    target.run_in_background("3.pow(7**60000, 11**60000)")
    tracer = launch(*methods_of(target.pid, "--timeout", "20"))
    wait_until("its bell was rung") { Leftovers.queues_of([target]).any? }
    target.finish
    @targets.delete(target)
    mark = "#{directory}/rung"
    other = process_with_pid(target.pid, "ruby", "--disable=gems", "-e", "trap(:URG) { File.write(ARGV[0], '') }; sleep 60", mark)
    result = tracer.wait
    assert_exit 3, result
    assert_match(/process #{target.pid} (ended|was killed)/, result.stderr)
    refute File.exist?(mark), "the newcomer was sent the signal"
    Leftovers.remove_queues_of(target)
  ensure
    if other
      Process.kill(:KILL, other)
      Process.wait(other)
    end
  end

  test "another user's process" do
    only_root_with_a_nobody
    target = start("console")
    assert_refused 3, /belongs to user root.*as root/, *methods_of(target.pid), command: NOBODY
    assert_equal "3", target.run("1 + 2")
  end

  test "root attaches to anybody's process, whose files it leaves alone" do
    only_root_with_a_nobody
    target = start("shop", user: 65534)
    tracer = trace(target, "Shop#price")
    target.run("$shop.price(:a)")
    assert_equal "Shop#price <time>\n", tracer.stop.tree
  end

  test "a user attaches to their own process" do
    only_root_with_a_nobody
    target = start("shop", user: 65534)
    tracer = trace(target, "Shop#price", command: NOBODY)
    target.run("$shop.price(:a)")
    assert_equal "Shop#price <time>\n", tracer.stop.tree
  end

  { "for good" => "Process::Sys.setuid(65534)", "for a time" => "Process::UID.eid = 65534" }.each do |how_long, code|
    test "a process that becomes another user #{how_long} during a session ends it in order, and can be attached to" do
      only_root
      skip "a process in a chroot has none of its user's directories" if Processes::RUBY.first == "chroot"
      target = start("shop")
      tracer = trace(target, "Shop#price")
      target.run("#{code}; Shop.new.price(:tea)")
      stopped = tracer.stop
      assert_exit 0, stopped
      refute_match(/did not confirm/, stopped.stderr)
      assert_equal 1, stopped.summary("calls?")
      assert_attachable target, "Shop#price"
      wait_until("no queue is left, the first user's neither", 6) { Leftovers.queues_of([target]).empty? }
    end
  end

  test "a process whose root directory has neither /tmp nor /proc" do
    only_root
    target = start("shop")
    inside = File.join(Processes::TARGET_ROOT, path = "/tmp/root-of-#{target.pid}")
    @directories << inside
    Dir.mkdir(inside)
    target.run("Dir.chroot('#{path}'); Dir.chdir('/'); 1")
    assert_attachable target, "Shop#price"
    assert_empty Dir.children(inside)
  end

  test "a queue that somebody else has made stands in nobody's way, and root removes it" do
    only_root_with_a_nobody
    target = start("console")
    id = squat(target)
    assert_attachable(target)
    refute_includes Leftovers.queues.map(&:id), id
  ensure
    Ipc.remove(id) if id
  end

  # As the target of another client may be, whose own key was taken, or that has the same PID in another container.
  { "here" => [], "in another PID namespace" => %w[unshare --pid --fork] }.each do |place, command|
    test "a queue with the target's key that another process receives from stays, #{place}" do
      only_root_with_a_nobody
      skip "namespaces are not allowed here" unless system(*command, "true", %i[out err] => File::NULL)
      target = start("console")
      squatter = IO.popen([*command, *squatting(target), "stamp", "stay"], "r+")
      id = Integer(squatter.gets)
      assert_attachable(target)
      assert_includes Leftovers.queues.map(&:id), id
      squatter.close
      wait_until("it goes") { assert_attachable(target) && Leftovers.queues.none? { |queue| queue.id == id } } if command.empty?
    ensure
      squatter&.close
      Ipc.remove(id) if id
    end
  end

  test "a queue of another program with such a key, and a message in it, stays until that is received" do
    dead = spawn("true")
    Process.wait(dead)
    id = Integer(IO.popen([RbConfig.ruby, "#{__dir__}/ipc.rb", Leftovers.queue_key(dead).to_s, "stamp", "send"], &:read))
    target = start("shop")
    assert_attachable(target)
    assert_includes Leftovers.queues.map(&:id), id
    IO.popen([RbConfig.ruby, "-r#{__dir__}/ipc", "-e", "Ipc.receive(#{id})"], &:read)
    wait_until("it goes") { assert_attachable(target) && Leftovers.queues.none? { |queue| queue.id == id } }
  ensure
    Ipc.remove(id) if id
  end

  test "a queue that root has made does not keep a user from their own process" do
    only_root_with_a_nobody
    target = start("shop", user: 65534)
    id = Ipc.create(Leftovers.queue_key(target.pid))
    assert_exit 0, rbprobe(*methods_of(target.pid), command: NOBODY)
    assert_includes Leftovers.queues.map(&:id), id
  ensure
    Ipc.remove(id) if id
  end

  # Times of queues and processes are not known to better than some seconds: a queue that is hardly older than the process
  # cannot be told from its own, and serves as well.
  { "long ago" => 4, "just now" => 0 }.each do |time, seconds|
    test "a queue that a dead process of the same PID has left #{time} is no obstacle" do
      only_root
      attach_despite_stale_queue(seconds)
    end
  end

  # One that a client had rung for, and that ended as it answered, such as a forked child.
  test "the queue of a process that ended before it could receive from it is removed" do
    dead = spawn("true")
    Process.wait(dead)
    id = Ipc.create(Leftovers.queue_key(dead))
    target = start("shop")
    wait_until("it goes") do
      assert_attachable(target)
      Leftovers.queues.none? { |queue| queue.id == id }
    end
  ensure
    Ipc.remove(id) if id
  end

  test "the target goes away between look and answer" do
    20.times do
      target = start("console")
      tracer = launch(*methods_of(target.pid))
      target.signal(:KILL)
      assert_includes [0, 3, 4], tracer.wait.status, tracer.stderr
      target.finish
      @targets.delete(target)
      wait_until("no queue is left") { Leftovers.queues_of([target]).empty? }
    end
  end

  test "the extension of another ABI says so when it is loaded" do
    skip "this is a test of the chooser, on the host's Ruby" unless Processes::RUBY == ["ruby"]
    path = directory
    FileUtils.cp("#{Processes::BUILD}/tracee/rbprobe.rb", path)
    output = IO.popen(["ruby", "-I", path, "-rrbprobe", "-e", "1", { err: %i[child out] }], &:read)
    assert_match(/rbprobe has not been built for ruby #{RUBY_VERSION}; `make RUBY=.*ruby.*` builds it/, output)
  end

  private

  # The id of a queue of user 65534's under the target's key.
  def squat(target)
    Integer(IO.popen(squatting(target), &:read))
  end

  def squatting(target)
    [*NOBODY, RbConfig.ruby, "#{__dir__}/ipc.rb", Leftovers.queue_key(target.pid).to_s]
  end

  def attach_despite_stale_queue(seconds)
    target, id = start_with_stale_queue(seconds)
    skip "the kernel does not let PIDs be chosen here" unless target
    assert_attachable(target)
    wait_until("the queue is gone") { Leftovers.queues_of([target]).empty? }
  ensure
    Ipc.remove(id) if id
  end

  # A target with a PID for which there was a queue already. Linux takes the next PID after ns_last_pid.
  def start_with_stale_queue(seconds)
    20.times do
      dead = spawn("true")
      Process.wait(dead)
      id = Ipc.create(Leftovers.queue_key(dead))
      # The queue's time has whole seconds: the process must begin in a later one.
      created = Time.now.to_i
      wait_until("it is clearly older") { Time.now.to_i > created + seconds }
      File.write("/proc/sys/kernel/ns_last_pid", (dead - 1).to_s)
      target = start("console")
      return [target, id] if target.pid == dead

      target.finish
      @targets.delete(target)
      Ipc.remove(id)
    end
    nil
  rescue Errno::EACCES, Errno::EPERM, Errno::EROFS
    nil
  end
  test "a limit of open files that is too low is what is said to be wrong, at each step" do
    target = start("shop")
    said = (8..24).map do |limit|
      result = rbprobe("trace", "-q", "-p", target.pid.to_s, "--duration", "0.1", "Shop#price",
                       command: ["prlimit", "--nofile=#{limit}"])
      next if result.status.zero?

      assert_match(/\Arbprobe: .*(Too many open files|no more than #{limit} files may be open here).*\n\z/, result.stderr)
      result.stderr
    end
    assert_nil said.last
    assert_equal 1, said.compact.grep(/make a socket/).map { |line| line.gsub(/\d+/, "N") }.uniq.size
    assert_attachable target
  end

  # rbprobe inherits so many that only `left` of 100 can be opened.
  def leaving(left)
    code = "(#{100 - left} - 3).times { IO.for_fd(IO.sysopen(File::NULL), autoclose: false).close_on_exec = false }; " \
           "Process.setrlimit(:NOFILE, 100); exec(*ARGV, close_others: false)"
    ["ruby", "-e", code]
  end

  test "where open files run out, more than there may be now is advised, and not less" do
    target = start("shop")
    said = (6..12).map do |left|
      rbprobe("trace", "-q", "-p", target.pid.to_s, "--duration", "0.1", "Shop#price", command: leaving(left)).stderr
    end
    advised = said.grep(/make a socket/)
    refute_empty advised, said.join
    advised.each { |line| assert_match(/no more than 100 files may be open here, .*; `ulimit -n 200` before/, line) }
  end
end
