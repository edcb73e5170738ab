# Docker's containers: a daemon of our own, which has its own directories and touches no network.

require_relative "containers"

module Docker
  include Containers

  # One for all tests of a file.
  class Daemon
    # Their mounts end with them. What they would change of the machine's network is switched off.
    ALONE = ["unshare", "--mount", "--propagation", "slave"].freeze
    OPTIONS = ["--storage-driver", "vfs", "--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
               "--ip-masq=false", "--userland-proxy=false", "--log-level", "warn"].freeze

    attr_reader :client

    def self.shared
      @shared ||= new.tap { |daemon| Minitest.after_run { daemon.finish } }
    end

    def initialize
      @place = Dir.mktmpdir("live-test-docker-")
      socket = "unix://#{@place}/socket"
      # A newer client, of somebody's own, may not speak with Debian's daemon.
      @client = [["/usr/bin/docker"].find { |path| File.executable?(path) } || "docker", "-H", socket]
      @pids = []
      # Of a containerd that it starts itself, dockerd expects that it is ready within 15 seconds.
      containerd = "#{@place}/containerd"
      run("containerd", "--root", "#{containerd}/data", "--state", "#{containerd}/state", "--address", "#{containerd}.socket")
      run("dockerd", *OPTIONS, "--containerd", "#{containerd}.socket", "--data-root", "#{@place}/data",
          "--exec-root", "#{@place}/exec", "-p", "#{@place}/pid", "-H", socket)
    end

    # containerd's own client, without Docker between them.
    def containerd_client
      ["ctr", "--address", "#{@place}/containerd.socket", "--namespace", "rbprobe-test"]
    end

    # nil once it answers, or why it does not.
    def trouble
      return @trouble if defined?(@trouble)

      Processes.wait_until("dockerd answers", 60) { answers? || ended? }
      @trouble = ended? ? File.readlines("#{@place}/log").last.to_s.chomp : nil
    end

    # An image with nothing in it but what a merged /usr leaves of a root directory.
    def image(root)
      @image ||= begin
        _, said, status = Open3.capture3("tar -c -C #{root} . | #{Shellwords.join(@client)} import - rbprobe-test")
        raise "docker import: #{said}" unless status.success?

        "rbprobe-test"
      end
    end

    # dockerd goes before what it needs.
    def finish
      @pids.reverse_each do |pid|
        Process.kill(:TERM, pid)
        Process.wait(pid)
      rescue SystemCallError # it has ended, and was waited for
        next
      end
    ensure
      FileUtils.rm_rf(@place)
    end

    private

    # Both in one place for mounts, which is that of the first.
    def run(*command)
      alone = @pids.empty? ? ALONE : ["nsenter", "--mount", "--target", @pids.first.to_s]
      Processes.wait_until("it has mounts of its own") { mounts_of(@pids.first) != mounts_of($$) } unless @pids.empty?
      @pids << Process.spawn(*alone, *command, in: File::NULL, %i[out err] => ["#{@place}/log", "a"])
    end

    def mounts_of(pid)
      File.readlink("/proc/#{pid}/ns/mnt")
    end

    def answers?
      system(*@client, "version", %i[out err] => File::NULL)
    end

    def ended?
      @ended ||= @pids.any? { |pid| Process.wait(pid, Process::WNOHANG) }
    end
  end

  def use_docker
    only_with_tools("dockerd", "docker", "containerd")
    daemon = Daemon.shared
    skip "dockerd does not run here: #{daemon.trouble}" if daemon.trouble
    @tool = daemon.client
    @root = root_directory
    @image = daemon.image(@root)
    only_where_containers_run
  end

  alias docker tool

  def image(_root)
    [@image]
  end

  def remove(name)
    docker("rm", "-f", name)
  end
end
