# rbprobe record -- COMMAND: a command that is started, and recorded from its first line on.

require_relative "helper"

class RecordCommandTest < LiveTest
  def program(text)
    directory, site = directory_of_target
    File.chmod(0o755, directory)
    File.write("#{directory}/program.rb", text)
    "#{site}/program.rb"
  end

  test "a command is recorded from its first line on, and its output and status are its own" do
    file = "#{directory}/calls.rec"
    text = "def very_first(n); n; end\n3.times { |i| very_first(i) }\nputs :out\nexit 7\n"
    result = launch("record", "-o", file, "very_first(n)", "--", *Processes::RUBY, program(text), env: Processes::TARGET_ENV).wait
    assert_exit 7, result
    assert_equal "out\n", result.stdout
    assert_match(/calls\.rec has [\d.]+ \w+; `rbprobe replay \S+calls\.rec` shows it$/, result.stderr)
    replayed = rbprobe("replay", file)
    assert_equal %w[0 1 2], replayed.stdout.scan(/very_first\(n=(\d)\)/).flatten
    assert_match(/ended: /, replayed.stderr)
  end

  test "a command that cannot be run" do
    result = rbprobe("record", "-o", "#{directory}/calls.rec", "x", "--", "/nowhere/ruby")
    assert_exit 127, result
    assert_match(%r{/nowhere/ruby.*No such file}, result.stderr)
  end

  test "either processes, or a command" do
    assert_refused 2, /record needs -p PID .*, or a command after --/, "record", "-o", "/dev/null", "x"
    assert_refused 2, /takes processes, or a command after -- that it starts, not both/,
                   "record", "-p", $$.to_s, "-o", "/dev/null", "x", "--", "true"
  end
end
