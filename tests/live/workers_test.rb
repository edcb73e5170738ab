# Workers of a master that come and go while they are followed (--children), and a file for each process (%p in -o).

require_relative "helper"
require "socket"

class WorkersTest < LiveTest
  # A master that starts workers when it is told to, and waits for those that have ended.
  MASTER = <<~'RUBY'.freeze
    def hire; fork { trap(:TERM) { exit }; loop { "x".upcase; sleep 0.005 } }; end
    $workers = Array.new(2) { hire }
  RUBY

  def with_master
    @master = start("console")
    @workers = @master.run(MASTER).scan(/\d+/).map { |pid| @master.adopt(pid.to_i) }
    yield @master, @workers
  ensure
    @workers&.each { |pid| dismiss(pid) }
  end

  def hire
    @master.adopt(@master.run("hire").to_i).tap { |pid| @workers << pid }
  end

  def dismiss(pid, signal = :TERM)
    Process.kill(signal, pid)
    @master.run("Process.wait(#{pid}); 1") if @targets.include?(@master)
    @workers -= [pid]
  rescue Errno::ESRCH
    nil
  end

  def follow(command, *arguments)
    launch(command, "-p", @master.pid.to_s, "--children", *arguments, "String#upcase")
  end

  test "a worker that joins is traced, one that is killed is no failure, and the end of all is the end" do
    with_master do |master, workers|
      first, second = workers
      tracer = follow("trace")
      wait_until("both are traced") { workers.all? { |pid| tracer.stdout.include?("#{pid}: String#upcase") } }
      refute_match(/joined/, tracer.stderr)
      third = hire
      wait_until("the third is traced") { tracer.stdout.include?("#{third}: String#upcase") }
      assert_includes tracer.stderr, "rbprobe: worker #{third} joined\n"
      dismiss(first, :KILL)
      wait_until("the first has left") { tracer.stderr.include?("rbprobe: worker #{first} left\n") }
      assert_match(/^rbprobe: process #{first} was killed by signal 9 /, tracer.stderr)
      dismiss(second)
      wait_until("the second has left") { tracer.stderr.include?("rbprobe: worker #{second} left\n") }
      dismiss(third)
      wait_until("the third has left") { tracer.stderr.include?("rbprobe: worker #{third} left\n") }
      fourth = hire
      wait_until("the fourth is traced") { tracer.stdout.include?("#{fourth}: String#upcase") }
      dismiss(fourth)
      master.finish
      @targets.delete(master)
      assert_exit 0, tracer.wait
      assert_match(/^rbprobe: the process and all its workers have ended$/, tracer.stderr)
    end
  end

  test "--duration and --count are of all of them together" do
    with_master do
      result = follow("trace", "--count", "30").wait
      assert_exit 0, result
      assert_equal 30, result.stdout.scan("String#upcase").size
      assert_match(/; ended: --count reached$/, result.stderr)
      result = follow("stat", "--duration", "0.5", "--sum").wait
      assert_exit 0, result
      assert_match(/^2 processes, .* [1-9]\d* calls of 1 method/, result.stdout)
    end
  end

  test "figures of a worker that left are shown with the others'" do
    with_master do |_, workers|
      tracer = follow("stat", "-v")
      wait_until("both are counted") { tracer.stderr.scan("tracing 1 method").size == 2 }
      third = hire
      wait_until("the third has joined") { tracer.stderr.include?("worker #{third} joined") }
      dismiss(workers.first)
      wait_until("the first has left") { tracer.stderr.include?("worker #{workers.first} left") }
      result = tracer.stop
      assert_exit 0, result
      [*workers, third].each { |pid| assert_match(/^process #{pid}, .* [1-9]\d* calls? of 1 method/, result.stdout) }
    end
  end

  test "with --interval, one that is stopped holds up nobody, and is left out until it answers" do
    with_master do |_, workers|
      stopped, other = workers
      tracer = follow("stat", "--interval", "0.3", "--format", "json")
      rounds = ->(pid) { tracer.stdout.lines.grep(/\A{.*"interval":.*}\n/).grep(/"summary"/).grep(/"pid":#{pid}\b/) }
      wait_until("both are shown") { workers.all? { |pid| rounds.(pid).any? } }
      Process.kill(:STOP, stopped)
      wait_until("it is missed") { tracer.stderr.include?("rbprobe: process #{stopped} does not answer; until it does, ") }
      seen = rounds.(stopped).size
      others = rounds.(other).size
      wait_until("the other one is shown") { rounds.(other).size > others + 4 }
      assert_equal seen, rounds.(stopped).size
      assert_equal 1, tracer.stderr.scan("does not answer").size
      Process.kill(:CONT, stopped)
      wait_until("it is back") { rounds.(stopped).size > seen }
      assert_exit 0, tracer.stop
    ensure
      Process.kill(:CONT, stopped) if stopped
    end
  end

  test "recorded, each worker has a file of its own, which is appended to, and all of them have a limit" do
    with_master do |_master, workers|
      place = directory
      record = lambda do |size, *options|
        follow("record", "-v", "-a", "-o", "#{place}/x.%p", "--max-size", size, *options)
      end
      files = -> { workers.map { |pid| "#{place}/x.#{pid}" } }
      calls = lambda do |file|
        result = rbprobe("replay", "--format", "json", file)
        assert_exit 0, result
        result.events("call").map { |call| call["pid"] }
      end
      first = record.call("10M")
      wait_until("both have a file with calls") { files.call.all? { |file| File.size?(file) && calls.call(file).any? } }
      assert_exit 0, first.stop
      before = files.call.to_h { |file| [file, [File.binread(file), calls.call(file).size]] }
      second = record.call((files.call.sum { |file| File.size(file) } + 4096).to_s)
      result = second.wait
      assert_exit 0, result
      assert_match(/ended: --max-size reached$/, result.stderr)
      assert_operator before.keys.sum { |file| calls.call(file).size }, :>, before.values.sum(&:last)
      before.each do |file, (bytes, count)|
        assert_equal bytes, File.binread(file, bytes.size)
        assert_operator calls.call(file).size, :>=, count
        assert_equal [file[/\d+\z/].to_i], calls.call(file).uniq
      end
    end
  end

  test "children that are not Ruby are left out, which -v says" do
    with_master do |master, workers|
      other = master.run("spawn('exec sleep 100')").to_i
      tracer = follow("trace", "-v")
      wait_until("it is left out", 20) { tracer.stderr.include?("process #{other} is left out: it is not Ruby") }
      assert_exit 0, tracer.stop
      refute_match(/#{other} joined/, tracer.stderr)
      workers.each { |pid| assert_includes tracer.stdout, "#{pid}: String#upcase" }
    ensure
      master.run("Process.kill(:TERM, #{other}); Process.wait(#{other}); 1") if other
    end
  end

  def sockets_of(pid)
    Dir.glob("/proc/#{pid}/fd/*").map { |path| File.readlink(path) rescue "" }.grep(/\Asocket/)
  end

  test "nothing of a killed client stays in a worker" do
    with_master do |_, workers|
      tracer = follow("trace", "-v")
      third = hire
      wait_until("all are traced") { tracer.stderr.scan("tracing 1 method").size == 3 }
      tracer.signal(:KILL)
      tracer.wait
      pids = [*workers, third]
      wait_until("their writers are gone") { pids.all? { |pid| Processes.threads_of(pid) <= 3 } }
      wait_until("so are their sockets") { pids.all? { |pid| sockets_of(pid).empty? } }
      again = follow("trace", "--count", "6").wait
      assert_exit 0, again
    end
  end

  test "with %p each has a file of its own" do
    place = directory
    with_master do |_, workers|
      result = follow("trace", "--duration", "0.5", "-o", "#{place}/100%%-%p.txt").wait
      assert_exit 0, result
      assert_equal "", result.stdout
      assert_equal workers.map { |pid| "100%-#{pid}.txt" }.sort, Dir.children(place).sort
      workers.each { |pid| assert_match(/\A#{pid}: String#upcase/, File.read("#{place}/100%-#{pid}.txt")) }
      sizes = workers.map { |pid| File.size("#{place}/100%-#{pid}.txt") }
      assert_exit 0, follow("trace", "--duration", "0.3", "-a", "-o", "#{place}/100%%-%p.txt").wait
      workers.zip(sizes) { |pid, size| assert_operator File.size("#{place}/100%-#{pid}.txt"), :>, size }
      assert_exit 0, follow("stat", "--duration", "0.3", "--format", "json", "-o", "#{place}/stat-%p.json").wait
      workers.each { |pid| assert_equal pid, JSON.parse(File.read("#{place}/stat-#{pid}.json").lines.first)["pid"] }
    end
  end

  test "a name that says nothing clear is refused" do
    target = start("console")
    assert_refused 2, /\Arbprobe: -o knows %p, the PID, and %%, a %, but no other letter after a %: "a%d.txt"$/,
                   "trace", "-p", target.pid.to_s, "-o", "a%d.txt", "String#upcase"
    assert_refused 2, /\Arbprobe: --sum makes one table of all processes, which has no PID for the %p in -o$/,
                   "stat", "-p", target.pid.to_s, "--sum", "-o", "a%p.txt", "String#upcase"
    missing = "#{directory}/none"
    assert_refused 1, %r{\Arbprobe: cannot write to #{missing}/#{target.pid}: }, "trace", "-p", target.pid.to_s, "-o",
                   "#{missing}/%p", "String#upcase"
  end

  test "the workers of a Puma cluster, through a kill and a phased restart" do
    only_with_gems("puma")
    path, inside = directory_of_target
    File.write("#{path}/config.ru", "class Shop; def sell; 1; end; end\nrun ->(_) { [200, {}, [Shop.new.sell.to_s]] }\n")
    puma = start_beside(Processes::TARGET_ENV, *Processes::RUBY, "-I", "#{BUILD}/tracee", "-rrbprobe", "-S", "puma", "-w", "2",
                        "-b", "unix://#{inside}/socket", "#{inside}/config.ru")
    ask = -> { (UNIXSocket.open("#{path}/socket") { |io| io.write("GET / HTTP/1.0\r\n\r\n"); io.read }) rescue nil }
    workers = -> { File.read("/proc/#{puma}/task/#{puma}/children").split.map(&:to_i) }
    wait_until("it serves") { ask.() && workers.().size == 2 }
    tracer = launch("trace", "-p", puma.to_s, "--children", "Shop#sell")
    seen = ->(pid) { ask.(); tracer.stdout.include?("#{pid}: Shop#sell") }
    old = workers.()
    old.each { |pid| wait_until("worker #{pid} is traced") { seen.(pid) } }
    Process.kill(:KILL, old.first)
    wait_until("there is another") { (workers.() - old).size == 1 }
    other = (workers.() - old).first
    wait_until("that is traced", 30) { seen.(other) }
    Process.kill(:USR1, puma)
    wait_until("all are new", 60) { (workers.() & [*old, other]).empty? && workers.().size == 2 }
    workers.().each { |pid| wait_until("worker #{pid} is traced", 30) { seen.(pid) } }
    end_beside(puma)
    assert_exit 0, tracer.wait
    [*old, other].each { |pid| assert_includes tracer.stderr, "rbprobe: worker #{pid} left\n" }
    assert_match(/^rbprobe: the process and all its workers have ended$/, tracer.stderr)
  end

  # --- Commands of one process, for each of them

  def of_each(*arguments, status: 0)
    rbprobe(arguments[0], *(arguments[1..] if arguments[0] == "heap")&.first(1), "-p", @master.pid.to_s, "--children",
            *arguments.drop(arguments[0] == "heap" ? 2 : 1)).tap { |result| assert_exit status, result }
  end

  test "eval: each worker's answer below its PID" do
    with_master do |_, workers|
      assert_equal workers.map { |pid| "process #{pid}:\n#{pid}\n" }.join("\n"), of_each("eval", "$$").stdout
      answers = of_each("eval", "--format", "json", "$$").stdout.lines.map { |line| JSON.parse(line) }
      assert_equal workers.map { |pid| [pid, pid.to_s] }, answers.map { |answer| answer.values_at("pid", "inspect") }
      failed = of_each("eval", "Kernel.raise 'no'", status: 1)
      assert_equal 2, failed.stderr.scan("no (RuntimeError)").size
    end
  end

  test "eval: Ctrl-C and TERM end the one that runs, and no further one begins" do
    with_master do |_, workers|
      %i[INT TERM].each do |signal|
        tracer = launch("eval", "-p", @master.pid.to_s, "--children", "--timeout", "0", "puts 'here'; sleep")
        wait_until("the code runs") { tracer.stdout.include?("here") }
        tracer.signal(signal)
        result = tracer.wait
        refute_equal 0, result.status
        assert_equal 1, result.stdout.scan("here").size
      end
      # Its main thread, and the one that evaluates this.
      workers.each { |pid| assert_equal "2\n", rbprobe("eval", "-p", pid.to_s, "Thread.list.size").stdout }
    end
  end

  test "memory: a screen for each, and with --every also those that join" do
    with_master do |_, workers|
      shown = of_each("memory", "--no-objects").stdout
      assert_equal workers, shown.scan(/^\S+ \S+  process (\d+) /).flatten.map(&:to_i)
      assert_equal 1, shown.scan(/^$/).size
      tracer = launch("memory", "-p", @master.pid.to_s, "--children", "--no-objects", "--every", "0.2", "--format", "json")
      wait_until("both are shown twice") { workers.all? { |pid| tracer.stdout.scan("\"pid\":#{pid},").size > 1 } }
      third = hire
      wait_until("the third is shown") { tracer.stdout.include?("\"pid\":#{third},") }
      dismiss(third)
      wait_until("the first goes on") { tracer.stdout.lines.last(6).join.include?("\"pid\":#{workers.first},") }
      tracer.signal(:INT)
      tracer.wait
      tracer.stdout.each_line { |line| JSON.parse(line) }
    end
  end

  test "heap dump: a file for each" do
    with_master do |_, workers|
      Dir.mktmpdir do |place|
        result = of_each("heap", "dump", "-o", "#{place}/%p.json")
        assert_equal workers.map { |pid| "#{pid}.json" }.sort, Dir.children(place).sort
        workers.each do |pid|
          assert_includes result.stderr, "#{place}/#{pid}.json: "
          assert_operator File.foreach("#{place}/#{pid}.json").count, :>, 1000
        end
        refused = of_each("heap", "dump", "-o", "#{place}/one.json", status: 2)
        assert_equal "rbprobe: dumps of several processes need a file each: -o 'heap-%p.json', where %p stands for the PID\n",
                     refused.stderr
        assert_refused 2, /-o knows %p, the PID, and %%, a %, but no other letter/, "heap", "dump", "-p", workers[0].to_s,
                       "-o", "%q"
        assert_equal 2, Dir.children(place).size
      end
    end
  end

  test "a master that has no worker yet: the first one is waited for" do
    @master = start("console")
    @workers = []
    @master.run(MASTER.sub("2)", "0)"))
    tracers = [follow("trace"), follow("stat", "--interval", "0.2")]
    waiting = "rbprobe: process #{@master.pid} has no child processes that are Ruby yet: waiting for the first\n"
    tracers.each { |tracer| wait_until("it waits") { tracer.stderr == waiting } }
    first = hire
    wait_until("the first is traced") { tracers[0].stdout.include?("#{first}: String#upcase") }
    tracers.each { |tracer| wait_until("it has joined") { tracer.stderr.include?("rbprobe: worker #{first} joined\n") } }
    wait_until("its calls are counted") { tracers[1].stdout.match?(/[1-9]\d* calls/) }
    assert_exit 0, tracers[1].stop
    dismiss(first)
    assert_exit 0, tracers[0].stop
  ensure
    @workers&.each { |pid| dismiss(pid) }
  end

  test "a master whose first worker never comes: --duration, Ctrl-C, its end" do
    @master = start("console")
    ended = "rbprobe: no child process that is Ruby was traced; ended:"
    result = follow("trace", "--duration", "0.2").wait
    assert_exit 3, result
    assert_equal "#{ended} --duration reached", result.stderr.lines.last.chomp
    tracer = follow("stat")
    wait_until("it waits") { tracer.stderr.include?("waiting for the first") }
    assert_match(/^#{ended} (?!--duration)/, tracer.stop.stderr)
    tracer = follow("trace")
    wait_until("it waits") { tracer.stderr.include?("waiting for the first") }
    @master.finish
    @targets.delete(@master)
    assert_exit 3, tracer.wait
    assert_match(/^#{ended} the process has ended$/, tracer.stderr)
  end

  test "a master without workers has no answer" do
    without = start("console")
    %w[eval memory].each do |command|
      assert_refused 3, /\Arbprobe: process #{without.pid} has no child processes that are Ruby\n\z/,
                     command, "-p", without.pid.to_s, "--children", *("1" if command == "eval")
    end
  end
end
