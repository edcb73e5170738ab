# Real containers, by Podman or Docker. They have this machine's /usr, so that no image is needed.
#
# Who includes it sets @tool (the command), @root (a root directory) and defines image(root) and remove(name).

require "open3"

module Containers
  USER = 65_534
  APPLICATION = "def work; sleep 0.05; end; $0 = %(app at work); trap(:TERM) { exit! }; loop { work }".freeze
  VOLUMES = ["/usr:/usr:ro", "/etc/alternatives:/etc/alternatives:ro", "#{Processes::ROOT}:#{Processes::ROOT}:ro",
             "#{File.realpath(Processes::BUILD)}:#{File.realpath(Processes::BUILD)}:ro"].uniq.freeze

  def only_with_tools(*names)
    only_root
    only_where_loading_is_possible
    skip "needs #{names.join(" and ")}" unless names.all? { |name| system("command -v #{name} >/dev/null") }
    skip "the Ruby is not the one in /usr" unless Processes::RUBY == ["ruby"] && RbConfig.ruby.start_with?("/usr/")
  end

  def tool(*arguments)
    Open3.capture3(*@tool, *arguments)
  end

  def only_where_containers_run
    _, said, status = tool(*container("true"))
    skip "no container runs here: #{said.lines.last}" unless status.success?
  end

  def setup
    super
    @containers = []
  end

  def teardown
    # What shares a namespace of another one goes before it.
    left = @containers.reverse.reject { |name| remove(name).last.success? }
    super
    assert_empty left, "containers that could not be removed"
  end

  # What a merged /usr leaves of a root directory.
  def root_directory
    path = directory
    %w[usr etc/alternatives proc sys dev run var/tmp tmp].each { |name| FileUtils.mkdir_p("#{path}/#{name}") }
    %w[tmp var/tmp].each { |name| File.chmod(0o1777, "#{path}/#{name}") }
    %w[bin sbin lib lib64].each { |name| File.symlink("usr/#{name}", "#{path}/#{name}") }
    File.write("#{path}/etc/passwd", "root:x:0:0::/:/bin/sh\napp:x:1000:1000::/:/bin/sh\n")
    File.chmod(0o755, path)
    path
  end

  # What runs the command in a container of its own.
  def container(*command, options: [], root: @root)
    # These tools would raise what a machine may have limited.
    limits = { "nofile" => :NOFILE, "nproc" => :NPROC }.flat_map do |name, resource|
      ["--ulimit", "#{name}=#{([1024, Process.getrlimit(resource).last].min.to_s + ":") * 2}".chomp(":")]
    end
    @containers << "rbprobe-test-#{$$}-#{@containers.size}"
    ["run", *limits, "--network", "none", *VOLUMES.flat_map { |volume| ["-v", volume] }, "--name", @containers.last,
     *options, *image(root), *command]
  end

  # The application, PID 1 of a container. Returns the container's name and the PID that the host shows.
  def application(*options, command: ["ruby", "-e", APPLICATION], **how)
    _, said, status = tool(*container(*command, options: ["-d", *options], **how))
    assert_predicate status, :success?, said
    name = @containers.last
    pid = tool("inspect", "-f", "{{.State.Pid}}", name).first.to_i
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

  # Which is said, and the application goes on.
  def assert_has_no_place_for_a_socket(name, pid)
    [look_inside(name), look_from_host(pid)].each do |answer|
      assert_says(/cannot make a socket .*one of them has to be writable \(docker run --tmpfs/, answer)
    end
    assert_predicate tool("exec", name, "true").last, :success?, "it goes on"
  end

  def look_from_host(pid)
    Open3.capture3(Processes::RBPROBE, "bt", "-p", pid.to_s)
  end

  def look_inside(name, *options)
    tool("exec", *options, name, Processes::RBPROBE, "bt", "-p", "1")
  end

  def look_beside(name, *options)
    tool(*container(Processes::RBPROBE, "bt", "-p", "1", options: ["--pid=container:#{name}", *options]))
  end
end
