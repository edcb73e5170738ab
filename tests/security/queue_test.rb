# The command queue: whoever can write into a process's queue runs code as its user. So another user's queue must never be
# taken for it, whatever its key, owner and time say; nor may one keep anybody from attaching.

require_relative "helper"
require "socket"

class QueueTest < SecurityTest
  PIDS_AHEAD = 400

  def setup
    super
    @victim = user
    @stranger = user
  end

  # What the attacker's code does, if it runs.
  def with_loot
    Dir.mktmpdir do |path|
      File.chmod(0o777, path)
      yield "#{path}/loot"
    end
  end

  # A socket of the victim's to which anybody may connect, as many services have one.
  def with_a_service
    Dir.mktmpdir do |path|
      File.chmod(0o755, path)
      FileUtils.chown(@victim, @victim, path)
      service = start_as(@victim, RbConfig.ruby, "-rsocket", "-e", <<~'RUBY', "#{path}/s")
        $stdout.sync = true
        server = UNIXServer.new(ARGV[0])
        puts "ready"
        connections = []
        loop { connections << server.accept }
      RUBY
      service.expect("ready")
      yield "#{path}/s"
    end
  end

  def forge(pids, socket, loot, *how)
    attacker = start_as(@stranger, program("forge_queue"), @victim, pids.first, pids.size, socket,
                        "File.write(#{loot.dump}, Process.uid.to_s)", *how)
    attacker.expect(/\Aready: [1-9]/)
    attacker
  end

  def last_pid
    File.read("/proc/loadavg").split.last.to_i
  end

  test "a forked child takes no commands out of a queue that was waiting for it" do
    with_loot do |loot|
      with_a_service do |socket|
        target = start("shop", user: @victim)
        forge((last_pid + 1..last_pid + PIDS_AHEAD), socket, loot)
        forked_in_reach(target) do |child|
          # Several jobs have come and gone when this is answered: each iteration takes interrupts.
          assert_equal "200", child.call("200.times { sleep 0.005 }"), "the child"
        end
        refute_path_exists loot
        assert_equal "500", target.run("Shop.new.price(:apple)")
      end
    end
  end

  test "a process that a client attaches to takes no commands out of a stranger's queue, and the client gets on" do
    with_loot do |loot|
      with_a_service do |socket|
        target = start("shop", user: @victim)
        forge(target.pid..target.pid, socket, loot)
        [[], SecurityTest.as(@victim)].each do |as_whom|
          result = rbprobe("eval", "-p", target.pid.to_s, "6 * 7", command: as_whom)
          assert_exit 0, result
          assert_equal "42\n", result.stdout.sub(/\A=> /, "")
          refute_path_exists loot
        end
      end
    end
  end

  test "queues that come and go under the target's key while clients attach" do
    with_loot do |loot|
      with_a_service do |socket|
        target = start("shop", user: @victim)
        forge(target.pid..target.pid, socket, loot, "anew")
        tries(20).times do |index|
          result = rbprobe("eval", "-p", target.pid.to_s, index.to_s, command: index.odd? ? [] : SecurityTest.as(@victim))
          assert_exit 0, result
          assert_includes result.stdout, index.to_s
        end
        refute_path_exists loot
      end
    end
  end

  test "a stranger's questions to the signal handler have no answer" do
    Dir.mktmpdir do |path|
      File.chmod(0o777, path)
      target = start("shop", user: @victim)
      forge(target.pid..target.pid, "#{path}/nobody", "#{path}/loot")
      queue = system_queues.find { |found| found.cuid == @stranger }
      question = start_as(@stranger, program("ask_handler"), queue.id, "#{path}/s")
      question.expect("asked")
      # Its answer would come before that of the job, for which the same signal asks.
      assert_exit 0, rbprobe_as(@victim, "eval", "-p", target.pid, "1")
      assert_equal "no answer\n", question.wait.first
    end
  end

  # In an IPC namespace with a limit of its own.
  QUEUES = 40
  LIMITED = ["unshare", "--ipc", "sh", "-c", "echo #{QUEUES} > /proc/sys/kernel/msgmni && exec \"$@\"", "sh"].freeze

  test "a user who makes all the queues there can be is named" do
    target = start("shop", user: @victim, wrapper: LIMITED)
    attacker = start_as(@stranger, program("forge_queue"), @victim, target.pid, QUEUES, "/nowhere", "1",
                        command: ["nsenter", "-t", target.pid.to_s, "-i"])
    attacker.expect("ready: #{QUEUES}")
    result = rbprobe("eval", "-p", target.pid.to_s, "--timeout", "2", "--no-load", "1",
                     command: ["nsenter", "-t", target.pid.to_s, "-i", *SecurityTest.as(@victim)])
    assert_exit 3, result
    assert_match(/all #{QUEUES} System V queues .* exist, #{QUEUES} of them user #{@stranger}'s; remove/, result.stderr)
    # Root removes the one under the target's key, and so makes room.
    assert_exit 0, rbprobe("eval", "-p", target.pid.to_s, "1")
  end

  private

  # A child of the target whose PID the attacker has guessed; yields what runs code in it.
  def forked_in_reach(target)
    target.run(<<~'RUBY')
      def fork_console
        orders, $orders = IO.pipe
        $answers, answers = IO.pipe
        $child = fork do
          while (line = orders.gets)
            answers.puts(eval(line.chomp.undump).inspect)
          end
        end
      end
    RUBY
    10.times do
      child = target.adopt(target.run("fork_console"))
      if system_queues.any? { |queue| queue.key == Leftovers.queue_key(child) && queue.cuid == @stranger }
        yield ->(code) { target.run("$orders.puts(#{code.dump.dump}); $answers.gets.chomp").undump }
        return
      end
      target.run("Process.kill(:KILL, $child); Process.wait($child)")
    end
    flunk "the attacker guessed no PID"
  end
end
