# Where a dump goes: it holds whatever the process holds, and another user may have made something of that name before.

require_relative "helper"

class DumpNameTest < SecurityTest
  test "a name that rbprobe has made takes the place of nothing" do
    target = start("shop", user: user)
    stranger = user
    place = directory.tap { |path| File.chmod(0o1777, path) }
    # For all names that it may choose in the time of the test.
    now = Time.now
    names = (0..90).map { |second| "#{place}/heap-#{target.pid}-#{(now + second).strftime("%Y%m%d-%H%M%S")}.json" }
    names.each do |name|
      File.mkfifo(name, 0o666)
      File.chmod(0o666, name)
      File.chown(stranger, stranger, name)
    end
    readers = names.map { |name| File.open(name, File::RDONLY | File::NONBLOCK) }
    result = rbprobe("heap", "dump", "-p", target.pid.to_s, command: ["env", "--chdir=#{place}"])
    assert_exit 1, result
    assert_match(/\Arbprobe: cannot write to heap-\d+-[\d-]+\.json: File exists; nothing was kept\n\z/, result.stderr)
    assert_equal [nil], readers.map { |reader| reader.read_nonblock(1, exception: false) }.uniq
  ensure
    readers&.each(&:close)
  end

  test "a stranger's FIFO is not written to, one's own is" do
    target = start("shop", user: user)
    fifo = "#{directory}/fifo"
    File.mkfifo(fifo, 0o666)
    reader = File.open(fifo, File::RDONLY | File::NONBLOCK)
    File.chown(user, -1, fifo)
    result = rbprobe("heap", "dump", "-p", target.pid.to_s, "-o", fifo)
    assert_exit 1, result
    assert_match(/\Arbprobe: .*fifo is a FIFO of another user \(\d+\), who would get the dump; name another file with -o\n\z/, result.stderr)
    File.chown(0, -1, fifo)
    dump = launch("heap", "dump", "-p", target.pid.to_s, "-o", fifo)
    assert reader.wait_readable(30)
    dump.kill
  ensure
    reader&.close
  end
end
