# A process may have put its own code wherever rbprobe calls functions in it. It then harms itself, and nobody else.

require_relative "helper"

class FakeLibcTest < SecurityTest
  test "a descriptor that it names is not written to by root" do
    file = "#{directory_of_all}/root's"
    File.write(file, "precious")
    File.chmod(0o644, file)
    fake = start_fake("descriptor", file)
    result = rbprobe("load", "-p", fake.pid.to_s)
    assert_exit 3, result
    assert_equal 1, result.stderr.lines.size, result.stderr
    assert File.read(file) == "precious", "root has written to #{file}"
    # It was the process that was to write.
    fake.expect("w")
  end

  { "exec" => "a program that it becomes meanwhile is let go of as it is",
    "thread" => "the same by another thread than the one that was called" }.each do |deed, sentence|
    test sentence do
      victim = "#{directory_of_all}/victim"
      FileUtils.cp(program("exec_victim"), victim)
      File.chmod(0o4755, victim)
      fake = start_fake(deed, victim)
      result = rbprobe("load", "-p", fake.pid.to_s)
      assert_equal "user 0, 1 trapped, 0 blocked, policy 0", fake.hear
      assert_equal 0, fake.wait.last.exitstatus
      assert_exit 3, result
      assert_match(/\Arbprobe: process #{fake.pid} started another program meanwhile; try again\n\z/, result.stderr)
    end
  end

  test "code that does not end has no precedence" do
    fake = start_fake("spin", "-")
    loading = launch("load", "-p", fake.pid.to_s)
    wait_until("it is called") { Processes.clock_ticks_of(fake.pid) > 20 }
    # The fields from the state on: priority and policy are the 16th and the 39th.
    fields = File.read("/proc/#{fake.pid}/stat").split(") ").last.split
    assert_equal ["20", "0"], [fields[15], fields[38]]
    assert_exit 3, loading.wait
  end

  private

  def directory_of_all
    directory.tap { |path| File.chmod(0o777, path) }
  end

  def start_fake(deed, file)
    place = directory_of_all
    abi = RbConfig::CONFIG["ruby_version"]
    FileUtils.mkdir_p("#{place}/ruby/#{abi}")
    File.chmod(0o777, "#{place}/ruby/#{abi}")
    start_as(user, program("fake_libc"), place, abi, deed, file).tap do |fake|
      fake.expect("ready")
      wait_until("it waits") { Processes.status_of(fake.pid, "State") =~ /\AS/ }
    end
  end
end
