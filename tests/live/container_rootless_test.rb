# Real containers of other kinds: those of the runtime crun, and those of a user who is not root, with both runtimes.

require_relative "helper"
require_relative "podman"

class ContainerRootlessTest < LiveTest
  include Podman

  # crun refuses a system that has both kinds of cgroups and a controller in the newer one: here it sees none.
  CONTROLLERS = "/sys/fs/cgroup/unified/cgroup.controllers".freeze
  # Files that the command alone finds in the place of others: of each two, what is there and where. One is the null device, since
  # crun gives what it finds as standard input to the container's user.
  INSTEAD = <<~'SH'.freeze
    mount -t tmpfs tmpfs /mnt && mknod -m 666 /mnt/null c 1 3 && mount --bind /mnt/null /dev/null && umount -l /mnt || exit
    while [ "$1" != -- ]; do mount --bind "$1" "$2" || exit; shift 2; done; shift
    exec "$@"
  SH
  SUBORDINATE = "200000".freeze

  def setup
    super
    @null = File.stat("/dev/null")
  end

  def teardown
    null = File.stat("/dev/null")
    # What keeps the user's namespaces for the next container.
    pause = File.read(@pause).to_i if @pause && File.exist?(@pause)
    super
    assert_equal [@null.uid, @null.gid, @null.mode], [null.uid, null.gid, null.mode], "the owner of /dev/null"
  ensure
    Process.kill(:KILL, pause) if pause
  end

  def with_files_instead(files)
    ["unshare", "--mount", "--propagation", "private", "sh", "-c", INSTEAD, "sh", *files.flatten, "--"]
  end

  def without_controllers
    File.exist?(CONTROLLERS) && !File.read(CONTROLLERS).empty? ? [["/dev/null", CONTROLLERS]] : []
  end

  # A user with a home of its own, to whom a range of others belongs.
  def use_podman_without_root(runtime)
    only_root_with_a_nobody
    skip "needs newuidmap (Debian: uidmap)" unless system("command -v newuidmap >/dev/null")
    home = directory
    ranges = "#{home}/ranges"
    File.write(ranges, "nobody:#{SUBORDINATE}:65536\n")
    @pause = "#{home}/libpod/tmp/pause.pid"
    files = [*without_controllers, [ranges, "/etc/subuid"], [ranges, "/etc/subgid"]]
    @root = root_directory
    FileUtils.chown_R(USER, USER, [home, @root])
    environment = ["env", "-i", "PATH=#{ENV.fetch("PATH")}", "HOME=#{home}", "XDG_RUNTIME_DIR=#{home}", "LC_ALL=C.UTF-8"]
    use_podman(runtime, *with_files_instead(files), *NOBODY, *environment)
  end

  test "crun: from the host, inside, beside, and paused" do
    use_podman("crun", *with_files_instead(without_controllers))
    name, pid = application
    assert_shows look_from_host(pid)
    assert_shows look_inside(name)
    assert_shows look_beside(name, "--ipc=container:#{name}")
    assert_predicate podman("pause", name).last, :success?
    assert_says(/process #{pid} is frozen with its cgroup/, look_from_host(pid))
    assert_predicate podman("unpause", name).last, :success?
  end

  test "crun: no capabilities, no_new_privs, a read-only root" do
    use_podman("crun", *with_files_instead(without_controllers))
    name, pid = application("--cap-drop=all", "--security-opt=no-new-privileges", "--read-only", "--read-only-tmpfs=false",
                            "--tmpfs=/tmp:rw,noexec,nosuid", "--user", USER.to_s)
    assert_shows look_inside(name)
    assert_shows look_from_host(pid)
  end

  %w[runc crun].each do |runtime|
    test "without root, #{runtime}: inside and beside, then from the host" do
      use_podman_without_root(runtime)
      name, pid = application
      assert_equal USER, File.stat("/proc/#{pid}").uid
      assert_shows look_inside(name)
      assert_shows look_beside(name, "--ipc=container:#{name}")
      assert_says(/no CAP_SYS_PTRACE/, look_beside(name, "--ipc=container:#{name}", "--cap-drop=all"))
      assert_shows look_from_host(pid)
    end

    test "without root, #{runtime}: an application that has a user of its own" do
      use_podman_without_root(runtime)
      name, pid = application("--user=1000")
      assert_equal SUBORDINATE.to_i + 999, File.stat("/proc/#{pid}").uid
      ipc = "--ipc=container:#{name}"
      assert_shows look_inside(name)
      assert_shows look_beside(name, ipc, "--cap-drop=all", "--user=1000")
    end
  end

  test "without root: the container's owner may not read its filter, unless the extension is there already" do
    use_podman_without_root("runc")
    _, pid = application
    unshare = [*@tool, "unshare", Processes::RBPROBE, "bt", "-p", pid.to_s]
    _, said, status = Open3.capture3(*unshare)
    assert_equal 3, status.exitstatus, said
    assert_match(/^rbprobe: process #{pid} runs under a seccomp filter that rbprobe may not read/, said)
    assert_shows look_from_host(pid)
    assert_shows Open3.capture3(*unshare)
  end
end
