# The files that a process maps and executes are its own choice: root does not open them as root, and does not wait for them.

require_relative "helper"

class FilesTest < SecurityTest
  test "what took the place of a mapped file is not opened by ps" do
    liar = start_as(user, program("mapped_lie"), directory_of_all)
    liar.expect("ready")
    assert_includes rbprobe("ps").stdout, "mapped_lie"
    liar.say("how often?")
    liar.expect("0")
  end

  test "a file that the process may not read is not read for it" do
    place = directory_of_all
    liar = start_as(user, program("mapped_lie"), place)
    liar.expect("ready")
    { 0o644 => RUBY_VERSION, 0o600 => "?" }.each do |mode, version|
      FileUtils.cp(libruby, "#{place}/new")
      File.chmod(mode, "#{place}/new")
      File.rename("#{place}/new", "#{place}/libruby.so")
      assert_equal version, version_in_list(liar.pid), format("mode %o", mode)
    end
    # Not even one that it may read, where a link leads there: what is mapped is no link.
    File.symlink(libruby, "#{place}/new")
    File.rename("#{place}/new", "#{place}/libruby.so")
    assert_equal "?", version_in_list(liar.pid)
  end

  test "a file system that does not answer holds neither ps nor a native backtrace" do
    skip "needs /dev/fuse" unless File.exist?("/dev/fuse")
    libraries = directory_of_all
    FileUtils.cp(libruby, "#{libraries}/#{soname}")
    ruby = start_as(0, "unshare", "--mount", *SecurityTest.as(user), "env", "LD_LIBRARY_PATH=#{libraries}", RbConfig.ruby, "-e",
                    "$stdout.sync = true; puts :ready; gets; puts :stuck; 3.pow(7**60000, 11**60000)")
    ruby.expect("ready")
    assert_includes File.read("/proc/#{ruby.pid}/maps"), libraries
    hung = start_as(0, program("hung_mount"), ruby.pid, libraries)
    hung.expect("ready")
    ruby.say("go on")
    ruby.expect("stuck")
    assert_includes rbprobe("ps").stdout, "#{ruby.pid} "
    result = rbprobe("backtrace", "--timeout", "0.5", "-p", ruby.pid.to_s)
    assert_match(/file system that does not answer|no native/, result.stderr)
    assert_includes result.stdout, "native thread #{ruby.pid}"
  end

  # The process runs on with the library that it has mapped; what rbprobe reads has taken the place of that.
  test "unwind tables and symbols that are damaged cost frames, and nothing else" do
    libraries = directory_of_all
    library = "#{libraries}/#{soname}"
    whole = File.binread(libruby)
    FileUtils.cp(libruby, library)
    ruby = start_as(user, "env", "LD_LIBRARY_PATH=#{libraries}", RbConfig.ruby, "-e",
                    "$stdout.sync = true; puts :stuck; 3.pow(7**60000, 11**60000)")
    ruby.expect("stuck")
    assert_includes File.read("/proc/#{ruby.pid}/maps"), libraries
    with_seed do |seed|
      random = Random.new(seed)
      tries(10).times do |i|
        damaged = whole.dup
        # All over the file, and in its headers.
        (10**(1 + i % 4)).times { damaged.setbyte(random.rand(damaged.bytesize), random.rand(256)) }
        (i % 3 * 5).times { damaged.setbyte(random.rand(1024), random.rand(256)) }
        damaged = damaged[0, random.rand(damaged.bytesize)] if i % 5 == 4
        File.binwrite("#{libraries}/new", damaged)
        File.rename("#{libraries}/new", library)
        result = rbprobe("backtrace", "--timeout", "0.2", "-p", ruby.pid.to_s)
        assert_exit 0, result
        assert_includes result.stdout, "native thread #{ruby.pid}"
        refute_match(/Sanitizer|runtime error/, result.stderr)
      end
    end
  end

  private

  def libruby
    File.read("/proc/self/maps")[%r{/\S*/libruby\S*}] or skip "this Ruby has no libruby"
  end

  def soname
    File.basename(libruby).sub(/(\.so\.\d+\.\d+).*/, '\1')
  end

  def directory_of_all
    directory.tap { |path| File.chmod(0o777, path) }
  end

  def version_in_list(pid)
    rbprobe("ps").stdout.lines.find { |line| line.start_with?(format("%7d ", pid)) }.split[2]
  end
end
