# `rbprobe ps` looks at everybody's processes, and shows what they have chosen themselves.

require_relative "helper"

class ListTest < SecurityTest
  test "a directory's name, where a version is looked for, cannot command the terminal" do
    place = "#{directory_of_all}/ruby/3.\e[2J\e]0;title\a"
    FileUtils.mkdir_p(place)
    File.chmod(0o777, place)
    liar = start_as(user, program("mapped_lie"), place)
    liar.expect("ready")
    listed = rbprobe("ps").stdout
    refute_match(/[\e\a]/, listed)
    assert_match(/^ *#{liar.pid} +\d+ +\? +\? +/, listed)
  end

  test "files that do not answer hold it for some seconds a user, not a process" do
    skip "needs /dev/fuse" unless File.exist?("/dev/fuse")
    owner = user
    pids = Array.new(4) do |index|
      place = "#{directory_of_all}/#{index}".tap { |path| FileUtils.mkdir_p(path, mode: 0o777) }
      liar = start_as(0, "unshare", "--mount", *SecurityTest.as(owner), program("mapped_lie"), place)
      liar.expect("ready")
      start_as(0, program("hung_mount"), liar.pid, place).expect("ready")
      liar.pid
    end
    result = rbprobe("ps")
    assert_exit 0, result
    pids.each { |pid| assert_match(/^ *#{pid} +\d+ +\? /, result.stdout) }
    assert_match(/\Arbprobe: 4 looks at files of processes had no answer in time/, result.stderr)
  end

  test "processes with enormous memory maps hold it for some seconds a user, and are said to be missing" do
    target = start("shop", load: false)
    crowd = start_as(user, program("map_crowd"), 400, 65_000)
    crowd.expect("ready")
    result = rbprobe("ps")
    assert_exit 0, result
    assert_match(/^ *#{target.pid} .* loadable /, result.stdout)
    line = /\Arbprobe: (\d+) processes were not looked at, .* the first belongs to user #{crowd.user}\n\z/
    assert_match(line, result.stderr)
    assert_includes 1..401, result.stderr[line, 1].to_i
  end

  private

  def directory_of_all
    directory.tap { |path| File.chmod(0o777, path) }
  end
end
