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
    # Ruby writes it in parts, between which rbprobe may say something.
    assert_match(/no.*\(RuntimeError\)/m, result.stderr)
  end

  test "a command that does not exist" do
    result = rbprobe("exec", "x", "--", "/nowhere/ruby")
    assert_exit 127, result
    assert_match(%r{/nowhere/ruby.*No such file}, result.stderr)
  end

  test "a command that is not Ruby" do
    result = rbprobe("exec", "--timeout", "1", "x", "--", "true")
    assert_match(/ended without having loaded the rbprobe extension \(is it Ruby/, result.stderr)
    assert_exit 3, result
  end

  test "a signal to rbprobe reaches the program" do
    launched = launch("exec", "-q", "nothing", "--", *Processes::RUBY,
                      program("trap('TERM') { exit 9 }; puts :up; $stdout.flush; sleep"), env: Processes::TARGET_ENV)
    launched.wait_for("up\n")
    launched.signal(:TERM)
    assert_exit 9, launched.wait
  end

  # The same for a program that reads a line each time it may go on: when the trace has what a pattern says.
  def traced_in_steps(text, *arguments, steps:, options: [])
    file = "#{directory}/trace"
    reader, writer = IO.pipe
    launched = launch("exec", "-o", file, *options, *arguments, "--", *Processes::RUBY, program(text),
                      env: Processes::TARGET_ENV, stdin: reader)
    steps.each do |step|
      wait_until(-> { "the trace has #{step.inspect}: #{launched.stderr}" }) { File.exist?(file) && step.match?(File.read(file)) }
      writer.puts
    end
    [launched.wait, File.read(file).gsub(/<\d+\.\d{6}>/, "<time>")]
  ensure
    [reader, writer].each(&:close)
  end

  # A program that does that work, and goes on behind it when it may.
  def working(number, behind = "")
    "def work(n); n; end\nwork(#{number})\n$stdin.gets\n#{behind}\n"
  end

  # The target's own Ruby, where it is for the target.
  def replaced_by(*words)
    "exec(#{words.map { |word| word == :ruby ? "RbConfig.ruby" : word.inspect }.join(", ")})"
  end

  def ruby(text)
    [:ruby, program(text)]
  end

  def numbers_of(tree)
    tree.scan(/work\(n=(\d)\) <time>$/).flatten
  end

  # It has called exec so often, and what came last exited.
  def assert_went_on(result, execs)
    assert_exit 0, result
    assert_equal execs, result.stderr.scan("the process called exec: what it did").size, result.stderr
    assert_match(/1 call, 0 lost, .* ended: the process exited$/, result.stderr)
    assert_operator result.seconds, :<, 4 * Processes::PATIENCE
  end

  test "Ruby that replaces itself by Ruby" do
    3.times do
      second = ruby(working(2, "puts :second"))
      result, tree = traced_in_steps(working(1, replaced_by(*second)), "work(n)", steps: [/n=1/, /n=2/])
      assert_equal "second\n", result.stdout
      assert_equal %w[1 2], numbers_of(tree), result.stderr
      assert_went_on(result, 1)
    end
  end

  test "Ruby that replaces itself at once is not held up" do
    result, = traced(replaced_by(*ruby("puts :second")), "work(n)")
    assert_exit 0, result
    assert_equal "second\n", result.stdout
    assert_match(/ended: the process exited$/, result.stderr)
    assert_operator result.seconds, :<, 4 * Processes::PATIENCE
  end

  test "three programs, one after the other, also through a shell" do
    third = ruby(working(3, "puts :third"))
    second = ["/bin/sh", "-c", 'exec "$@"', "sh", *ruby(working(2, replaced_by(*third)))]
    result, tree = traced_in_steps(working(1, replaced_by(*second)), "work(n)", steps: [/n=1/, /n=2/, /n=3/])
    assert_equal "third\n", result.stdout
    assert_equal %w[1 2 3], numbers_of(tree), result.stderr
    assert_equal 1, result.stderr.scan("ended: the process exited").size, result.stderr
    assert_operator result.stderr.scan("ended: the process called exec").size, :>=, 2, result.stderr
    assert_went_on(result, 2)
  end

  test "forks of the second program are followed, too" do
    second = ruby(working(2, "Process.wait(fork { work(3) })"))
    result, tree = traced_in_steps(working(1, replaced_by(*second)), "work(n)", steps: [/n=1/, /n=2/],
                                   options: %w[--follow-forks])
    assert_exit 0, result
    assert_equal %w[1 2 3], numbers_of(tree), result.stderr
    assert_equal 3, result.stderr.scan(/: 1 call, 0 lost/).size, result.stderr
  end

  test "a program that replaces itself by one that is no Ruby" do
    result, tree = traced_in_steps(working(1, replaced_by("/bin/sh", "-c", "sleep 0.5; exit 4")), "work(n)", steps: [/n=1/])
    assert_exit 4, result
    assert_equal %w[1], numbers_of(tree)
    assert_match(/^rbprobe: 1 call, 0 lost, .* the process called exec, unconfirmed: calls may be missing/, result.stderr)
    assert_match(/became by exec has ended without having loaded the rbprobe extension/, result.stderr)
    assert_operator result.seconds, :<, 4 * Processes::PATIENCE
  end

  test "of a program that is killed the exit status says by which signal" do
    { "KILL" => 137, "TERM" => 143 }.each do |signal, status|
      code = "def foo; end; foo; sleep #{Processes::PATIENCE}; Process.kill(:#{signal}, $$); sleep"
      assert_exit status, rbprobe("exec", "Object#foo", "--", *Processes::RUBY, "-e", code, env: Processes::TARGET_ENV)
    end
  end

  test "a forked process that replaces itself is not waited for" do
    text = working(1, <<~RUBY)
      reader, writer = IO.pipe
      child = fork { work(2); reader.gets; #{replaced_by("/bin/sleep", "60")} }
      $stdin.gets
      writer.puts
      puts child
    RUBY
    result, tree = traced_in_steps(text, "work(n)", steps: [/n=1/, /n=2/], options: %w[--follow-forks])
    Process.kill(:KILL, result.stdout.to_i)
    assert_exit 0, result
    assert_equal %w[1 2], numbers_of(tree), result.stderr
  end

  test "a program that closes the connection has called no exec" do
    close = "(3..4096).each { |n| IO.for_fd(n).close rescue nil }; sleep 3"
    result, = traced_in_steps(working(1, close), "work(n)", steps: [/n=1/])
    assert_match(/closed the connection without a word, though it still runs/, result.stderr)
    refute_match(/called exec/, result.stderr)
  end
end
