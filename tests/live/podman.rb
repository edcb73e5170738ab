# Real containers, by Podman. They have this machine's /usr, so that no image is needed.

require "open3"

module Podman
  USER = 65_534
  APPLICATION = "def work; sleep 0.05; end; $0 = %(app at work); trap(:TERM) { exit! }; loop { work }".freeze
  VOLUMES = ["/usr:/usr:ro", "/etc/alternatives:/etc/alternatives:ro", "#{Processes::ROOT}:#{Processes::ROOT}:ro",
             "#{File.realpath(Processes::BUILD)}:#{File.realpath(Processes::BUILD)}:ro"].uniq.freeze

  # Podman with that runtime; before: a command that runs the one which follows.
  def use_podman(runtime, *before)
    only_root
    only_where_loading_is_possible
    skip "needs podman and #{runtime}" unless ["podman", runtime].all? { |name| system("command -v #{name} >/dev/null") }
    skip "the Ruby is not the one in /usr" unless Processes::RUBY == ["ruby"] && RbConfig.ruby.start_with?("/usr/")
    @podman = [*before, "podman", "--runtime", runtime]
    @root ||= root_directory
    _, said, status = podman(*container, "true")
    skip "Podman runs no container here: #{said.lines.last}" unless status.success?
  end

  def podman(*arguments)
    Open3.capture3(*@podman, *arguments)
  end

  def setup
    super
    @containers = []
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
end
