# What `kubectl debug` and a sidecar give: the PID and IPC namespaces of a process, and a root directory of one's own.

require_relative "helper"
require_relative "ipc"
require "open3"

class ContainersTest < LiveTest
  # Docker's, which a container's root has.
  USUAL = %w[chown dac_override fowner fsetid kill setgid setuid setpcap net_bind_service net_raw sys_chroot mknod audit_write
             setfcap].freeze
  USER = 65_534

  # The application, PID 1 of its namespace, as a user of its own. Returns the PID that the host shows.
  def container
    namespaces = %w[unshare -p -f -i -m --mount-proc --kill-child]
    only_where_allowed(*namespaces)
    unshare = start_beside(*namespaces, "setpriv", "--reuid=#{USER}", "--regid=#{USER}", "--clear-groups", *Processes::RUBY, "-e",
                           "def work; sleep 0.05; end; $0 = %(app at work); loop { work }")
    @inner = app_at_work { child_of(unshare) }
  end

  def only_where_allowed(*namespaces)
    only_where_loading_is_possible
    skip "needs root" unless Process.uid.zero?
    skip "the Ruby is in a chroot" if Processes::RUBY.first == "chroot"
    skip "namespaces are not allowed here" unless system(*namespaces, "true", %i[out err] => File::NULL)
  end

  # 0: there is none yet.
  def child_of(pid)
    pid.zero? ? 0 : File.read("/proc/#{pid}/task/#{pid}/children").to_i
  end

  # Its PID, which the block looks for.
  def app_at_work
    wait_until("it runs") do
      inner = yield
      inner if inner.positive? && File.read("/proc/#{inner}/cmdline").start_with?("app at work")
    end
  end

  # unshare waits for it, whatever it is sent.
  def teardown
    Process.kill(:KILL, @inner) if @inner
    super
  end

  # In a PID namespace alone, with that PID in it. Linux takes the next PID after ns_last_pid.
  def container_with_pid(pid)
    shell = 'echo "$1" >/proc/sys/kernel/ns_last_pid; shift; "$@" & wait'
    unshare = start_beside("unshare", "-p", "-f", "-m", "--mount-proc", "--kill-child", "sh", "-c", shell, "sh", (pid - 1).to_s,
                           *Processes::RUBY, "-e", "$0 = %(app at work); loop { sleep 0.05 }")
    @inner = app_at_work { child_of(child_of(unshare)) }
    skip "the kernel does not let PIDs be chosen here" unless Processes.status_of(@inner, "NSpid").split.last == pid.to_s
  end

  # Queues that are much older than the process are taken for left over by one before it.
  test "the queue of a process here with the PID that the application has in there stays" do
    only_where_allowed("unshare", "-p", "-f", "-m", "--mount-proc")
    other = IO.popen([RbConfig.ruby, "#{__dir__}/ipc.rb", (Leftovers.queue_key(1) + 5).to_s, "stamp", "stay"], "r+")
    id = Integer(other.gets)
    began = Time.now.to_i
    wait_until("it is clearly older") { Time.now.to_i > began + 4 }
    container_with_pid(other.pid)
    assert_equal "2\n", rbprobe("eval", "-p", @inner.to_s, "1 + 1").stdout
    assert_includes Leftovers.queues.map(&:id), id
  ensure
    other&.close
    Ipc.remove(id) if id
  end

  # `rbprobe bt` beside it, as setpriv is told.
  def look(pid, *privileges)
    shell = 'mount -t proc proc /proc && { case "$1" in /tmp/*) ;; *) mount -t tmpfs none /tmp ;; esac; } && shift && exec "$@"'
    Open3.capture3("nsenter", "-p", "-i", "-t", pid.to_s, "unshare", "-m", "sh", "-c", shell, "sh", Processes::RBPROBE,
                   "setpriv", *privileges, Processes::RBPROBE, "bt", "-p", "1")
  end

  def capabilities(*names)
    "--bounding-set=#{["-all", *names.map { |name| "+#{name}" }].join(",")}"
  end

  def assert_shows(pid, *privileges)
    out, err, status = look(pid, *privileges)
    assert_predicate status, :success?, err
    assert_match(/^process 1, ruby .* in (Object#)?work$/m, out)
  end

  def assert_names(expected, pid, *privileges)
    _, err, status = look(pid, *privileges)
    assert_equal 3, status.exitstatus, err
    assert_match expected, err
    assert_equal 1, err.lines.size, err
  end

  test "a privileged debug container" do
    assert_shows container
  end

  test "a sidecar's root needs two capabilities beside the usual ones, and is told which" do
    pid = container
    assert_names(/CAP_SYS_PTRACE/, pid, capabilities(*USUAL, "ipc_owner"))
    assert_names(/this root .* has no CAP_IPC_OWNER; run rbprobe as that user, or add/, pid, capabilities(*USUAL, "sys_ptrace"))
    assert_shows pid, capabilities(*USUAL, "sys_ptrace", "ipc_owner")
  end

  NEEDED = %w[SYS_PTRACE SETUID SETGID IPC_OWNER DAC_OVERRIDE KILL].freeze

  # Without a PID namespace of its own, which is the quicker way.
  def target_of_another_user(**options)
    only_where_loading_is_possible
    only_root_with_a_nobody
    start("console", user: USER, **options)
  end

  def rbprobe_with(names, command, pid, *rest)
    Open3.capture3("setpriv", capabilities(*names.map(&:downcase)), "--inh-caps=-all", Processes::RBPROBE, *command, "-p",
                   pid.to_s, *rest, stdin_data: "")
  end

  test "where all capabilities were dropped, each command that attaches names those that it needs" do
    target = target_of_another_user(load: false)
    file = "#{directory}/out"
    [[%w[bt]], [%w[trace], "Object#run"], [%w[stat], "Object#run"], [%w[eval], "1"], [%w[memory]], [%w[methods], "Object#run"],
     [%w[heap dump], "-o", file], [%w[heap leak]], [%w[load]], [%w[fork]], [%w[selftest]], [%w[tracers]], [%w[console]],
     [%w[record], "-o", file, "Object#run"]].each do |command, *rest|
      _, err, status = rbprobe_with([], command, target.pid, *rest)
      assert_equal 3, status.exitstatus, err
      NEEDED.each { |name| assert_match(/has no .*CAP_#{name}\b.*--cap-add #{name}\b/, err, command.join(" ")) }
      assert_equal 1, err.lines.size, err
    end
  end

  test "each capability that is missing alone is named, and no other one; all of them are enough" do
    [false, true].each do |load|
      needed = load ? NEEDED - %w[DAC_OVERRIDE] : NEEDED
      needed.each do |name|
        target = target_of_another_user(load: load)
        _, err, status = rbprobe_with(needed - [name], %w[eval], target.pid, "1")
        assert_equal 3, status.exitstatus, err
        # Without CAP_SYS_PTRACE nobody sees whether the extension is loaded already.
        unseen = load && name == "SYS_PTRACE" ? " and CAP_DAC_OVERRIDE" : ""
        assert_match(/has no CAP_#{name}#{unseen}; run rbprobe as that user, or add .*\(docker run --cap-add #{name}[ )]/, err)
      end
      out, err, = rbprobe_with(needed, %w[eval], target_of_another_user(load: load).pid, "1")
      assert_equal "1\n", out, err
    end
  end

  test "a process whose IPC namespace is not shared: refused before anything is loaded" do
    pid = container
    _, err, status = Open3.capture3("nsenter", "-p", "-t", pid.to_s, "unshare", "-m", "-i", "sh", "-c",
                                    'mount -t proc proc /proc; exec "$@"', "sh", "setpriv",
                                    capabilities(*USUAL, "sys_ptrace", "ipc_owner"), Processes::RBPROBE, "bt", "-p", "1")
    assert_equal 3, status.exitstatus, err
    assert_match(/\Arbprobe: process 1 is in a container with an IPC namespace of its own; .*--ipc=container:NAME\)\n\z/, err)
    refute_includes File.read("/proc/#{pid}/maps"), "rbprobe.so"
  end

  # Where one of nsenter's two options is forgotten. What has the PID 1 for ptrace is not what /proc shows as 1.
  test "where /proc is another PID namespace's, nothing is looked at" do
    pid = container
    { "-m" => "1", "-p" => pid.to_s }.each do |option, shown|
      inside = ["nsenter", option, "-t", pid.to_s]
      commands = { [1] => %w[ps], [3] => ["bt", "-p", shown], [3, 127] => ["exec", "Object#work", "--", "true"] }
      commands.each do |statuses, arguments|
        result = rbprobe(*arguments, command: inside)
        assert_includes statuses, result.status
        assert_match(/\Arbprobe: \/proc is that of another PID namespace.*\(nsenter -p -m\).*\n\z/, result.stderr)
        assert_equal "", result.stdout
      end
    end
    result = rbprobe("bt", "-p", "1", command: ["nsenter", "-m", "-p", "-t", pid.to_s])
    assert_exit 0, result
  end

  test "a process that has changed its user: no user in its container may trace it without a capability, and both are told" do
    only_where_loading_is_possible
    only_root_with_a_nobody
    pid = start_beside(*Processes::RUBY, "-e", "Process::Sys.setuid(#{USER}); $0 = %(app at work); sleep")
    wait_until("it has its name") { File.read("/proc/#{pid}/cmdline").start_with?("app at work") }
    _, err, status = rbprobe_with(NEEDED - %w[SYS_PTRACE], %w[bt], pid)
    assert_equal 3, status.exitstatus, err
    assert_match(/has no CAP_SYS_PTRACE; that user may not trace it either, since it changed its user; add the cap/, err)
    assert_refused(3, /is yours but may not be traced: it changed its user/, "bt", "-p", pid.to_s, command: NOBODY)
    assert_exit 0, rbprobe("bt", "-p", pid.to_s)
  end

  # There is no gVisor here: what it shows of itself stands in for it.
  test "inside gVisor nothing is tried" do
    pid = container
    version = "#{directory}/version"
    File.write(version, "Linux version 4.4.0 #1 SMP Sun Jan 10 15:06:54 PST 2016\n")
    inside = ["unshare", "-m", "sh", "-c", "mount --bind #{version} /proc/version; exec \"$@\"", "sh"]
    [["bt", "-p", pid.to_s], ["load", "-p", pid.to_s], ["trace", "-p", pid.to_s, "Object#work"]].each do |arguments|
      assert_refused(3, /\Arbprobe: rbprobe does not work in a gVisor sandbox \(runsc\).*\n\z/, *arguments, command: inside)
    end
    [%w[ps], ["exec", "Object#work", "--", *Processes::RUBY, "-e", "print 1"]].each do |arguments|
      result = rbprobe(*arguments, command: inside)
      refute_equal 0, result.status
      assert_match(/\Arbprobe: rbprobe does not work in a gVisor sandbox/, result.stderr)
      assert_equal "", result.stdout
    end
    refute_includes File.read("/proc/#{pid}/maps"), "rbprobe.so"
  end

  test "a gVisor sandbox, seen from the host" do
    pid = start_beside("bash", "-c", "exec -a runsc-sandbox sleep 60")
    wait_until("it has its name") { File.read("/proc/#{pid}/cmdline").start_with?("runsc-sandbox") }
    assert_refused(3, /process #{pid} is a gVisor sandbox \(runsc\)/, "bt", "-p", pid.to_s)
  end

  test "a sidecar as the application's own user needs none" do
    scope = "/proc/sys/kernel/yama/ptrace_scope"
    skip "ptrace_scope forbids it" unless !File.exist?(scope) || File.read(scope).to_i.zero?
    assert_shows container, "--reuid=#{USER}", "--regid=#{USER}", "--clear-groups", capabilities
  end
end
