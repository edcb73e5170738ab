# rbprobe exec: a command that is traced from its program's first line on.

require_relative "helper"

class ExecTest < LiveTest
  # A program with that text, for the target's Ruby.
  def program(text)
    directory, site = directory_of_target
    File.chmod(0o755, directory)
    File.write("#{directory}/program.rb", text)
    "#{site}/program.rb"
  end

  # Runs it under `rbprobe exec`.
  def traced(text, *arguments, options: [], **settings)
    file = "#{directory}/trace"
    result = launch("exec", "-o", file, *options, *arguments, "--", *Processes::RUBY, program(text),
                    env: Processes::TARGET_ENV, **settings).wait
    [result, File.exist?(file) ? File.read(file).gsub(/<\d+\.\d{6}>/, "<time>") : ""]
  end

  test "calls of the program's first lines are seen, and its output and status are its own" do
    result, tree = traced("def very_first; end\nvery_first\nputs :out\nexit 7\n", "very_first")
    assert_exit 7, result
    assert_equal "out\n", result.stdout
    assert_match(/\A\S*very_first <time>\n\z/, tree)
  end

  test "a class that does not exist yet when the program begins" do
    _, tree = traced("class Job; def work(n); n; end; end\n3.times { |i| Job.new.work(i) }\n", "Job#work(n)")
    assert_equal "Job#work(n=0) <time>\nJob#work(n=1) <time>\nJob#work(n=2) <time>\n", tree
  end

  test "arguments, standard input and environment reach the program" do
    reader, writer = IO.pipe
    writer << "hello"
    writer.close
    result, = traced("p $stdin.read, ENV['GREETING']\n", "nothing", stdin: reader,
                     env: Processes::TARGET_ENV.merge("GREETING" => "hi"))
    assert_equal "\"hello\"\n\"hi\"\n", result.stdout
  end

  test "the program's own children are not made to wait" do
    result, = traced("system(RbConfig.ruby, '-e', 'puts 1')\nputs 2\n", "nothing")
    assert_equal "1\n2\n", result.stdout
    assert_operator result.seconds, :<, 8 * Processes::PATIENCE
  end

  test "a program that raises" do
    result, tree = traced("def fail_here; raise 'no'; end\nfail_here\n", "fail_here")
    assert_exit 1, result
    assert_match(/fail_here ! RuntimeError: no <time>/, tree)
    assert_match(/no \(RuntimeError\)/, result.stderr)
  end

  test "a command that does not exist" do
    result = rbprobe("exec", "x", "--", "/nowhere/ruby")
    assert_exit 127, result
    assert_match(%r{/nowhere/ruby.*No such file}, result.stderr)
  end

  test "a command that is not Ruby" do
    result = rbprobe("exec", "--timeout", "1", "x", "--", "true")
    assert_match(/ended (without having loaded|while rbprobe was attaching)/, result.stderr)
    assert_exit 3, result
  end

  test "a signal to rbprobe reaches the program" do
    launched = launch("exec", "-q", "nothing", "--", *Processes::RUBY,
                      program("trap('TERM') { exit 9 }; puts :up; $stdout.flush; sleep"), env: Processes::TARGET_ENV)
    launched.wait_for("up\n")
    launched.signal(:TERM)
    assert_exit 9, launched.wait
  end
end
