# A client that lies, as the target's own user: whatever comes through the queue and over the socket, the target goes on,
# and is as it was afterwards.
#
# RBPROBE_LIES is how many seconds each of them takes.

require_relative "helper"

class LyingClientTest < SecurityTest
  SECONDS = Integer(ENV.fetch("RBPROBE_LIES", "4"))

  { "at rest" => nil,
    "at work" => "$worker = Thread.new { loop { Shop.new.sell_all(%i[tea milk]); sleep 0.0005 } }; 0" }.each do |what, code|
    test "random commands, malformed messages, replayed nonces and halves, while the target is #{what}" do
      owner = user
      target = start("shop", user: owner)
      target.run(code) if code
      wait_until("its bell thread has its name") { threads_named(target).include?("rbprobe-bell") }
      before = belongings_of(target)
      with_seed { |seed| lie_to(target, owner, seed) }
      end_copies_of(owner)
      wait_until(-> { "it has #{before} again, not #{belongings_of(target)}: #{threads_named(target)}" }, 20) {
        before == belongings_of(target)
      }
      assert_equal "500", target.run("Shop.new.price(:apple)")
      result = rbprobe_as(owner, "eval", "-p", target.pid, "6 * 7")
      assert_exit 0, result
      assert_includes result.stdout, "42"
    end
  end

  private

  # How many descriptors, and threads but the one that waits for a ring.
  def belongings_of(target)
    [descriptors_of(target.pid), (threads_named(target) - ["rbprobe-bell"]).size]
  end

  def threads_named(target)
    Dir.glob("/proc/#{target.pid}/task/*/comm").map { |path| File.read(path).chomp }
  rescue Errno::ENOENT, Errno::ESRCH
    retry if target.alive?
  end

  # A command may have become FORK on its way, whose copies stay until somebody ends them.
  def end_copies_of(owner)
    Dir.glob("/proc/[0-9]*").each do |path|
      if owner_of(path) == owner && Processes.status_of(File.basename(path), "Name") == "rbprobe-frozen"
        Process.kill(:KILL, Integer(File.basename(path)))
      end
    rescue Errno::ESRCH
      next
    end
  end

  def lie_to(target, owner, seed)
    path = directory
    FileUtils.chown(owner, owner, path)
    said, = run_as(owner, program("lying_client"), target.pid, path, seed, SECONDS)
    assert target.alive?, "the target is gone: #{target.stderr[..3000]}"
    assert_match(/\A[1-9]\d* rounds, [1-9]/, said)
  end
end
