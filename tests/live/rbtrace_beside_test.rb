# The examples of rbtrace's README and --help, and each of its options, walked through with the real rbtrace beside ours. Tables
# say what is the same, and what is not because rbtrace is wrong: rbtrace(1) lists that.

require_relative "helper"
require_relative "rbtrace_runs"

class RbtraceBesideTest < LiveTest
  include RbtraceRuns

  REAL = "/usr/bin/rbtrace".freeze

  def setup
    super
    skip "NOT COMPARED: rbtrace is that of the host's Ruby" unless Processes::RUBY == ["ruby"] && Processes::TARGET_ENV.empty?
    unless File.executable?(REAL) && system("ruby", "-e", 'require "rbtrace"', err: File::NULL)
      skip "NOT COMPARED: the real rbtrace is missing (apt-get install ruby-rbtrace)"
    end
    only_root_with_a_nobody
  end

  # --- Each has a target of its own: with both extensions in one process it would be another program. The real one changes
  # kernel.msgmnb if it may, and removes queues: it and its target are another user's, with queues of their own.

  def real_target(*arguments, beside: nil)
    start("stretch", *arguments, load: false, user: 65_534, ruby_options: ["-rrbtrace"],
                                 wrapper: beside ? into_queues_of(beside) : %w[unshare --ipc --])
      .tap { |target| target.expects_stderr = true }
  end

  def our_target(*arguments)
    start("stretch", *arguments, user: 65_534)
  end

  def into_queues_of(target)
    ["nsenter", "--ipc=/proc/#{target.pid}/ns/ipc", "--"]
  end

  def real_command(target)
    [*into_queues_of(target), *NOBODY, "env", "HOME=/tmp", REAL]
  end

  def our_command
    [*NOBODY, @rbtrace]
  end

  # What a row's arguments stand for: words in capitals.
  def filled(arguments, target, place)
    words = {"PID" => target.pid.to_s, "LIST" => "#{place}/list", "FILE" => "#{place}/file"}
    arguments.map { |argument| argument.gsub(/\b(#{words.keys.join("|")})\b/) { |word| words[word] } }
  end

  # rbtrace has no such option.
  def real_arguments(arguments)
    arguments.reject { |argument| argument =~ /\A--(yes|max-overhead|inspect)/ }
  end

  # A directory of the user's, with a list of selectors in it.
  def place
    @place ||= directory.tap do |path|
      File.write("#{path}/list", "# what sleeps\n\n  Kernel#sleep\nDir.pwd \n")
      FileUtils.chown_R(65_534, 65_534, path)
    end
  end

  # Both in the same manner: [theirs, ours]. Without -p the process is not named.
  def both(arguments, code)
    pair = [[real_target(0.02, *code), true], [our_target(0.02, *code), false]]
    pair.map do |target, real|
      words = filled(real ? real_arguments(arguments) : arguments, target, place)
      yield real ? real_command(target) : our_command, words, target
    end
  end

  def said(result)
    mask(result.stderr).lines.grep(/\A\*\*\* (?!run )/).join
  end

  # --- Traces: what is called; the line with which a round begins; code for the rounds, if they are not README's

  TRACES = [
    ["a method by its name", %w[-m sleep], /^Kernel#sleep/],
    ["one method of two that are named", %w[--methods Kernel#sleep], /^Kernel#sleep/],
    ["everything", %w[--firehose --yes --max-overhead=0], /^Kernel#proc/],
    ["specific methods", %w[-m sleep Dir.chdir Dir.pwd Process.pid String#gsub String#*], /^Dir.chdir$/],
    ["with starting times", %w[-t -m sleep Dir.chdir Dir.pwd], /^\S+ Dir.chdir$/],
    ["with starting times, in full", %w[--start-time --methods sleep Dir.chdir Dir.pwd], /^\S+ Dir.chdir$/],
    ["with another prefix", %w[-r 5 -m sleep Dir.chdir Dir.pwd], /^Dir.chdir$/],
    ["with another prefix, in full", %w[--prefix=1 -m sleep Dir.chdir Dir.pwd], /^Dir.chdir$/],
    ["letters that stand together", %w[-tr 3 -m sleep Dir.chdir Dir.pwd], /^\S+ Dir.chdir$/],
    ["without durations", %w[--no-duration -m String#stretch String#gsub], /^  String#gsub/],
    ["slow calls", %w[--slow=15], /^  Kernel#sleep/],
    ["slow calls, by the letter, with starting times", %w[-s 15 -t], /^\S+   Kernel#sleep/],
    ["slow calls beside all calls of a method", %w[--slow=15 -m Dir.pwd], /^Dir.pwd/],
    ["slow calls beside all calls in a list", %w[--slow=15 -c LIST], /^Dir.pwd/],
    ["slow calls of one method beside all calls of others", %w[-m Dir.pwd String#gsub --slow=15 -w Kernel#sleep], /^Dir.pwd/],
    ["slow methods", %w[--slow=15 --slow-methods Kernel#sleep Dir.pwd], /^Kernel#sleep/],
    ["slow methods without slow calls", %w[-w Kernel#sleep -m Dir.pwd], /^Dir.pwd/],
    ["computing calls", %w[--slowcpu=15 --slow-methods Shop#compute Shop#add], /^Shop#compute/,
     "shop.compute(8_000_000); shop.add(1)"],
    ["computing calls, by the letter", %w[-l 15 -w Shop#compute Kernel#sleep], /^Shop#compute/,
     "shop.compute(8_000_000); sleep 0.02"],
    ["all of a module", %w[-m Kernel# --yes], /^Kernel#proc/],
    ["all singleton methods of a module", %w[-m Dir.], /^Dir.chdir/],
    ["values and expressions", ["-m", "String#gsub(self, @seen)", "String#*(self, __source__)",
                                "String#stretch(self, self.length, times)"], /^String#stretch\(/],
    ["values of Ruby methods", ["-m", "Shop.open(name, size)", "Shop#add(item, rest, key, @total, @none, self.total + 1)"],
     /^Shop.open/, "Shop.open('tea'); shop.add('tea', 1, [2], key: :k)"],
    ["objects, by their inspect", ["-m", "Shop#add(self, item, [self])", "--inspect"], /^Shop#add/, "shop.add(shop)"],
    ["a list that rbtrace has", %w[-c io], /^IO#write/,
     "null.write('x'); IO.select(nil, nil, nil, 0.001); File.read('/dev/null')"],
    ["a file with a list", %w[--config LIST], /^Dir.pwd/],
    ["several lists", %w[-c LIST io], /^Dir.pwd/],
    ["a list of a library that is not there", %w[-c redis -m sleep], /^Kernel#sleep/],
    ["classes that are reloaded", %w[-d -m sleep], /^Kernel#sleep/],
    ["classes that are reloaded, in full", %w[--devmode --methods sleep], /^Kernel#sleep/],
    ["more patience", %w[-u 9 -m sleep], /^Kernel#sleep/],
    ["more patience, in full", %w[--timeout=9 --methods sleep], /^Kernel#sleep/],
    ["collections beside calls", %w[-g -m Dir.pwd], /^Dir.pwd/],
  ].freeze

  TRACES.each do |name, arguments, first, code|
    test "as rbtrace: #{name}" do
      (expected, real), (shown, mine) = both(arguments, code) do |command, words, target|
        rounds_seen(command, first, "-p", target.pid, *words)
      end
      assert_equal expected, shown
      assert_equal said(real), said(mine)
      assert_equal [0, 0], [real.status, mine.status]
    end
  end

  # --- Into files

  def files_of(pids)
    pids.to_h { |pid| [pid, (File.read("#{place}/file#{".#{pid}" if pids.size > 1}") rescue "")] }
  end

  # The file of each process, and what was said.
  def into_files(command, targets, *options)
    pids = targets.map(&:pid)
    result = until_seen(command, "-p", *pids, "-m", "sleep", "-o", "#{place}/file", *options) do
      files_of(pids).values.all? { |text| text.scan(/Kernel#sleep <.*>\n/).size > 3 }
    end
    assert_equal "", result.stdout
    files_of(pids).values.map { |text| mask(text).lines.uniq.grep_v(/\AKernel#sleep\n/) } +
      said(result).lines.grep_v(/waiting on child tracers/)
  end

  [[1, []], [1, ["-a"]], [2, []], [1, ["--append"]]].each do |count, options|
    test "as rbtrace: #{count} file#{"s" if count > 1} with -o #{options.first}" do
      runs = [true, false].map do |real|
        File.write("#{place}/file", "of before\n")
        FileUtils.chown(65_534, 65_534, "#{place}/file")
        targets = [real ? real_target : our_target]
        targets << (real ? real_target(beside: targets.first) : our_target) if count > 1
        into_files(real ? real_command(targets.first) : our_command, targets, *options)
      end
      assert_equal(*runs)
    end
  end

  # --- What ends by itself

  # Until it ends; one that does not is ended by Ctrl-C after a while, and then by force.
  def run_to_its_end(command, words)
    out, err = output_file("rbtrace-stdout"), output_file("rbtrace-stderr")
    pid = Process.spawn(*command, *words, in: File::NULL, out: out.path, err: err.path, pgroup: true, chdir: place)
    @others << pid
    status = nil
    wait_until("#{words} ends", 30) { (status = Process.wait2(pid, Process::WNOHANG)&.last) }
    @others.delete(pid)
    Result.new(File.read(out.path), File.read(err.path), status.exitstatus || -status.termsig, 0)
  end

  ONCE = [
    ["a value", ["-p", "PID", "-e", "1 + 1"]],
    ["a value, in full", ["--pid", "PID", "--eval", "'hello'.stretch(2)"]],
    ["a value that is a collection", ["-p", "PID", "-e", "{a: [1, nil, :b], 'c' => 1.5..2}"]],
    ["a value of several lines", ["-p", "PID", "-e", "a = 1\na.to_s + \"\\n\""]],
    ["an exception", ["-p", "PID", "-e", "raise ArgumentError, 'no'"]],
    ["a process that does not exist", %w[-p 4194303 -f]],
    ["no number", %w[-p x -f]],
    ["nothing to do", %w[-p PID]],
    ["a slow method without slow calls", %w[-p PID -w sleep]],
    ["an option that does not exist", %w[-p PID -f --nonsense]],
    ["a list that does not exist", %w[-p PID -c /nowhere]],
    ["a process of another user", %w[-p 1 -f]],
  ].freeze

  ONCE.each do |name, arguments|
    test "as rbtrace: #{name}" do
      real, mine = both(arguments, nil) { |command, words| run_to_its_end(command, words) }
      assert_equal real.stdout, mine.stdout
      assert_equal said(real), said(mine)
      assert_equal real.status, mine.status
      refute_equal "", mine.stderr
    end
  end

  # --- What is different, and why: rbtrace is wrong. The words of the reason stand in rbtrace(1).

  MAN = File.read("#{ROOT}/man/rbtrace.1")[/^\.Sh DIFFERENCES$.*?(?=^\.Sh )/m].gsub(/^\.\S+ ?/, "").gsub(/\s+/, " ")

  def assert_listed(reason)
    assert MAN.include?(reason), "rbtrace(1) does not list: #{reason}"
  end

  # Traces: name, arguments, the line with which a round begins, code for the rounds, what becomes of rbtrace's text, the reason.
  TRACED_OTHERWISE = [
    ["-n hides durations", %w[-n -m String#stretch String#gsub], /^  String#gsub/, nil,
     ->(text) { text.gsub(/ <time>/, "") }, "n hides durations; with rbtrace the letter does nothing, only the long option"],
    ["-f leaves out what would leave the process slower", %w[-f], /^Kernel#proc/, nil,
     ->(text) { text.gsub(/^ *Float#.*\n/, "") },
     "Methods that can only be traced at the cost of a slower process are left out"],
    ["the end of a call after a slow one has its name", %w[--slow=15 -m Dir.chdir], /^Dir.chdir$/, nil,
     ->(text) { text.gsub(/^ <time>/, "Dir.chdir <time>") },
     "rbtrace prints only the duration there if a slow call came between"],
    ["__source__ is where a Ruby method was called", ["-m", "Shop#add(__source__)"], /^Shop#add/, "\n\nshop.add(1)",
     ->(text) { text.sub(/="[^"]*stretch.rb:\d+"/, '="(eval):3"') },
     "of a method written in Ruby rbtrace prints where it was defined"],
    ["objects are shown without their inspect", ["-m", "Shop#add(self)"], /^Shop#add/, "shop.add(1)",
     ->(text) { text.sub("#<Shop:0x @total=7>", "#<Shop>") }, "so no code of the application runs inside its own calls"],
    ["each collection has its line", %w[-g -m Dir.pwd], /^Dir.pwd/, "GC.start; Dir.pwd",
     ->(text) { "#{text}garbage_collect <time>\n" }, "while rbtrace shows none"],
    ["Shop. is Shop's own methods", %w[-m Dir.pwd Shop.], /^Dir.pwd/, "Dir.pwd; Shop.open('tea')",
     ->(text) { text.sub(/^Shop.open\n  Class#new <time>\n/, "").gsub("\n\n", "\n") },
     "under the names of these classes"],
  ].freeze

  TRACED_OTHERWISE.each do |name, arguments, first, code, change, reason|
    test "not as rbtrace: #{name}" do
      assert_listed(reason)
      (theirs,), (shown,) = both(arguments, code) do |command, words, target|
        rounds_seen(command, first, "-p", target.pid, *words)
      end
      refute_equal theirs, shown, "rbtrace does it right: move this to the examples"
      assert_equal change.(theirs), shown
    end
  end

  test "not as rbtrace: what matches no method is named" do
    assert_listed("What matches no method is named; rbtrace is silent")
    real, mine = both(%w[-m Dir.pwd Nowhere#none], nil) do |command, words, target|
      until_seen(command, "-p", target.pid, *words) { |out, _| out.include?("Dir.pwd") }
    end
    refute_match(/Nowhere/, real.stderr)
    assert_match(/^rbprobe: process \d+: no method matches Nowhere#none yet \(waiting for it\)$/, mine.stderr)
  end

  # What ends by itself: name, arguments, what rbtrace writes (both streams) and its exit status, the same of ours, reason.
  OTHERWISE = [
    ["-b has the application's threads alone", %w[-p PID -b], [/\A"eval:\d+:in.*eval_context.*"$/m, 0],
     [/\A\S+stretch.rb:\d+:in `[^"]*\z/, 0], "rbtrace's has those of its own thread, in the quotes of a string"],
    ["--backtraces of so many frames", %w[-p PID --backtraces 1], [/\A"eval:\d+:in `join'/, 0],
     [/\A\S+stretch.rb:\d+:in `[^\n]+'\n[^\n]*attached/, 0], "rbtrace's has those of its own thread, in the quotes of a string"],
    ["a number right behind its letter", %w[-p PID -b1], [/unknown argument '-1'/, 255], [/\A\S+stretch.rb:/, 0],
     "A value may stand right behind its letter"],
    ["--backtrace is of the main thread", %w[-p PID --backtrace 3], [/\Aeval:\d+:in.*eval_and_inspect'$/m, 0],
     [/\A(\s*\S+stretch.rb:\d+:in .*\n){3}/, 0], "rbtrace prints frames of its own thread"],
    ["what evaluated code prints comes to who asked", ["-p", "PID", "-e", "puts 7"], [/\A>> puts 7\n=> nil\n/, 0],
     [/\A7\n>> puts 7\n=> nil\n/, 0], "with rbtrace it goes to the application's own output"],
    ["code with a mistake is named", ["-p", "PID", "-e", "1 +"], [/\(ArgumentError\)$.*cli\.rb/m, 1],
     [/the code is not valid Ruby$/, 1], "Code with a syntax error is one message; rbtrace ends with an exception of its own"],
    ["the copy stands still", %w[-p PID -k], [/busy looping copy at \d+/, 0], [/frozen copy at \d+/, 0],
     "rbtrace's computes for ever"],
    ["shapes are in the heap dump", %w[-p PID --shapesdump FILE], [/unknown argument '--shapesdump'/, 255],
     [/\AShapes dump being written to \S+file\n.*\d lines/m, 0], "Shapes are in the dump where this Ruby has them"],
    ["a console works", %w[-p PID -i], [/NoMethodError/, 1], [/\A\z/, 0], "rbtrace's ends with an exception"],
    ["memory is told from outside", %w[-p PID -y], [/\AGC Stats$/, 0], [/^memory +\d/, 0],
     "rbtrace's is counted by Ruby code in the process, which counts itself"],
    ["a process is missing", %w[-m sleep], [/NoMethodError/, 1], [/--pid is missing/, 255],
     "Where the process is not named, rbtrace ends with an exception"],
    ["no process has that in its command line", %w[--ps surely-not-there -f], [/could not find any processes/, 1],
     [/no Ruby process has/, 255], "the status is 255 there, too; rbtrace's is 1"],
    ["a command that is started and traced", ["-m", "sleep", "--exec", "ruby", "-e", "2.times { sleep 0.3 }"],
     [/cannot load such file|not listening/, 255], [/\AKernel#sleep <[\d.]+>\nKernel#sleep <[\d.]+>\n/, 0],
     "rbtrace loses the first calls, or does not find itself"],
    ["by its letter", ["-m", "sleep", "-x", "ruby", "-e", "2.times { sleep 0.3 }"],
     [/spawned child \d+: "ruby"$/, 255], [/\AKernel#sleep <[\d.]+>\nKernel#sleep <[\d.]+>\n/, 0],
     "x takes only the first word of the command"],
    ["version", %w[-v], [/version 0\.4/, 0], [/by rbprobe [\d.]+, with the command line of rbtrace 0\.5/, 0],
     "v says that it is rbprobe"],
  ].freeze

  # With rbtrace it is so where the process has required objspace, and only some time later.
  [%w[-p PID -h FILE], %w[-p PID --heapdump]].each do |arguments|
    test "not as rbtrace: a heap dump is there, with #{arguments.drop(2).join(" ")}" do
      assert_listed("rbtrace's may be empty or missing")
      lines = both(arguments, nil) do |command, words|
        result = run_to_its_end(command, words)
        assert_equal 0, result.status, result.stderr
        file = result.stdout[%r{\AHeapdump being written to (/\S+)\n\z}, 1]
        (File.foreach(file).count rescue 0).tap { FileUtils.rm_f(file) }
      end
      assert_equal 0, lines.first
      assert_operator lines.last, :>, 5000
    end
  end

  def end_copies(result)
    result.stderr.scan(/copy at (\d+)/) { |pid,| Process.kill(:KILL, pid.to_i) }
  end

  OTHERWISE.each do |name, arguments, theirs, mine, reason|
    test "not as rbtrace: #{name}" do
      assert_listed(reason)
      results = both(arguments, nil) do |command, words|
        run_to_its_end(command, words).tap { |result| end_copies(result) }
      end
      results.zip([theirs, mine]) do |result, (pattern, status)|
        assert_match pattern, result.stdout + result.stderr
        assert_equal status, result.status
      end
      refute_match theirs.first, results.last.stdout + results.last.stderr
    end
  end
end
