# The directory and the socket to which a target connects: root makes them in a /tmp that its target may have filled with
# anything.

require_relative "helper"

class RendezvousTest < SecurityTest
  # What comes between making a directory and looking at it has time.
  SLOWLY = ["strace", "-f", "-qq", "-o", File::NULL, "-e", "inject=mkdir,mkdirat:delay_exit=10000"].freeze

  def setup
    super
    skip "needs strace" unless system("command -v strace >/dev/null")
  end

  test "no directory of root's is given away, whatever takes the place of the one that was made" do
    owner = user
    target = start_in_own_namespaces(owner)
    root_directory = directory_of_root
    swapper = start_as(owner, *into(target), program("swap_directory"), root_directory)
    swapper.expect("ready")
    statuses = Array.new(tries(50)) do |index|
      rbprobe("eval", "-p", target.pid.to_s, "--timeout", "0.1", "--no-load", "1", command: index.even? ? SLOWLY : []).status
    end
    assert_match(/\Aswapped [1-9]/, swapper.wait.first)
    status = File.stat(root_directory)
    assert_equal [0, 0, 0o40755], [status.uid, status.gid, status.mode]
    assert_equal ["s"], Dir.children(root_directory), "what root had in it"
    assert_equal [0, 3], (statuses | [0, 3]).sort
    assert_equal "500", target.run("Shop.new.price(:apple)")
  end

  test "what is in /tmp already does not matter: a link, a FIFO, files and directories that bear our names" do
    owner = user
    temporary = directory_of(owner)
    dead = Process.wait(spawn("true"))
    system(*SecurityTest.as(owner), "sh", "-c", <<~SH, chdir: temporary) or flunk "no rubbish"
      mkfifo rbprobe-#{dead}-fifo && ln -s / rbprobe-#{dead}-link && : > rbprobe-#{dead}-file
      ln -s #{directory_of_root} rbprobe-#{dead}-root
      mkdir -m 700 rbprobe-#{dead}-full rbprobe-#{dead}-empty && : > rbprobe-#{dead}-full/more
    SH
    before = Dir.children(temporary).sort
    target = start_in_own_namespaces(owner, temporary)
    assert_exit 0, rbprobe("eval", "-p", target.pid.to_s, "1")
    assert_equal before - ["rbprobe-#{dead}-empty"], Dir.children(temporary).sort
  end

  test "names that strangers have made like ours hold up nobody" do
    owner = user
    temporary = directory_of(owner)
    # That of no process; each is looked at.
    names = (0...1000).map { |index| "rbprobe-4194304-#{index}".tap { |name| File.write("#{temporary}/#{name}", "") } }
    target = start_in_own_namespaces(owner, temporary)
    slowly = ["strace", "-f", "-qq", "-o", File::NULL, "-e", "inject=kill:delay_enter=10000"]
    assert_exit 0, rbprobe("eval", "-p", target.pid.to_s, "--no-load", "1", command: slowly)
    wait_until("the socket's directory is gone") { Dir.children(temporary).sort == names.sort }
  end

  test "a client that is killed leaves no directory" do
    target = start("shop", user: user)
    target.run_in_background("'x'.crypt('$6$rounds=9000000$salt').size")
    wait_until_it_computes(target.pid)
    tracer = launch("methods", "-p", target.pid.to_s, "Shop#price", "--timeout", "120")
    made = wait_until("the socket is there") do
      Leftovers.socket_directories([tracer.pid]).find { |path| File.socket?("#{path}/s") }
    end
    assert_equal owner_of("/proc/#{target.pid}"), File.stat(made).uid
    tracer.kill
    wait_until("the directory is gone") { !File.exist?(made) }
    assert_equal "109", target.answer(120)
  end

  private

  def directory_of_root
    directory_of(0).tap do |path|
      File.chmod(0o755, path)
      File.write("#{path}/s", "root's")
    end
  end

  # Outside of what takes the place of /tmp.
  def directory_of(owner)
    Dir.mktmpdir("security-", "/var/tmp").tap do |path|
      @directories << path
      FileUtils.chown(owner, owner, path)
    end
  end

  # A target in a user and a mount namespace that belong to its user, as does its /tmp.
  def start_in_own_namespaces(owner, temporary = directory_of(owner))
    start("shop", wrapper: [*SecurityTest.as(owner), "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
                            'mount --bind "$0" /tmp && exec "$@"', temporary])
  end

  # In front of a command of the target's user, for the target's namespaces.
  def into(target)
    ["nsenter", "-t", target.pid.to_s, "--user", "--mount", "--preserve-credentials"]
  end
end
