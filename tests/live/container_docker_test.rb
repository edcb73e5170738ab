# Real containers of Docker: its own default seccomp filter, capabilities and namespaces, and the commands of doc/containers.md as
# they are written there.

require_relative "helper"
require_relative "docker"
require_relative "terminal"

class ContainerDockerTest < LiveTest
  include Docker

  GUIDE = File.read("#{Processes::ROOT}/doc/containers.md")[/^## Docker\n.*?(?=^## )/m].scan(/^docker .*/).freeze
  APP = "1000".freeze

  def setup
    super
    use_docker
  end

  # The guide's line that has all of these words and none of those.
  def documented(*words, without: [])
    lines = GUIDE.select { |line| words.all? { |word| line.include?(word) } && without.none? { |word| line.include?(word) } }
    assert_equal 1, lines.size, "lines with #{words.join(" ")} in the guide"
    (@@documented ||= []) << lines.first
    Shellwords.split(lines.first.sub(/ #.*/, "")) - ["docker", "-it"]
  end

  # The same for that container.
  def run_documented(name, *words, **options)
    ours = { "CONTAINER" => name, "--pid=container:app" => "--pid=container:#{name}", "rbprobe" => Processes::RBPROBE,
             "--ipc=container:app" => "--ipc=container:#{name}" }
    command, *rest = documented(*words, **options).map { |word| ours.fetch(word, word) }
    return tool(command, *rest) unless command == "run"

    tool(*container(*rest.drop(rest.index("IMAGE") + 1), options: rest.take(rest.index("IMAGE")) - ["--rm"]))
  end

  # As the guide has the application started.
  def shareable(*options)
    words = documented("--name app") - %w[run -d --name app APP-IMAGE]
    application(*words, *options)
  end

  def filters_of(pid)
    Processes.status_of(pid, "Seccomp_filters").to_i
  end

  test "the default seccomp filter and capabilities: from the host, then inside" do
    name, pid = application
    assert_equal 1, filters_of(pid)
    assert_shows look_from_host(pid)
    assert_shows run_documented(name, "exec -it CONTAINER")
  end

  test "inside first, where the filter may not be read and its calls are tried; a trace" do
    name, = application
    out, said, status = tool("exec", name, Processes::RBPROBE, "trace", "-p", "1", "--count", "2", "Object#work")
    assert_predicate status, :success?, said
    assert_match(/^Object#work <0\.\d+>$/, out)
  end

  test "an application that was started as another user, inside: as that user" do
    name, pid = application("-u", APP)
    assert_shows run_documented(name, "exec -it CONTAINER")
    assert_says(/has no CAP_SYS_PTRACE and CAP_IPC_OWNER/, look_inside(name, "-u", "0"))
    assert_shows look_from_host(pid)
  end

  test "an application that a script of root's starts as another user" do
    name, = application(command: ["setpriv", "--reuid=#{APP}", "--regid=#{APP}", "--clear-groups", "ruby", "-e", APPLICATION])
    assert_shows run_documented(name, "exec -it -u app")
  end

  test "no capabilities, no_new_privs, a read-only root, /tmp that runs no programs" do
    name, pid = application("--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only", "--tmpfs=/tmp:rw,noexec,nosuid",
                            "-u", APP)
    assert_shows look_inside(name)
    assert_shows look_from_host(pid)
  end

  test "a read-only root and nothing to write in" do
    assert_has_no_place_for_a_socket(*application("--read-only", "--ipc=none"))
  end

  test "a sidecar as the application's user, and as root" do
    name, = shareable("-u", APP)
    assert_shows run_documented(name, "--ipc=container:app", "-u 1000")
    assert_shows run_documented(name, "--ipc=container:app", "--cap-add", without: ["-u 1000"])
  end

  test "a sidecar of a container whose IPC namespace Docker does not share" do
    name, pid = application("-u", APP)
    assert_says(/CAP_SYS_PTRACE/, look_beside(name))
    assert_says(/IPC namespace of its own/, look_beside(name, "-u", APP))
    assert_shows run_documented(name, "--cap-add SYS_ADMIN")
    options = %w[SYS_ADMIN SYS_PTRACE IPC_OWNER].map { |capability| "--cap-add=#{capability}" }
    assert_shows tool(*container(Processes::RBPROBE, "bt", "-p", pid.to_s, options: ["--pid=host", *options]))
  end

  test "every command of the guide was tried" do
    skip "this is a part of the tests" if ENV.values_at("RBPROBE_PART", "RBPROBE_SHARE").compact.any? { |part| part != "1/1" }
    assert_equal GUIDE.sort, @@documented.uniq.sort
  end

  test "a paused container" do
    name, pid = application
    assert_predicate tool("pause", name).last, :success?
    assert_says(/process #{pid} is frozen with its cgroup/, look_from_host(pid))
    assert_predicate tool("unpause", name).last, :success?
    assert_shows look_from_host(pid)
  end

  test "limits, raised while it runs" do
    name, pid = application("--pids-limit=2", "--memory=128m", "--memory-swap=128m")
    assert_says(/takes 2 more threads.* may have 1 \(its pids\.max is 2\)/, look_from_host(pid))
    _, said, status = tool("update", "--pids-limit", "200", "--memory", "200m", "--memory-swap", "200m", name)
    assert_predicate status, :success?, said
    assert_shows look_from_host(pid)
    assert_shows look_inside(name)
  end

  test "a program that changed its user itself: no user in its container may trace it, root of the host may" do
    code = APPLICATION.sub("loop", "Process::Sys.setuid(#{APP}); loop")
    name, pid = application(command: ["ruby", "-e", code])
    wait_until("it changed its user") { Processes.status_of(pid, "Uid").split.uniq == [APP] }
    assert_says(/yours but may not be traced: it changed its user/, look_inside(name, "-u", "app"))
    assert_says(/that user may not trace it either/, look_inside(name))
    assert_shows look_from_host(pid)
  end

  # --- What ends meanwhile

  test "a container that is killed while it is traced from outside" do
    name, pid = application
    tracer = launch("trace", "-v", "-p", pid.to_s, "Object#work").wait_until_armed
    assert_predicate tool("kill", name).last, :success?
    result = tracer.wait
    assert_equal 4, result.status, result.stderr
    assert_match(/^rbprobe: .*process #{pid}/, result.stderr)
  end

  test "on a terminal Ctrl-C ends the trace in the container, not docker's client alone" do
    name, = application
    terminal = Terminal.new(["trace", "-p", "1", "Object#work"], wrapper: [*@tool, "exec", "-it", name])
    @tracers << terminal
    wait_until("it shows calls") { terminal.text.include?("Object#work <") }
    terminal.type("\C-c")
    terminal.wait
    assert_match(/rbprobe: \d+ calls, 0 lost/, terminal.text)
    refute_includes tool("top", name).first, "rbprobe trace"
  end
end
