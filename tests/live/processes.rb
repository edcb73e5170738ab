# The processes of a live test: targets (Ruby programs that are watched) and tracers (rbprobe), and what they may leave behind.

require "fileutils"
require "io/wait"
require "tempfile"
require_relative "ipc"

# A shell without job control starts what ends with "&" with SIGINT ignored. Programs inherit that, and some keep it: nothing like
# Ctrl-C would stop them.
Signal.trap(:INT, "DEFAULT")

module Processes
  ROOT = File.expand_path("../..", __dir__)
  BUILD = File.expand_path(ENV.fetch("RBPROBE_BUILD", "build"), ROOT)
  RBPROBE = "#{BUILD}/rbprobe"
  RUBY = Shellwords.split(ENV.fetch("RBPROBE_RUBY", "ruby"))
  # The directory that is the target's root: where its /tmp is.
  TARGET_ROOT = RUBY.first == "chroot" ? RUBY[1] : "/"
  TARGET_ENV = Shellwords.split(ENV.fetch("RBPROBE_TARGET_ENV", "")).to_h { |pair| pair.split("=", 2) }
  PATIENCE = ENV.fetch("RBPROBE_PATIENCE", "1").to_f
  # RBPROBE_SHORT is set, and not to nothing.
  SHORT = !ENV.fetch("RBPROBE_SHORT", "").empty?
  RUBY_VERSION_OF_TARGET = IO.popen([*RUBY, "-e", "print RUBY_VERSION"], &:read)

  class TimedOut < Minitest::Assertion; end

  module_function

  # Whether YJIT compiles what targets run. It drops all of it for each TracePoint: what would make it do so is not done unasked.
  def yjit?
    return @yjit if defined?(@yjit)

    @yjit = system(*RUBY, "-e", "exit defined?(RubyVM::YJIT.enabled?) && RubyVM::YJIT.enabled? ? 0 : 1", err: File::NULL) || false
  end

  # Whether the C library of targets is musl.
  def musl?
    return @musl if defined?(@musl)

    @musl = IO.popen([*RUBY, "-e", "print RUBY_PLATFORM"], &:read).include?("musl")
  end

  # With a memory allocator that is not libc's, such as jemalloc.
  def own_allocator?
    IO.popen([*RUBY, "-rrbconfig", "-e", "print RbConfig::CONFIG['MAINLIBS']"], &:read).match?(/malloc/)
  end

  # Returns the block's value as soon as it is true; fails after that many seconds.
  def wait_until(what, seconds = 15)
    deadline = now + seconds * PATIENCE
    loop do
      value = yield
      return value if value
      raise TimedOut, "waited in vain until #{what.respond_to?(:call) ? what.call : what}" if now > deadline

      sleep 0.005
    end
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def target_ruby?(requirement)
    Gem::Requirement.new(requirement).satisfied_by?(Gem::Version.new(RUBY_VERSION_OF_TARGET))
  end

  # The command of the target's Ruby, run by that user. Changing the root takes root: there, that comes first.
  def ruby_as(user)
    return RUBY unless user
    return ["chroot", "--userspec=#{user}:#{user}", *RUBY.drop(1)] if RUBY.first == "chroot"

    ["setpriv", "--reuid=#{user}", "--regid=#{user}", "--clear-groups", *RUBY]
  end

  # An empty file for what a process says, which is gone with the object. It is closed, since every spawn takes longer the more
  # descriptors are open.
  def output_file(name)
    Tempfile.new(name).tap(&:close)
  end

  # A line of /proc/PID/status, such as "State".
  def status_of(pid, field)
    File.read("/proc/#{pid}/status")[/^#{field}:\s*(.*)$/, 1]
  rescue Errno::ENOENT, Errno::ESRCH
    nil
  end

  # A letter for each thread, as in ps.
  def thread_states_of(pid)
    Dir.glob("/proc/#{pid}/task/*/stat").map { |path| (File.read(path) rescue "")[/\) (.)/, 1] }.join
  end

  # The name of the program that it runs now.
  def comm_of(pid)
    File.read("/proc/#{pid}/comm").chomp
  end

  def clock_ticks_of(pid)
    File.read("/proc/#{pid}/stat").split(") ").last.split[11].to_i
  end

  def wait_until_it_computes(pid)
    before = clock_ticks_of(pid)
    wait_until("it computes") { clock_ticks_of(pid) > before + 10 }
  end

  # What a thread has open for a moment, as one that is just starting, does not count.
  def descriptors_of(pid)
    count = -> { Dir.children("/proc/#{pid}/fd").size }
    Array.new(3) { sleep(0.005) && count.() }.min
  end

  def threads_of(pid)
    Dir.children("/proc/#{pid}/task").size
  end

  # What its threads are called, of a process in a chroot or not.
  def thread_names_of(pid)
    Dir["#{TARGET_ROOT}/proc/#{pid}/task/*/comm", "/proc/#{pid}/task/*/comm"].map do |path|
      File.read(path).chomp
    rescue SystemCallError
      nil
    end
  end

  def resident_kib_of(pid)
    status_of(pid, "VmRSS").to_i
  end

  # A Ruby program that is to be watched. Its standard input takes Ruby code (see tests/apps/console.rb), so that a test
  # decides what happens when, and finds out when it has happened.
  class Target
    attr_reader :pid
    attr_accessor :expects_stderr

    # user: the number of the one who is to run it.
    def initialize(app, arguments, load: true, env: {}, ruby_options: [], user: nil, wrapper: [])
      @stderr = Processes.output_file("target-stderr")
      reader, @stdin = IO.pipe
      @stdout, writer = IO.pipe
      extension = load ? ["-I", "#{BUILD}/tracee", "-rrbprobe"] : []
      path = app.start_with?("/") ? app : "#{ROOT}/tests/apps/#{app}.rb"
      @pid = Process.spawn(TARGET_ENV.merge(env), *wrapper, *Processes.ruby_as(user), *ruby_options, *extension, path,
                           *arguments.map(&:to_s), in: reader, out: writer, err: @stderr.path, pgroup: true)
      @children = []
      [reader, writer].each(&:close)
    end

    def wait_until_ready
      expect("ready")
      await_quiet_threads unless TARGET_ENV.empty?
    end

    # A sanitizer's malloc is no match for fork: a child may find its allocator locked for ever by a thread that was just
    # starting. Where all threads sleep, none is. Busy targets never come to that.
    def await_quiet_threads
      Processes.wait_until("all threads sleep", 0.2) { Processes.thread_states_of(@pid).delete("S").empty? }
    rescue TimedOut
      nil
    end

    # Runs code in the target's main thread and returns what it returned, as its inspect.
    def run(code)
      run_in_background(code)
      answer
    end

    def run_in_background(code)
      @stdin.puts(code.dump)
    end

    def answer(seconds = 30)
      line = read_line(seconds)
      raise Minitest::Assertion, "the target raised #{line.delete_prefix("raised ")}" if line.start_with?("raised ")

      line.delete_prefix("= ")
    end

    def expect(text, seconds = 30)
      line = read_line(seconds)
      raise Minitest::Assertion, "the target said #{line.inspect} instead of #{text.inspect}\n#{stderr}" unless line == text
    end

    def read_line(seconds = 30)
      raise TimedOut, "the target says nothing; stderr: #{stderr}" unless @stdout.wait_readable(seconds * PATIENCE)

      line = @stdout.gets or raise Minitest::Assertion, "the target is gone; stderr: #{stderr}"
      line.chomp
    end

    # PIDs of the target's children, so that they are looked after as well.
    def adopt(pid)
      @children << Integer(pid)
      Integer(pid)
    end

    def pids
      [@pid, *@children]
    end

    def stderr
      File.read(@stderr.path)
    end

    def signal(name)
      Process.kill(name, @pid)
    end

    def alive?
      @status.nil? && Process.wait2(@pid, Process::WNOHANG).then { |_, status| (@status = status).nil? }
    end

    # Stops its process group, until none of its threads runs. One that the kernel holds counts as stopped.
    def halt
      Process.kill(:STOP, -@pid)
      group = pids.select { |pid| (Process.getpgid(pid) rescue nil) == @pid }
      Processes.wait_until("process #{@pid} stands still", 1) do
        group.all? { |pid| Processes.thread_states_of(pid).delete("TtDZX").empty? }
      end
    end

    def go_on
      Process.kill(:CONT, -@pid)
    end

    # Waits for the target's own end, and returns its Process::Status.
    def wait
      Processes.wait_until(-> { "the target ends by itself; stderr: #{stderr}" }) { !alive? }
      @status
    end

    # Ends it whatever its state, and returns its stderr.
    def finish
      @stdin.close unless @stdin.closed?
      begin
        Process.kill(:KILL, -@pid)
      rescue Errno::ESRCH
        nil
      end
      Process.wait2(@pid).then { |_, status| @status = status } unless @status
      # Children in the group are reaped by init or by whoever is their subreaper.
      Processes.wait_until("the target's process group is gone") { group_gone? }
      @stdout.close
      stderr.tap { @stderr.close! }
    end

    private

    def group_gone?
      Process.kill(0, -@pid)
      # A zombie that nobody reaps holds nothing.
      pids.none? { |pid| pid != @pid && (Processes.status_of(pid, "State") || "Z") !~ /\AZ/ }
    rescue Errno::ESRCH
      true
    end
  end

  # A run of rbprobe. Its standard output and error go to files, so that it never waits for the test.
  class Tracer
    SLOWNESS = /own work in the process takes longer than/.freeze

    attr_reader :pid, :arguments, :started_at

    # Where a processor is emulated, the 5 seconds that attaching may take are less than half of one.
    def self.with_time(arguments)
      own = arguments.take_while { |argument| argument != "--" }
      at = own.index("-p")
      at ||= own.size if own.first == "selftest" && own.size < arguments.size # a Ruby that it starts
      return arguments if !at || arguments.grep(/\A--timeout/).any?

      arguments.dup.insert(at, "--timeout", (2 * PATIENCE).to_s)
    end

    # stdout: another place for its standard output. command: what stands in front of rbprobe. A firehose lets methods go that
    # are called too often; most tests want to see every call.
    def initialize(arguments, stdin: File::NULL, stdout: nil, env: {}, command: [])
      at = arguments.index { |argument| %w[-f --firehose].include?(argument) } if %w[trace exec stat].include?(arguments.first)
      arguments = arguments.dup.insert(at, "--max-overhead", "0") if at && arguments.grep(/max-overhead/).empty?
      arguments = Tracer.with_time(arguments) if PATIENCE >= 10
      @arguments = arguments
      @stdout = Processes.output_file("tracer-stdout")
      @stderr = Processes.output_file("tracer-stderr")
      @started = Processes.now
      @started_at = Time.now
      @pid = Process.spawn({ "NO_COLOR" => nil, "LC_ALL" => "C.UTF-8" }.merge(env), *command, RBPROBE, *arguments,
                           in: stdin, out: stdout || @stdout.path, err: @stderr.path, pgroup: true)
    end

    def command
      "rbprobe #{Shellwords.join(@arguments)}"
    end

    # So far: it may grow faster than it can be read.
    def stdout
      File.binread(@stdout.path, File.size(@stdout.path)).force_encoding(Encoding::UTF_8)
    end

    # But for what it says of a slow machine, where that is emulated.
    def stderr
      said = File.read(@stderr.path)
      PATIENCE >= 10 ? said.lines.grep_v(SLOWNESS).join : said
    end

    def wait_until_armed
      Processes.wait_until(-> { "#{command} is armed; it said:\n#{stderr}" }) do
        raise Minitest::Assertion, "#{command} ended with #{@status.exitstatus}:\n#{stderr}" unless running?

        stderr.match?(ARMED)
      end
      self
    end

    def wait_for(pattern)
      Processes.wait_until(-> { "#{command} prints #{pattern.inspect}; it printed:\n#{stdout[0, 4000]}#{stderr}" }) do
        pattern === stderr || pattern === stdout
      end
      self
    end

    def running?
      return false if @status

      _, @status = Process.wait2(@pid, Process::WNOHANG)
      @status.nil?
    end

    # Until it ends by itself.
    def wait(seconds = 30)
      Processes.wait_until(-> { "#{command} ends; it printed:\n#{stdout[-2000..] || stdout}#{stderr}" }, seconds) { !running? }
      @seconds ||= Processes.now - @started
      Result.new(stdout, stderr, @status.exitstatus || -@status.termsig, @seconds)
    end

    # As with Ctrl-C.
    def stop
      signal(:INT)
      wait
    end

    def signal(name)
      Process.kill(name, @pid)
    end

    def kill
      Process.kill(:KILL, -@pid)
      _, @status = Process.wait2(@pid) if @status.nil?
    rescue Errno::ESRCH
      nil
    end
  end

  # What rbprobe -v says on stderr when the methods are armed.
  ARMED = /^rbprobe: process \d+: tracing \d+ method/

  # How a run of rbprobe ended.
  Result = Struct.new(:stdout, :stderr, :status, :seconds) do
    # The text output with its times masked, and without its first header if all is of one thread.
    def tree
      text = stdout.gsub(/<\d+\.\d{6}>/, "<time>").gsub(/\[thread \d+/, "[thread T")
                   .gsub(/, fiber \d+( of [^\]]*)?\]/, ", fiber F\\1]")
      # On an emulated processor a call may take so long that its beginning has a line, with nothing inside.
      text = text.gsub(/^( *)([^\s(]+)(\(.*\))?\n\1\2(?= [!<=~])/, "\\1\\2\\3") if PATIENCE >= 10
      text.scan(/^\[thread T/).size > 1 ? text : text.sub(/\A\[thread T.*\]\n/, "")
    end

    # From JSON: the calls of each fiber as a tree, a line each, in the order in which they began.
    def trees
      events("call").group_by { |call| call["fiber"] }.values.map do |calls|
        calls = calls.sort_by { |call| call.values_at("start_ns", "depth") }
        calls.map { |call| "#{"   " * call["depth"]}#{call["method"]}\n" }.join
      end
    end

    # The JSON output's objects.
    def objects
      stdout.each_line.map { |line| JSON.parse(line) }
    end

    # The objects of that type.
    def events(type)
      objects.select { |object| object["type"] == type }
    end

    # One of the numbers of the summary on stderr, such as "calls" or "lost".
    def summary(what)
      stderr[/([\d,]+) #{what}\b/, 1]&.delete(",")&.to_i
    end
  end

  # Queues, files and processes that are still there though nobody needs them.
  module Leftovers
    QUEUE_KEY_CONSTANT = 0x2b5

    module_function

    def queue_key(pid)
      (QUEUE_KEY_CONSTANT << 22) | (pid & 0x3fffff)
    end

    # The fields of /proc/sysvipc/msg; times in whole seconds.
    Queue = Struct.new(:key, :id, :messages, :last_sender, :last_receiver, :sent, :received, :changed) do
      def pid
        key & 0x3fffff
      end

      def to_s
        "the queue of process #{pid} (#{messages} messages; last sent by #{last_sender}, received by #{last_receiver}; sent, " \
          "received, changed #{[sent, received, changed].map { |time| "#{Time.now.to_i - time} s" }.join(", ")} ago)"
      end
    end

    # Those of rbprobe, whoever's.
    def queues
      File.readlines("/proc/sysvipc/msg").drop(1).map(&:split)
          .map { |fields| Queue.new(fields[0].to_i & 0xffffffff, *fields.values_at(1, 4, 5, 6, 11, 12, 13).map(&:to_i)) }
          .select { |queue| queue.key >> 22 == QUEUE_KEY_CONSTANT }
    end

    def socket_directories(tracer_pids)
      ["/", TARGET_ROOT].uniq.flat_map { |root| Dir.glob("#{root}/tmp/rbprobe-*") }
                        .select { |path| tracer_pids.include?(path[/rbprobe-(\d+)-/, 1].to_i) }
    end

    def queues_of(targets)
      keys = targets.flat_map(&:pids).map { |pid| queue_key(pid) }
      queues.select { |queue| keys.include?(queue.key) }
    end

    # Also those of processes that a tracer started or reached, and a test does not know. A PID may be that of an earlier tracer.
    def queues_written_by(tracers)
      queues.select do |queue|
        tracers.any? { |tracer| queue.last_sender == tracer.pid && queue.sent >= tracer.started_at.to_i }
      end
    end

    # For a test whose target could not take its queue away itself.
    def remove_queues_of(target)
      queues.each { |queue| Ipc.remove(queue.id) if queue.key == queue_key(target.pid) }
    end

    def of(targets:, tracers:)
      (queues_of(targets) | queues_written_by(tracers)).map(&:to_s) + socket_directories(tracers.map(&:pid))
    end
  end
end
