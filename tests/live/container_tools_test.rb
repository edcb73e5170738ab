# Real containers: Podman with runc, its default capabilities and its default seccomp filter, which is Docker's. The containers
# have this machine's /usr, so that no image is needed.

require_relative "helper"
require "open3"

class ContainerToolsTest < LiveTest
  USER = 65_534
  APPLICATION = "def work; sleep 0.05; end; $0 = %(app at work); trap(:TERM) { exit! }; loop { work }".freeze
  VOLUMES = ["/usr:/usr:ro", "/etc/alternatives:/etc/alternatives:ro", "#{Processes::ROOT}:#{Processes::ROOT}:ro",
             "#{File.realpath(Processes::BUILD)}:#{File.realpath(Processes::BUILD)}:ro"].uniq.freeze

  def podman(*arguments)
    Open3.capture3("podman", "--runtime", "runc", *arguments)
  end

  def setup
    super
    @containers = []
    only_root
    only_where_loading_is_possible
    skip "needs podman and runc" unless %w[podman runc].all? { |name| system("command -v #{name} >/dev/null") }
    skip "the Ruby is not the one in /usr" unless Processes::RUBY == ["ruby"] && RbConfig.ruby.start_with?("/usr/")
    @root = root_directory
    _, said, status = podman(*container, "true")
    skip "Podman runs no container here: #{said.lines.last}" unless status.success?
  end

  def teardown
    # What shares a namespace of another one goes before it.
    left = @containers.reverse.reject { |name| podman("rm", "-f", "-t", "0", name).last.success? }
    super
    assert_empty left, "containers that could not be removed"
  end

  # What a merged /usr leaves of a root directory.
  def root_directory
    path = directory
    %w[usr etc/alternatives proc sys dev run var/tmp tmp].each { |name| FileUtils.mkdir_p("#{path}/#{name}") }
    %w[tmp var/tmp].each { |name| File.chmod(0o1777, "#{path}/#{name}") }
    %w[bin sbin lib lib64].each { |name| File.symlink("usr/#{name}", "#{path}/#{name}") }
    File.chmod(0o755, path)
    path
  end

  def container(*options, root: @root)
    # Podman would raise what a machine may have limited.
    limits = { "nofile" => :NOFILE, "nproc" => :NPROC }.flat_map do |name, resource|
      ["--ulimit", "#{name}=#{([1024, Process.getrlimit(resource).last].min.to_s + ":") * 2}".chomp(":")]
    end
    @containers << "rbprobe-test-#{$$}-#{@containers.size}"
    ["run", *limits, "--network", "none", *VOLUMES.flat_map { |volume| ["-v", volume] }, "--name", @containers.last,
     *options, "--rootfs", root]
  end

  # The application, PID 1 of a container. Returns the container's name and the PID that the host shows.
  def application(*options, **how)
    _, said, status = podman(*container("-d", *options, **how), "ruby", "-e", APPLICATION)
    assert_predicate status, :success?, said
    name = @containers.last
    pid = podman("inspect", "-f", "{{.State.Pid}}", name).first.to_i
    wait_until("it runs") { File.read("/proc/#{pid}/cmdline").start_with?("app at work") }
    [name, pid]
  end

  def assert_shows(answer)
    out, said, status = answer
    assert_predicate status, :success?, said
    assert_match(/^process \d+, ruby .* in (Object#)?work$/m, out)
  end

  def assert_says(message, answer)
    _, said, status = answer
    assert_equal 3, status.exitstatus, said
    assert_match message, said
    assert_equal 1, said.lines.size, said
  end

  def look_from_host(pid)
    Open3.capture3(Processes::RBPROBE, "bt", "-p", pid.to_s)
  end

  def look_inside(name, *options)
    podman("exec", *options, name, Processes::RBPROBE, "bt", "-p", "1")
  end

  def look_beside(name, *options)
    podman(*container("--pid=container:#{name}", *options), Processes::RBPROBE, "bt", "-p", "1")
  end

  test "default capabilities and seccomp filter: from the host, then inside" do
    name, pid = application
    assert_equal "2", Processes.status_of(pid, "Seccomp")
    assert_shows look_from_host(pid)
    assert_shows look_inside(name)
  end

  test "inside first, where the filter may not be read and its calls are tried" do
    name, = application
    assert_shows look_inside(name)
  end

  test "inside, of an application that has a user of its own: as that user" do
    name, pid = application("--user", USER.to_s)
    assert_shows look_inside(name)
    assert_says(/has no CAP_SYS_PTRACE and CAP_IPC_OWNER/, look_inside(name, "--user", "0"))
    assert_shows look_from_host(pid)
  end

  test "no capabilities, no_new_privs, a read-only root, /tmp and /dev/shm that run no programs" do
    name, pid = application("--cap-drop=all", "--security-opt=no-new-privileges", "--read-only", "--read-only-tmpfs=false",
                            "--tmpfs=/tmp:rw,noexec,nosuid", "--user", USER.to_s)
    assert_match(/ \/dev\/shm .*noexec/, File.read("/proc/#{pid}/mounts"))
    assert_shows look_inside(name)
    assert_shows look_from_host(pid)
  end

  test "a read-only root and nothing to write in" do
    name, pid = application("--read-only", "--read-only-tmpfs=false", "--ipc=none")
    [look_inside(name), look_from_host(pid)].each do |answer|
      assert_says(/cannot make a socket .*one of them has to be writable \(docker run --tmpfs/, answer)
    end
    assert_predicate podman("exec", name, "true").last, :success?, "it goes on"
  end

  test "a sidecar: PID and IPC namespace" do
    name, = application
    assert_says(/IPC namespace of its own; .*--ipc=container:NAME/, look_beside(name))
    assert_shows look_beside(name, "--ipc=container:#{name}")
  end

  test "a sidecar of an application that has a user of its own" do
    name, = application("--user", USER.to_s)
    ipc = "--ipc=container:#{name}"
    assert_says(/CAP_SYS_PTRACE/, look_beside(name, ipc))
    assert_says(/CAP_IPC_OWNER/, look_beside(name, ipc, "--cap-add=SYS_PTRACE"))
    assert_shows look_beside(name, ipc, "--cap-add=SYS_PTRACE", "--cap-add=IPC_OWNER")
    assert_shows look_beside(name, ipc, "--cap-drop=all", "--user", USER.to_s)
  end

  test "a user namespace: other users outside than inside" do
    root = root_directory
    FileUtils.chown_R(100_000, 100_000, root)
    name, pid = application("--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536", root: root)
    assert_equal 100_000, File.stat("/proc/#{pid}").uid
    assert_shows look_from_host(pid)
    assert_shows look_inside(name)
  end

  test "a paused container" do
    name, pid = application
    assert_predicate podman("pause", name).last, :success?
    assert_says(/process #{pid} is frozen with its cgroup/, look_from_host(pid))
    assert_says(/process 1 is frozen with its cgroup/, look_beside(name, "--ipc=container:#{name}"))
    assert_predicate podman("unpause", name).last, :success?
    assert_shows look_from_host(pid)
  end

  test "limits of threads and memory" do
    name, pid = application("--pids-limit=2", "--memory=128m")
    assert_says(/takes 2 more threads.* may have 1 \(its pids\.max is 2\)/, look_from_host(pid))
    assert_equal "running", podman("inspect", "-f", "{{.State.Status}}", name).first.chomp
    assert_shows look_from_host(application("--pids-limit=20", "--memory=128m").last)
  end
end
