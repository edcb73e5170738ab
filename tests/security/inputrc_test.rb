# Readline's own file binds keys to text, which the console would run in the process: nobody else's is read. Nor does the pager
# read anything of another user's home.

require_relative "helper"
require_relative "../live/terminal"

class InputrcTest < SecurityTest
  BINDING = "\"z\": \"6 * 7\\r\"\n".freeze
  WARNING =
    /^rbprobe: \S+inputrc is not read: it, or a directory above it, is another user's or can be written to by others/.freeze

  def setup
    super
    @target = start("shop", user: user)
    @stranger = user
  end

  test "one's own file is obeyed" do
    home = directory
    write("#{home}/.inputrc")
    assert_obeyed("HOME" => home)
    assert_obeyed("INPUTRC" => "#{home}/.inputrc")
    File.rename("#{home}/.inputrc", "#{home}/real")
    File.symlink("#{home}/real", "#{home}/.inputrc")
    assert_obeyed("HOME" => home)
  end

  test "another user's home is not obeyed, as with sudo that keeps HOME" do
    home = directory
    File.chown(@stranger, @stranger, home)
    write("#{home}/.inputrc", @stranger)
    assert_not_obeyed("HOME" => home)
    # Nor what he has put there of root's, and it may be another file a moment later.
    write("#{home}/.inputrc", 0)
    assert_not_obeyed("HOME" => home)
    File.unlink("#{home}/.inputrc")
    refute_match(/inputrc/, console("HOME" => home, &:text))
  end

  test "another user's file, one that others may write, and another user's link are not obeyed" do
    place = directory.tap { |path| File.chmod(0o1777, path) }
    write("#{place}/inputrc", @stranger)
    assert_not_obeyed("INPUTRC" => "#{place}/inputrc")
    write("#{place}/other-inputrc", 0, 0o666)
    assert_not_obeyed("INPUTRC" => "#{place}/other-inputrc")
    write("#{place}/own-inputrc")
    File.symlink("#{place}/own-inputrc", "#{place}/link-inputrc")
    assert_obeyed("INPUTRC" => "#{place}/link-inputrc")
    File.lchown(@stranger, @stranger, "#{place}/link-inputrc")
    assert_not_obeyed("INPUTRC" => "#{place}/link-inputrc")
  end

  test "the pager has no home of another user's, in which less would find commands" do
    home = directory
    assert_equal "home=#{home},#{home}", home_of_pager(home)
    File.chown(@stranger, @stranger, home)
    assert_equal "home=none,none", home_of_pager(home)
  end

  private

  def home_of_pager(home)
    pager = "cat > /dev/null; echo home=${HOME-none},${XDG_CONFIG_HOME-none}"
    console("HOME" => home, "XDG_CONFIG_HOME" => home, "INPUTRC" => "/dev/null", "PAGER" => pager) do |terminal|
      terminal.enter("(1..400).map { |n| 'x' * 30 }")
      terminal.expect(/^#{@target.pid} main> \z/)[/^home=\S+/]
    end
  end

  def write(path, owner = 0, mode = 0o644)
    File.write(path, BINDING)
    File.chown(owner, owner, path)
    File.chmod(mode, path)
  end

  # A console at its first prompt.
  def console(environment)
    terminal = Processes::Terminal.new(["console", "-p", @target.pid.to_s, "--color", "never", "--no-history"],
                                       env: { "INPUTRC" => nil }.merge(environment))
    @tracers << terminal
    terminal.expect(/^#{@target.pid} main> \z/)
    yield(terminal).tap do
      terminal.type("\x04")
      assert_equal 0, terminal.wait
    end
  end

  def assert_obeyed(environment)
    console(environment) do |terminal|
      refute_match WARNING, terminal.text
      terminal.type("z")
      terminal.expect(/=> 42\n#{@target.pid} main> \z/)
    end
  end

  def assert_not_obeyed(environment)
    console(environment) do |terminal|
      assert_equal 1, terminal.text.scan(WARNING).size, terminal.text
      terminal.enter("z = 1")
      refute_match(/=> 42/, terminal.expect(/=> 1\n#{@target.pid} main> \z/))
    end
  end
end
