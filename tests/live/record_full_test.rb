# rbprobe record where the disk is full: it says so and ends, what was written can be read, and the target goes on.

require_relative "helper"

class RecordFullTest < LiveTest
  NO_SPACE = ": No space left on device; what came after that is not in it$".freeze
  CALLS = 20_000

  # In a mount namespace of its own: a file system of 64 KiB at that directory.
  def recorder_on_small_disk(target, directory, *arguments)
    mount = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=64k none "$0" && exec "$@"', directory]
    only_root
    only_where_namespaces_are_allowed(mount)
    launch("record", "-v", "-p", target.pid.to_s, "-o", "#{directory}/calls.rec", *arguments, "Shop#price(item)",
           command: mount).wait_until_armed
  end

  # It is gone with the recorder, but for whoever has it open.
  def opened(client, directory, name = "calls.rec")
    File.open("/proc/#{client.pid}/root#{directory}/#{name}", "rb")
  end

  # Values that do not pack.
  def fill(target)
    target.run("$filling = Thread.new { #{CALLS}.times { $shop.price(rand.to_s.to_sym) } }; nil")
  end

  def assert_unharmed(target)
    assert_equal CALLS.to_s, target.run("$filling.value")
    assert_attachable(target, "Shop#price")
    assert_equal "300", target.run("$shop.price(:tea)")
  end

  # One line for people, beside the last one of the trace.
  def assert_says_once(client, name, ended: "the output could not be written")
    result = client.wait
    assert_exit 1, result
    assert_equal 1, result.stderr.scan(/^rbprobe: cannot write to #{Regexp.escape(name)}#{NO_SPACE}/).size, result.stderr
    assert_match(/; ended: #{ended}$/, result.stderr)
    refute_includes result.stderr, "shows it"
  end

  test "where nothing can be written" do
    target = start("shop")
    # A block is written each second: it may fail before a call comes.
    client = launch("record", "-v", "-p", target.pid.to_s, "-o", "/dev/full", "Shop#price(item)")
    fill(target)
    assert_says_once(client, "/dev/full")
    assert_unharmed(target)
  end

  test "a disk that gets full has all up to the last whole block" do
    target = start("shop")
    path = directory
    client = recorder_on_small_disk(target, path)
    file = opened(client, path)
    # So that there is one, however many blocks the rest is.
    target.run("$shop.price(:tea)")
    wait_until("the first block is written") { rbprobe("replay", file.path).stdout.include?(":tea") }
    fill(target)
    assert_says_once(client, "#{path}/calls.rec")
    File.binwrite(cut = "#{directory}/cut.rec", file.read)
    assert_operator File.size(cut), :<=, 64 << 10
    result = rbprobe("replay", cut)
    assert_exit 0, result
    assert_match(/^Shop#price\(item=:tea\) <\d/, result.stdout)
    assert_equal result.stderr[/^rbprobe: (\d+) calls?, /, 1].to_i, result.stdout.scan(/^Shop#price\(/).size
    assert_match(/^rbprobe: #{cut} was cut short, at byte \d+: whoever wrote it was killed, or the disk was full$/, result.stderr)
    assert_exit 0, rbprobe("report", cut)
    assert_match(/; its end is missing$/, rbprobe("replay", "--info", cut).stdout)
    assert_unharmed(target)
  end

  test "a flight recorder, and one that rotates" do
    target = start("shop")
    path = directory
    client = recorder_on_small_disk(target, path, "--last", "60")
    fill(target)
    target.run("$filling.join; nil")
    client.signal(:INT)
    assert_says_once(client, "#{path}/calls.rec", ended: "interrupted")
    assert_unharmed(target)
    client = recorder_on_small_disk(target, path, "--rotate", "2", "--max-size", "48K")
    fill(target)
    assert_says_once(client, "#{path}/calls.rec")
    assert_unharmed(target)
  end
end
