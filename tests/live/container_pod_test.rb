# What doc/containers.md has for Kubernetes, by Docker: the namespaces that a pod's containers share, and the securityContext of
# its YAML as the flags that mean the same. The filter RuntimeDefault is that of Docker, too.

require_relative "helper"
require_relative "docker"
require "yaml"

class ContainerPodTest < LiveTest
  include Docker

  SECTION = File.read("#{Processes::ROOT}/doc/containers.md")[/^## Kubernetes\n.*?(?=^## )/m].freeze
  POD, SIDECAR_OF_ROOT = SECTION.scan(/^```yaml\n(.*?)^```/m).map { |(text)| YAML.safe_load(text) }
  # What `kubectl debug --profile` of kubectl 1.32 asks for.
  PROFILES = { "sysadmin" => { "privileged" => true }, "general" => { "capabilities" => { "add" => ["SYS_PTRACE"] } },
               "restricted" => { "allowPrivilegeEscalation" => false, "capabilities" => { "drop" => ["ALL"] } } }.freeze

  def setup
    super
    use_docker
  end

  # Every word has to be known here.
  def flags(context)
    context.flat_map do |word, value|
      case [word, value]
      in ["runAsUser", Integer] then ["--user=#{value}"]
      in ["allowPrivilegeEscalation", false] then ["--security-opt=no-new-privileges"]
      in ["privileged", true] then ["--privileged"]
      in ["capabilities", Hash]
        value.fetch("drop", []).map { |name| "--cap-drop=#{name}" } + value.fetch("add", []).map { |name| "--cap-add=#{name}" }
      end
    end
  end

  def sandbox
    _, said, status = tool(*container("sleep", "infinity", options: ["-d", "--ipc=shareable"]))
    assert_predicate status, :success?, said
    @containers.last
  end

  # A pod of the guide, whose PID namespace all share. Returns what another container of it takes.
  def pod
    shared = sandbox
    options = ["--pid=container:#{shared}", "--ipc=container:#{shared}"]
    assert_equal true, POD.dig("spec", "shareProcessNamespace")
    application(*options, *flags(POD["spec"]["containers"].first.fetch("securityContext")))
    options
  end

  # Finds the process as one does there: it is not PID 1.
  def look_from_sidecar(options, context)
    script = "pid=$(#{Processes::RBPROBE} ps --format json | sed -n 's/.*\"pid\": *\\([0-9]*\\).*/\\1/p' | head -n 1)\n" \
             "[ \"$pid\" -gt 1 ] && exec #{Processes::RBPROBE} bt -p $pid"
    tool(*container("sh", "-c", script, options: [*options, *flags(context)]))
  end

  test "the guide's sidecar, as the application's user" do
    assert_shows look_from_sidecar(pod, POD["spec"]["containers"].last.fetch("securityContext"))
  end

  test "the guide's sidecar of root, also where all other capabilities were dropped" do
    context = SIDECAR_OF_ROOT.fetch("securityContext")
    assert_shows look_from_sidecar(pod, context)
    others = SECTION[/^After `drop: \[ALL\]`, add (.*) as well\.$/, 1].scan(/[A-Z_]+/)
    capabilities = { "drop" => ["ALL"], "add" => context["capabilities"]["add"] }
    assert_says(/has no CAP_/, look_from_sidecar(pod, context.merge("capabilities" => capabilities)))
    capabilities["add"] += others
    assert_shows look_from_sidecar(pod, context.merge("capabilities" => capabilities))
  end

  # It has the PID namespace of the one container, and the IPC namespace of the pod.
  def look_from_debugger(context, user)
    shared = sandbox
    name, = application("--ipc=container:#{shared}", "--user=#{user}")
    look_beside(name, "--ipc=container:#{shared}", *flags(context))
  end

  test "kubectl debug with the profile general: an application of root's, and no other" do
    assert_shows look_from_debugger(PROFILES["general"], 0)
    assert_says(/has no CAP_IPC_OWNER/, look_from_debugger(PROFILES["general"], 1000))
  end

  test "kubectl debug with the profile sysadmin" do
    all = File.read("/proc/self/status")[/^CapEff:\s*(\h+)/, 1].hex
    skip "a capability is missing on this machine" unless all.digits(2).first(38).all?(1)
    assert_shows look_from_debugger(PROFILES["sysadmin"], 1000)
  end

  test "kubectl debug with the profile restricted, and the application's user as the guide has it" do
    custom = JSON.parse(SECTION[/'(\{"securityContext".*\})'/, 1]).fetch("securityContext")
    assert_shows look_from_debugger(PROFILES["restricted"].merge(custom), custom.fetch("runAsUser"))
  end
end
