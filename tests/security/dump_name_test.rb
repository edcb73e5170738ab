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
    assert_match(/\Arbprobe: .*fifo is a FIFO of another user \(\d+\), who would get the dump; name another file with -o\n\z/,
                 result.stderr)
    File.chown(0, -1, fifo)
    dump = launch("heap", "dump", "-p", target.pid.to_s, "-o", fifo)
    assert reader.wait_readable(30)
    dump.kill
  ensure
    reader&.close
  end

  test "a stranger's link is not followed, wherever it leads, and what is there stays as it is" do
    target = start("shop", user: user)
    stranger = user
    place = open_directory
    link = "#{place}/dump.json"
    ours = directory
    File.write("#{ours}/kept", "kept")
    disk = make_device("#{ours}/disk", "b")
    ["/dev/null", "#{ours}/kept", "#{ours}/missing", disk].each do |leads_to|
      File.symlink(leads_to, link)
      File.lchown(stranger, stranger, link)
      assert_refused_dump(/cannot write to .*dump\.json: dump\.json is a link of another user \(#{stranger}\), who/, target, link)
      assert_equal leads_to, File.readlink(link)
      File.unlink(link)
    end
    # Also above the name.
    File.symlink(ours, "#{place}/above")
    File.lchown(stranger, stranger, "#{place}/above")
    assert_refused_dump(/above is a link of another user/, target, "#{place}/above/kept")
    assert_equal %w[disk kept], Dir.children(ours).sort
    assert_equal "kept", File.read("#{ours}/kept")
  end

  test "a stranger's link is not followed by trace -o either; one's own is, where it leads somewhere" do
    target = start("shop", user: user)
    stranger = user
    link = "#{open_directory}/calls"
    kept = "#{directory}/kept"
    File.write(kept, "kept")
    options = ["trace", "-q", "-p", target.pid.to_s, "--duration", "0.01", "-o", link, "Shop#price"]
    File.symlink(kept, link)
    File.lchown(stranger, stranger, link)
    result = rbprobe(*options)
    assert_exit 1, result
    assert_match(/\Arbprobe: cannot write to .*calls: calls is a link of another user \(#{stranger}\), who/, result.stderr)
    assert_equal "kept", File.read(kept)
    File.lchown(0, 0, link)
    assert_exit 0, rbprobe(*options)
    assert_equal "", File.read(kept)
    File.unlink(kept)
    result = rbprobe(*options)
    assert_exit 1, result
    assert_match(/calls: it is a link that leads nowhere\n\z/, result.stderr)
  end

  test "a file or FIFO that a stranger has made where all may make files is not written to by trace -o" do
    target = start("shop", user: user)
    stranger = user
    place = open_directory
    File.write("#{place}/file", "theirs")
    File.mkfifo("#{place}/fifo")
    reader = File.open("#{place}/fifo", File::RDONLY | File::NONBLOCK)
    %w[file fifo].each do |name|
      path = "#{place}/#{name}"
      File.chown(stranger, stranger, path)
      result = rbprobe("trace", "-q", "-p", target.pid.to_s, "--duration", "0.01", "-o", path, "Shop#price")
      assert_exit 1, result
      assert_match(/\Arbprobe: cannot write to .*#{name}: another user \(#{stranger}\) has made it, in a directory for all, /,
                   result.stderr)
    end
    assert_equal "theirs", File.read("#{place}/file")
    # In a directory of one's own it can only be there on purpose.
    ours = "#{directory}/file"
    File.write(ours, "")
    File.chown(stranger, stranger, ours)
    assert_exit 0, rbprobe("trace", "-q", "-p", target.pid.to_s, "--duration", "0.01", "-o", ours, "Shop#price")
  ensure
    reader&.close
  end

  test "one's own link is followed to a pipe, and replaced where it leads to a file" do
    target = start("shop", user: user)
    place = open_directory
    kept = "#{directory}/kept"
    File.write(kept, "kept")
    File.symlink(kept, "#{place}/dump.json")
    assert_exit 0, rbprobe("heap", "dump", "-q", "-p", target.pid.to_s, "-o", "#{place}/dump.json")
    assert_equal "file", File.ftype("#{place}/dump.json")
    assert_equal 0o600, File.stat("#{place}/dump.json").mode & 0o777
    assert_equal "kept", File.read(kept)
    File.symlink("/dev/null", "#{place}/null")
    assert_exit 0, rbprobe("heap", "dump", "-q", "-p", target.pid.to_s, "-o", "#{place}/null")
    assert_equal "link", File.ftype("#{place}/null")
    %w[/dev/stdout /proc/self/fd/1].each do |name|
      result = rbprobe("heap", "dump", "-q", "-p", target.pid.to_s, "-o", name)
      assert_exit 0, result
      assert_match(/\A{.*}\n\z/m, result.stdout)
    end
    # Whatever standard output is, its name is not replaced.
    result = rbprobe("heap", "dump", "-q", "-p", target.pid.to_s, "-o", "/proc/self/fd/1",
                     command: ["sh", "-c", "\"$@\" > '#{place}/out'", "sh"])
    assert_exit 0, result
    assert_match(/\A{.*}\n\z/m, File.read("#{place}/out"))
  end

  test "no disk and no device that does something is written to" do
    target = start("shop", user: user)
    disk = make_device("#{directory}/disk", "b")
    device = make_device("#{directory}/device", "c")
    assert_refused_dump(/disk is a block device, and a dump would destroy what is on it; name a file with -o/, target, disk)
    assert_refused_dump(/device is a device; a dump goes to files, pipes, terminals and .dev.null; name/, target, device)
    assert_refused_dump(/cannot write to .*: Is a directory/, target, directory)
    assert_refused_dump(/cannot write to .*: Is a directory/, target, "#{directory}/")
  end

  test "links that change places lead to no file of root's" do
    target = start("shop", user: user)
    stranger = user
    place = directory.tap { |path| File.chown(stranger, stranger, path) }
    kept = "#{directory}/kept"
    File.write(kept, "kept", perm: 0o600)
    run_as(stranger, "ln", "-s", "/dev/null", "#{place}/dump.json")
    run_as(stranger, "ln", "-s", kept, "#{place}/other")
    swapper = start_as(stranger, program("swap_names"), "#{place}/dump.json", "#{place}/other")
    swapper.expect("ready")
    tries(5).times { assert_refused_dump(/is a link of another user/, target, "#{place}/dump.json") }
    # One name of a file of the stranger's, and one of a link: the dump takes the place of whichever is there.
    swapper.kill
    File.unlink("#{place}/dump.json")
    run_as(stranger, "touch", "#{place}/dump.json")
    start_as(stranger, program("swap_names"), "#{place}/dump.json", "#{place}/other").expect("ready")
    tries(10).times do
      result = rbprobe("heap", "dump", "-q", "-p", target.pid.to_s, "-o", "#{place}/dump.json")
      assert_match(/\A(|.* is a link of another user .*\n)\z/, result.stderr)
    end
    assert_equal "kept", File.read(kept)
  end

  private

  # In which everybody may make files, as in /tmp.
  def open_directory
    directory.tap { |path| File.chmod(0o1777, path) }
  end

  # One that no driver has.
  def make_device(path, type)
    skip "devices cannot be made here" unless system("mknod", path, type, "240", "0", err: File::NULL)
    path
  end

  def assert_refused_dump(why, target, path)
    result = rbprobe("heap", "dump", "-p", target.pid.to_s, "-o", path)
    assert_exit 1, result
    assert_equal 1, result.stderr.lines.size
    assert_match(/\Arbprobe: .*#{why}/, result.stderr)
  end
end
