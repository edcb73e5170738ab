# Containers of containerd, by its own client: its default seccomp filter (RuntimeDefault of Kubernetes) and capabilities.

require_relative "helper"
require_relative "docker"

class ContainerContainerdTest < LiveTest
  include Containers

  def setup
    super
    only_with_tools("dockerd", "containerd", "ctr", "runc")
    daemon = Docker::Daemon.shared
    skip "containerd does not run here: #{daemon.trouble}" if daemon.trouble
    @tool = daemon.containerd_client
    @root = root_directory
    only_where_containers_run
  end

  def container(*command, options: [], root: @root)
    @containers << "rbprobe-test-#{$$}-#{@containers.size}"
    mounts = VOLUMES.flat_map do |volume|
      from, to, = volume.split(":")
      ["--mount", "type=bind,src=#{from},dst=#{to},options=rbind:ro"]
    end
    ["run", "--env", "PATH=/usr/sbin:/usr/bin", "--cgroup", "", "--seccomp", *mounts, *options, "--rootfs", root,
     @containers.last, *command]
  end

  def remove(name)
    tool("task", "kill", "-s", "SIGKILL", name)
    tool("task", "rm", "-f", name)
    tool("container", "rm", name)
  end

  def application(*options)
    _, said, status = tool(*container("ruby", "-e", APPLICATION, options: ["-d", *options]))
    assert_predicate status, :success?, said
    pid = tool("task", "ls").first[/^#{@containers.last}\s+(\d+)/, 1].to_i
    wait_until("it runs") { File.read("/proc/#{pid}/cmdline").start_with?("app at work") }
    [@containers.last, pid]
  end

  def inside(name, *arguments)
    tool("task", "exec", "--exec-id", "inside-#{@turn = @turn.to_i + 1}", name, Processes::RBPROBE, *arguments)
  end

  test "the default seccomp filter and capabilities: from the host, then inside" do
    name, pid = application
    assert_equal "2", Processes.status_of(pid, "Seccomp")
    assert_shows look_from_host(pid)
    assert_shows inside(name, "bt", "-p", "1")
  end

  test "inside first, where the filter may not be read and its calls are tried; a trace" do
    name, = application
    out, said, status = inside(name, "trace", "-p", "1", "--count", "2", "Object#work")
    assert_predicate status, :success?, said
    assert_match(/^Object#work <0\.\d+>$/, out)
  end

  test "a read-only root" do
    name, pid = application("--read-only", "--mount", "type=tmpfs,src=tmpfs,dst=/tmp,options=noexec:nosuid")
    assert_shows inside(name, "bt", "-p", "1")
    assert_shows look_from_host(pid)
  end
end
