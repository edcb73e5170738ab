# Command lines of the README, the guide and the manual: rbprobe takes each of them.

require_relative "helper"
require_relative "terminal"
require "open3"

class DocumentationTest < LiveTest
  PAGES = ["README.md", "doc/guide.md", "doc/engines.md", "doc/loading.md", *Dir.glob("man/*.1", base: Processes::ROOT)].freeze
  NOBODY_HAS = "4194304" # no PID: Linux has smaller ones
  NOBODY_RUNS = "a program of nobody's" # not the servers of others, which may run here
  # What stands in a line for something of the reader's. SELECTOR and the like may have "..." after them.
  PLACEHOLDERS = { "PID" => NOBODY_HAS, "SELECTOR" => "String#gsub", "CODE" => "1", "FILE" => "file", "COMMAND" => "true",
                   "LIST" => "sql", "WORD" => "no such program", "SEC" => "1" }.freeze

  def text_of_manual(line)
    line.gsub(/\\\(dq/, '"').gsub(/\\&/, "").gsub(/\\e/, "\\").gsub(/\\-/, "-")
  end

  # Whole lines of examples, and what stands in running text, which is but a part of one at times.
  def lines_of(page)
    text = File.read("#{Processes::ROOT}/#{page}")
    if page.end_with?(".1")
      shown = text.gsub(/\\e\n/, " ").scan(/^(?:\.Dl )?\$ (.*)$/).flatten.map { |line| text_of_manual(line) }
      return [shown, []]
    end
    blocks = text.scan(/^```(sh|console)\n(.*?)^```/m).flat_map do |kind, block|
      kind == "sh" ? block.lines(chomp: true) : block.scan(/^\$ (.*)$/).flatten
    end
    [blocks, text.gsub(/^```.*?^```/m, "").scan(/`(rbprobe [^`\n]+)`/).flatten]
  end

  # A word, what separates commands, a redirection, or a comment.
  WORD = /(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|\$\([^)]*\)|[^\s'"\\|;&<>])+/.freeze
  TOKEN = /\s(?<comment>#\s.*)\z|(?<separator>[|;&]+)|(?<redirection>\d?[<>]+\s*#{WORD})|(?<word>#{WORD})/.freeze

  # The words of each rbprobe in a line of the shell.
  def commands_in(line)
    commands = [[]]
    line.scan(TOKEN) do
      found = Regexp.last_match
      commands << [] if found[:separator]
      commands.last << Shellwords.split(found[:word].gsub(/\$\([^)]*\)/, "1")).join if found[:word]
    end
    commands.map { |words| words.drop_while { |word| word == "do" } }
            .select { |words| words.first&.match?(%r{\A(?:build/)?rbprobe\z}) }
            .map { |words| words.drop(1).map { |word| in_place_of(word) } }.reject(&:empty?)
  end

  def in_place_of(word)
    PLACEHOLDERS.fetch(word.delete_prefix("[").sub(/(\.\.\.)?\]?\z/, ""), word)
  end

  # None of the processes is there, and nothing is started.
  def aimed_at_nobody(words)
    words = words.take_while { |word| word != "--" } + %w[-- true] if words.include?("--")
    words = words.dup
    words.each_index do |i|
      words[i] = "-p" if words[i] == "--wait"
      words[i] = { "-p" => NOBODY_HAS, "--ps" => NOBODY_RUNS }.fetch(words[i - 1], words[i]) if i.positive?
    end
    words[1] = NOBODY_HAS if words[0] == "bt" && words[1]&.match?(/\A\d+\z/)
    words
  end

  def run_in(place, words)
    Open3.capture3({ "PAGER" => "cat" }, "timeout", "20", Processes::RBPROBE, *words, stdin_data: "", chdir: place)
  end

  def place
    directory.tap { |path| File.write("#{path}/shop.tracer", "#: The shop\n#:library shop\nCart#add(sku, by sku: sku)\n") }
  end

  test "every example is a command line that rbprobe takes" do
    seen = 0
    place = self.place
    PAGES.each do |page|
      lines_of(page).first.flat_map { |line| commands_in(line) }.uniq.each do |words|
        next if %w[--version ps extension-dir selftest].include?(words.first)

        _, err, status = run_in(place, aimed_at_nobody(words))
        what = "#{page}: rbprobe #{Shellwords.join(words)}\n#{err}"
        seen += 1
        refute_equal 124, status.exitstatus, what
        next if err.match?(/needs a terminal|cannot (open|read) .*: No such file|No such file or directory/)

        refute_equal 2, status.exitstatus, what
        assert_match(/no process|process #{NOBODY_HAS}|no program|matches/, err, what) if words.include?("-p")
      end
    end
    assert_operator seen, :>, 100
  end

  test "no text names a subcommand or an option that there is not" do
    place = self.place
    PAGES.flat_map { |page| lines_of(page).last }.uniq.each do |line|
      commands_in(line).each do |words|
        # "rbprobe end" is a mark in a heap dump.
        next if %w[ps extension-dir selftest top end].include?(words.first)

        _, err, = run_in(place, aimed_at_nobody(words))
        refute_match(/has no option|no subcommand/, err, line)
      end
    end
  end

  # The shop of the examples, and its visitors. The guide's has a server around it; what it shows of that is not looked at here.
  SHOP = <<~RUBY
    load "#{Processes::ROOT}/tests/apps/demo/shop.rb"
    Thread.new do
      add = lambda do |sku, count|
        cart = Cart.new(Catalogue.new)
        cart.add(sku, count) rescue next
        JSON.generate({total: cart.total}, nil)
      end
      loop do
        # What takes longest here does so, too, where each call takes some milliseconds more.
        4.times { JSON.generate(Catalogue.new.search("cup").map(&:to_h), nil) }
        [["tea", 3], ["tea", 2], ["whisk", 1], ["pot", 1]].each { |sku, count| add.(sku, count) }
        # Some CPU time is to be seen in each second.
        20_000.times { Cart }
        sleep 0.05
      end
    end.name = "puma srv tp 001"
    nil
  RUBY

  # What the examples show of the shop alone, with their commands: those that end by themselves, and are about no server.
  EXAMPLES = ["README.md", "doc/guide.md"].flat_map { |page|
    File.read("#{Processes::ROOT}/#{page}").scan(/^```console\n(.*?)^```/m).flatten.flat_map do |block|
      block.split(/^\$ /).drop(1).map { |example| [page, *example.split("\n", 2)] }
    end
  }.select { |_, command, _|
    command.match?(/\Arbprobe (methods|(trace|stat) .*--(duration|count)) .*(Cart|Catalogue|shop\.rb)/) &&
      command.include?("-p 10626") && !command.match?(/Session|Shop#|__source__|--stack/)
  }.freeze

  # Threads and servers are those of the example; numbers are any.
  def comparable(text)
    text.lines.map { |line| line.chomp.gsub(%r{/srv/shop/|#{Processes::ROOT}/tests/apps/demo/}, "") }
        .map { |line| line.gsub(/\d+(\.\d+)?([num]?s\b)?/, "N").squeeze(" ").strip }
        .map { |line| line.sub(/\bN call,/, "N calls,").sub(/; N more ha(s|ve) not ended/, "") }
  end

  def missing_in(printed, shown)
    comparable(shown).reject { |line| line.empty? || line.end_with?("...") || line.start_with?("[thread") } - printed
  end

  test "the examples of the README and the guide print what they show" do
    only_with_gems("sinatra/base")
    target = start("console")
    target.run(SHOP)
    assert_operator EXAMPLES.size, :>, 8
    EXAMPLES.each do |page, command, shown|
      words = commands_in(command).first.map { |word| word == "10626" ? target.pid.to_s : word }
      out = err = missing = nil
      # Which of the visitors' calls comes first is chance.
      (words.include?("--count") ? 20 : 1).times do
        out, err, = Open3.capture3({ "NO_COLOR" => "1" }, "timeout", "60", Processes::RBPROBE, *words, stdin_data: "")
        missing = missing_in(comparable("#{out}#{err}"), shown)
        break if missing.empty?
      end
      assert_empty missing, "#{page}: #{command}\n#{out}#{err}"
    end
  end

  # What else the examples do to a process, or to the files of examples before it. Time is dear.
  RECIPES = ["README.md", "doc/guide.md"].flat_map { |page|
    File.read("#{Processes::ROOT}/#{page}").scan(/^```(sh|console)\n(.*?)^```/m).flat_map do |kind, block|
      lines = kind == "sh" ? block.lines(chomp: true) : block.scan(/^\$ (.*)$/).flatten
      lines.grep(/\Arbprobe (bt|top|memory|heap|record|replay|report|profile|export) /).map { |line| [page, line] }
    end
  }.reject { |_, line|
    line.match?(/--(children|ps|last|wait|retainers|leak|group|app|otlp)\b| -- |slow\.rec|before\.rec|3\.json|22389/) ||
      # An older Ruby does not tell what its threads do.
      (line.match?(/--timeline|web\.rec/) && !Processes.target_ruby?(">= 3.2"))
  }.freeze
  SHORT = { "--duration" => "1", "--interval" => "0.2", "--every" => "0.2", "--allocations" => "0.5" }.freeze

  def shortened(words, pid)
    words.each_index.map do |i|
      before = i.positive? ? words[i - 1] : ""
      next pid.to_s if before == "-p"

      SHORT.key?(before) && words[i].match?(/\A\d/) ? SHORT[before] : words[i]
    end
  end

  def shown_by_top(words, pid)
    terminal = Terminal.new(shortened(words, pid), columns: 120)
    @tracers << terminal
    terminal.expect(/\d[num]?s  [A-Z][\w:]*[#.]\w/)
    terminal.type("q")
    [terminal.wait, terminal.text]
  end

  # What each is to show of the shop, or nothing where it writes a file.
  SHOWN = {
    "bt" => /^thread .*"puma srv tp 001"/, "memory" => /^GC +\d+ runs/,
    "profile" => /(SELF|BYTES|WAITED) +TOTAL|has the profile|no thread waited/,
    "top" => %r{calls/s}, "report" => /Catalogue#|METHOD/, "export" => /^.*;.* \d+$/
  }.freeze

  test "the recipes of top, bt, memory, heap, record and profile run, and show the process" do
    only_with_gems("sinatra/base")
    target = start("console")
    target.run(SHOP)
    place = directory
    assert_equal %w[bt export heap memory profile record replay report top], RECIPES.map { |_, line| line.split[1] }.uniq.sort
    RECIPES.uniq.each do |page, line|
      words = commands_in(line).first
      status, text = shown_by_top(words, target.pid) if words[0] == "top"
      unless status
        out, err, ended = run_in(place, shortened(words, target.pid))
        status = ended.exitstatus
        text = "#{out}#{err}"
      end
      assert_equal 0, status, "#{page}: #{line}\n#{text}"
      pattern = words[0] == "heap" && words[1] == "report" ? /^By type/ : SHOWN[words[0]]
      pattern = nil if words[0] == "export" && words.include?("-o")
      assert_match pattern, text, "#{page}: #{line}" if pattern
    end
    assert_operator Dir.children(place).size, :>=, 4
  end
end
