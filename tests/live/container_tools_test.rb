# Real containers: Podman with runc, its default capabilities and its default seccomp filter, which has the calls of Docker's.

require_relative "helper"
require_relative "podman"

class ContainerToolsTest < LiveTest
  include Podman

  def setup
    super
    use_podman("runc")
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
    assert_has_no_place_for_a_socket(*application("--read-only", "--read-only-tmpfs=false", "--ipc=none"))
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
