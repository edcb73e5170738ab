# What a test of an attack stands on: users whom nobody else is, programs that they run, and nothing left of either.
#
#     class QueueSquattingTest < SecurityTest
#       test "a stranger's queue under the target's key keeps nobody out" do
#         victim, stranger = user, user               # numbers that no process has
#         target = start("shop", user: victim)        # all that a LiveTest has
#         attacker = start_as(stranger, program("forge_queue"), victim, target.pid, 1, "/nowhere", "1")   # of forge_queue.c
#         attacker.expect("ready")                    # its next line; attacker.say(...) is its input
#
# Needs root, since only root becomes other users. At the end of a test every process, System V queue and entry of /tmp of
# its users goes; one that a test did not end itself is no failure, as attackers need not behave.
#
# RBPROBE_TRIES multiplies the tries of attacks that race, RBPROBE_SEED repeats what is random.

require_relative "../live/helper"

class SecurityTest < LiveTest
  TRIES = Float(ENV.fetch("RBPROBE_TRIES", "1"))
  USERS = (61_200...64_800)

  # A program of another user, as lines in and out.
  class Attacker
    attr_reader :pid, :user

    def initialize(user, arguments, command)
      @user = user
      reader, @stdin = IO.pipe
      @stdout, writer = IO.pipe
      @pid = Process.spawn(*command, *SecurityTest.as(user), *arguments.map(&:to_s), in: reader, %i[out err] => writer,
                           pgroup: true, chdir: "/")
      [reader, writer].each(&:close)
    end

    def say(line)
      @stdin.puts(line)
    end

    # Its next line.
    def hear(seconds = 30)
      raise Processes::TimedOut, "the attacker says nothing" unless @stdout.wait_readable(seconds * Processes::PATIENCE)

      line = @stdout.gets or raise Minitest::Assertion, "the attacker is gone"
      line.chomp
    end

    def expect(text)
      line = hear
      raise Minitest::Assertion, "the attacker said #{line.inspect} instead of #{text.inspect}" unless text === line

      line
    end

    # Everything that it says until it ends by itself.
    def wait
      @stdin.close unless @stdin.closed?
      rest = @stdout.read
      @status ||= Process.wait2(@pid).last
      [rest, @status]
    end

    def kill
      Process.kill(:KILL, -@pid)
    rescue Errno::ESRCH
      nil
    ensure
      Process.wait(@pid) unless @status
      @status ||= true
      [@stdin, @stdout].each { |io| io.close unless io.closed? }
    end
  end

  # What stands in front of a command that this user runs: no groups, no capabilities.
  def self.as(user)
    user.zero? ? [] : ["setpriv", "--reuid=#{user}", "--regid=#{user}", "--clear-groups"]
  end

  def setup
    super
    @users = []
    @attackers = []
    only_root
    skip "another user may not reach #{RBPROBE}" unless system(*NOBODY, "test", "-x", RBPROBE)
  end

  def teardown
    @attackers.each(&:kill)
    # What is looked for behind this is what targets and rbprobe leave.
    remove_queues_of(*@attackers.map(&:user) - @targets.map { |target| owner_of("/proc/#{target.pid}") } - [0])
    super
  ensure
    @users.each { |user| forget(user) }
  end

  # The number of a user whom no process belongs to, now and until the end of the test.
  def user
    taken = Dir.glob("/proc/[0-9]*").map { |path| owner_of(path) } + @users
    free = USERS.to_a.rotate(Process.pid * 7 % USERS.size).find { |number| !taken.include?(number) }
    free.tap { |number| @users << number }
  end

  # A program of that user, in the background. command: what root runs in front of it.
  def start_as(user, *arguments, command: [])
    Attacker.new(user, arguments, command).tap { |attacker| @attackers << attacker }
  end

  # The same until it ends: what it said, and how it ended.
  def run_as(user, *command)
    start_as(user, *command).wait
  end

  # rbprobe, run by that user.
  def rbprobe_as(user, *arguments)
    rbprobe(*arguments.map(&:to_s), command: SecurityTest.as(user))
  end

  # An attacker's program: tests/security/NAME.c is build/security/NAME, which `make security-programs` makes.
  def program(name)
    path = "#{BUILD}/security/#{name}"
    assert File.executable?(path), "#{path} is missing: make security-programs"
    path
  end

  # How often an attack that races is tried.
  def tries(number)
    (number * TRIES).ceil
  end

  # What is random is the same with the same RBPROBE_SEED; which one it was is said when the block fails.
  def with_seed
    seed = Integer(ENV.fetch("RBPROBE_SEED", Random.new_seed % 1_000_000))
    yield seed
  rescue Minitest::Assertion => e
    raise e.class, "#{e.message}\n(RBPROBE_SEED=#{seed})"
  end

  # System V queues, as the kernel lists them.
  SystemQueue = Struct.new(:key, :id, :mode, :uid, :cuid)

  def system_queues
    File.readlines("/proc/sysvipc/msg").drop(1).map(&:split).map do |fields|
      SystemQueue.new(fields[0].to_i & 0xffffffff, fields[1].to_i, fields[2].to_i(8), fields[7].to_i, fields[9].to_i)
    end
  end

  private

  def remove_queues_of(*users)
    system_queues.each { |queue| Ipc.remove(queue.id) if users.include?(queue.cuid) }
  end

  def owner_of(path)
    File.stat(path).uid
  rescue Errno::ENOENT, Errno::ESRCH
    nil
  end

  # Until none is left: one may be forking meanwhile.
  def forget(user)
    wait_until("the processes of user #{user} are gone") do
      pids = Dir.glob("/proc/[0-9]*").select do |path|
        owner_of(path) == user && Processes.status_of(File.basename(path), "State") !~ /\AZ/
      end
      pids.each { |path| Process.kill(:KILL, Integer(File.basename(path))) rescue nil }
      pids.empty?
    end
    remove_queues_of(user)
    Dir.children("/tmp").each { |name| FileUtils.rm_rf("/tmp/#{name}") if (File.lstat("/tmp/#{name}").uid rescue nil) == user }
  end
end
