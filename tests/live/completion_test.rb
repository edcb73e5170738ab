# Completion by shells: everything that --help lists, and what the options take. bash, zsh and fish themselves ask for it.

require_relative "helper"

class CompletionTest < LiveTest
  SCRIPTS = "#{Processes::ROOT}/completion".freeze
  SUBCOMMANDS = IO.popen([Processes::RBPROBE, "--help"], &:read).scan(/^  (\w[\w-]*)/).flatten.freeze
  PARSERS = (SUBCOMMANDS - ["heap"]).map { |name| [name] }.push(%w[heap dump], %w[heap report], %w[heap leak]).freeze

  PATH = "#{File.dirname(Processes::RBPROBE)}:#{ENV.fetch("PATH")}".freeze

  # What bash would complete: for each list of words one list of answers, by one shell.
  def bash(*lines)
    calls = lines.map do |words|
      quoted = ["rbprobe", *words].map { |word| Shellwords.escape(word) }.join(" ")
      "COMP_WORDS=(#{quoted}); COMP_CWORD=#{words.size}; _rbprobe; printf '%s\\n' \"${COMPREPLY[@]}\" .\n"
    end
    script = "source #{SCRIPTS}/rbprobe.bash\n#{calls.join}"
    answer = IO.popen([{ "PATH" => PATH }, "bash", "--norc", "-c", script], err: %i[child out], &:read)
    answer.split(/^\.\n/, -1)[0, lines.size].map { |lines_of_one| lines_of_one.split("\n").reject(&:empty?) }
  end

  def help(words)
    IO.popen([Processes::RBPROBE, *words, "--help"], &:read).gsub(/\|\n +/, "|") # words that did not fit one line
  end

  # Its options as --help has them: the letter or nil, the name, and what it takes or nil.
  def options(words)
    help(words).scan(/^ +(?:-(\S), +)?--([a-z][a-z-]*)(?:\[?=(\S+?)\]?)?(?=\s)/).uniq { |_, name| name }
  end

  test "the subcommands, their other names, and their verbs" do
    first, help, verbs, one = bash([""], ["help", ""], ["heap", ""], ["tr"])
    assert_empty SUBCOMMANDS - first
    assert_includes first, "bt"
    assert_empty SUBCOMMANDS - help
    assert_equal %w[dump report leak --help], verbs
    assert_equal %w[trace tracers], one
  end

  test "every option, long and short, of every subcommand" do
    PARSERS.each do |words|
      all = options(words)
      assert_operator all.size, :>=, 2, words
      dash, = bash([*words, "-"])
      assert_equal all.flat_map { |letter, name,| [letter && "-#{letter}", "--#{name}"] }.compact.sort, dash.sort, words
      answers = bash(*all.map { |_, name,| [*words, "--#{name}"] })
      all.zip(answers) { |(_, name, _), answer| assert_includes answer, "--#{name}" }
    end
  end

  test "the words that an option takes, each of which it does take" do
    PARSERS.each do |words|
      options(words).each do |_, name, argument|
        next unless argument&.match?(%r{\A[a-z][a-z0-9./|]*\|[a-z0-9./|]+\z})

        choices = argument.split("|")
        assert_equal [choices, choices], bash([*words, "--#{name}", ""], [*words, "--#{name}", "="]), name
        choices.each { |choice| refute_match(/takes/, rbprobe(*words, "--#{name}=#{choice}").stderr) }
      end
    end
  end

  test "a value in every spelling" do
    assert_equal [%w[json], %w[json], %w[--format=json], %w[json], %w[patch]],
                 bash(%w[trace --format j], %w[trace --format = j], %w[trace --format=j], %w[trace --form j],
                      %w[exec -yn --engine p])
    assert_equal [%w[cpu,gc], %w[cpu alloc gc span], %w[cpu,alloc cpu,gc cpu,span], []],
                 bash(%w[trace --measure cpu,g], ["trace", "--measure", ""], %w[trace --measure cpu,], ["trace", "--slow", ""])
    # What is optional stands in the same word.
    assert_equal [%w[-p]], bash(["trace", "--stack", ""])
  end

  test "the PIDs of Ruby processes" do
    target = start("shop")
    pid = target.pid.to_s
    answers = bash(["trace", "-p", ""], ["bt", "--pid", "=", ""], ["trace", "-p", "1,"], ["trace", "-p#{pid}"],
                   ["eval", "-qp", pid])
    assert_includes answers[0], pid
    assert_includes answers[1], pid
    assert_includes answers[2], "1,#{pid}"
    assert_includes answers[3], "-p#{pid}"
    assert_equal [pid], answers[4]
    other = spawn("sleep", "60")
    refute_includes bash(["trace", "-p", ""]).first, other.to_s
  ensure
    if other
      Process.kill(:KILL, other)
      Process.wait(other)
    end
  end

  test "files and programs" do
    File.write("#{site = directory}/dump.json", "")
    expected = ["#{site}/dump.json"]
    start = "#{site}/du"
    assert_equal [expected] * 5,
                 bash(["heap", "report", start], ["trace", "-o", start], ["eval", "--file", start],
                      ["exec", "x", "--", "ruby", start], ["trace", "--output", "=", start])
    assert_includes bash(["exec", "sleep", "--", "/usr/bin/en"]).first, "/usr/bin/env"
  end

  test "where there is nothing to complete, nothing is" do
    assert_equal [[], [], [], []],
                 bash(["nonsense", ""], ["trace", "-p", "1", "Order"], ["trace", "--nonsense="], ["heap", "nonsense", ""])
  end

  # Types into a shell until it has printed what is expected.
  def typed(command, line, expected)
    require_relative "terminal"
    PTY.spawn({ "PATH" => PATH, "TERM" => "dumb", "HOME" => directory, "PS1" => "> " }, *command) do |reader, writer, pid|
      seen = +""
      read = -> { seen << reader.read_nonblock(65_536, exception: false).to_s.delete_prefix("wait_readable") }
      yield writer
      writer.puts "echo r''eady"
      Processes.wait_until(-> { "the shell is ready: #{seen}" }) { read.call.include?("ready") }
      writer.write line
      Processes.wait_until(-> { "it completes: #{seen.inspect}" }) { read.call.match?(expected) }
      Process.kill(:KILL, pid)
    end
  end

  test "bash" do
    typed(%w[bash --norc --noprofile -i], "rbprobe sta\t--form\t=js\t", /rbprobe stat --format =?json/) do |writer|
      writer.puts "source #{SCRIPTS}/rbprobe.bash"
    end
  end

  test "zsh" do
    skip "needs zsh" unless system("command -v zsh >/dev/null")
    typed(%w[zsh -f -i], "rbprobe trace --form\t", /trace [ \b]*--format/) do |writer|
      writer.puts "fpath=(#{SCRIPTS} $fpath); autoload -Uz compinit; compinit -u -D"
    end
  end

  test "fish" do
    skip "needs fish" unless system("command -v fish >/dev/null")
    answers = ["tra", "trace --engine p", "trace --engine=p", "heap du"].map do |line|
      IO.popen([{ "PATH" => PATH, "HOME" => directory }, "fish", "-N", "-c",
                "source #{SCRIPTS}/rbprobe.fish; complete -C 'rbprobe #{line}'"], &:read).scan(/^[^\t\n]+/)
    end
    assert_equal [%w[trace tracers], %w[patch], %w[--engine=patch], %w[dump]], answers
  end

  test "fish: every option of every subcommand" do
    skip "needs fish" unless system("command -v fish >/dev/null")
    asked = PARSERS.map { |words| "complete -C 'rbprobe #{words.join(" ")} --'; echo ." }
    script = ["source #{SCRIPTS}/rbprobe.fish", *asked].join("\n")
    answers = IO.popen([{ "PATH" => PATH, "HOME" => directory }, "fish", "-N", "-c", script], &:read).split(/^\.\n/)
    PARSERS.zip(answers) do |words, answer|
      assert_equal options(words).map { |_, name,| "--#{name}" }.sort, answer.scan(/^--[a-z-]+/).sort, words
    end
  end
end
