# Every command that is given to a process on demand, on every kind of process that is not a quiet one of one thread: what comes
# back is true, and the process goes on with what it has done, and with what it had. None of them has the extension when the
# command comes, unless a sanitizer is in it, with which nothing can be loaded.

require_relative "helper"
require "net/http"

class OnDemandTest < LiveTest
  # What the commands are to find in each process.
  KNOWN = <<~'RUBY'.freeze
    class Crowd; end
    $crowd = Array.new(5_000) { Crowd.new }
    $mark = "a mark in memory " * 3 + "one"
  RUBY

  # target is what the test started, pid the process that is meant, as it is seen from here. A thread of that name is in a method
  # of that name. goes_on is true when the process has done something new.
  Subject = Struct.new(:target, :pid, :thread, :label, :goes_on)

  KINDS = {
    "a busy process" => :busy,
    "a process of 100 threads" => :crowded,
    "Puma with Sinatra" => :puma,
    "a process in mount, PID, IPC and user namespaces" => :enclosed,
  }.freeze

  COMMANDS = {
    "eval" => :assert_eval,
    "console" => :assert_console,
    "backtrace" => :assert_backtrace,
    "memory" => :assert_memory,
    "heap dump" => :assert_heap_dump,
    "fork" => :assert_fork,
  }.freeze

  # --- The processes

  def start_bare(app, *arguments, **options)
    start(app, *arguments, load: !Processes::TARGET_ENV.empty?, **options)
  end

  def busy
    target = start_bare("busy", 2)
    target.run(KNOWN)
    target.run('go; $threads.each_with_index { |thread, i| thread.name = "busy #{i}" }; 1')
    steps = 0
    Subject.new(target, target.pid, "busy 1", /block .*in .*go\z/, -> { steps < (steps = target.run("steps").to_i) })
  end

  def crowded
    target = start_bare("threads")
    target.run(KNOWN)
    target.run("many_threads(100)")
    Subject.new(target, target.pid, "many 42", /\bpop\z/,
                -> { target.run("Thread.list.count { |thread| thread.name =~ /\\Amany/ && thread.alive? }") == "100" })
  end

  def puma
    code = "require 'sinatra/base'; print Gem.bin_path('puma', 'puma')"
    puma = IO.popen([*Processes::RUBY, "-e", code], err: File::NULL, &:read)
    skip "no Puma and Sinatra for this Ruby" unless $?.success?
    skip "the target's Ruby is in a chroot" if Processes::RUBY.first == "chroot"
    rackup = "#{directory}/config.ru"
    File.write(rackup, "#{KNOWN}require '#{Processes::ROOT}/tests/apps/demo/shop'\nrun Shop\n")
    target = Processes::Target.new(puma, ["--threads", "2:2", "--bind", "tcp://127.0.0.1:0", rackup],
                                   load: !Processes::TARGET_ENV.empty?)
    @targets << target
    said = +""
    wait_until(-> { "Puma listens: #{said}" }) { (said << target.read_line << "\n").include?("Use Ctrl-C to stop") }
    port = said[/Listening on .*:(\d+)/, 1].to_i
    quiet = wait_until("it is at rest") { possessions_of(target.pid) }.fetch(:descriptors)
    goes_on = lambda do
      answer = Net::HTTP.get("127.0.0.1", "/items?q=cup", port)
      # Puma closes a connection after the visitor has.
      wait_until("the connection is closed") { possessions_of(target.pid)&.fetch(:descriptors) == quiet }
      answer.include?("Cup, handmade")
    end
    Subject.new(target, target.pid, "puma srv tp 001", /block in .*spawn_thread\z/, goes_on)
  end

  def enclosed
    only_root
    skip "the target's Ruby is in a chroot" if Processes::RUBY.first == "chroot"
    target = start_bare("threads", wrapper: %w[unshare -U -r -m -p -i -f --mount-proc])
    target.run(KNOWN)
    target.run("waiting_threads")
    pid = target.adopt(File.read("/proc/#{target.pid}/task/#{target.pid}/children").split.first)
    Subject.new(target, pid, "sleeper", /\bnap\z/,
                -> { target.run("[Process.pid, Dir.children('/proc').grep(/\\A\\d+\\z/)]") == '[1, ["1"]]' })
  end

  # --- The commands

  def output_of(subject, *command, **options)
    result = rbprobe(*command, "-p", subject.pid.to_s, **options)
    assert_exit 0, result
    assert_equal "", result.stderr.gsub(/^rbprobe: .*\n/, "")
    result.stdout
  end

  def assert_eval(subject)
    code = "puts 'to the client'; [$crowd.size, Thread.list.count { |thread| thread.name == #{subject.thread.inspect} }]"
    assert_equal "to the client\n[5000, 1]\n", output_of(subject, "eval", code)
  end

  def assert_console(subject)
    reader, writer = IO.pipe
    writer.write("size = $crowd.size\n[size,\n $mark[-3..-1]]\nputs 'to the client'\ncd $crowd\nfirst.class\n")
    writer.close
    assert_equal "=> 5000\n=> [5000, \"one\"]\nto the client\n=> nil\n=> Crowd\n", output_of(subject, "console", stdin: reader)
  ensure
    reader.close
  end

  def assert_backtrace(subject)
    objects = output_of(subject, "bt", "--format", "json", "--thread", subject.thread).lines.map { |line| JSON.parse(line) }
    threads = objects.select { |object| object["type"] == "thread" }
    assert_equal [subject.thread], threads.map { |thread| thread["name"] }
    labels = threads.first["frames"].map { |frame| frame["label"] }
    assert labels.grep(subject.label).any?, "#{subject.label.inspect} in #{labels}"
  end

  def assert_memory(subject)
    sample = JSON.parse(output_of(subject, "memory", "--format=json"))
    assert_equal subject.pid, sample["pid"]
    classes = sample.dig("ruby", "objects", "classes").map { |row| row.values_at("name", "count") }
    assert_includes classes, ["Crowd", 5_000]
  end

  def assert_heap_dump(subject)
    path = "#{directory}/dump.json"
    output_of(subject, "heap", "dump", "-o", path)
    lines = File.readlines(path)
    address = JSON.parse(lines.find { |line| line.include?('"Crowd"') && line.include?('"CLASS"') }).fetch("address")
    objects = lines.select { |line| line.include?(address) }.map { |line| JSON.parse(line) }
    assert_equal 5_000, objects.count { |object| object["type"] == "OBJECT" && object["class"] == address }
    assert_equal 1, lines.count { |line| line.include?("\"#{mark("one")}\"") }
  end

  def assert_fork(subject)
    copy = Integer(output_of(subject, "fork"))
    wait_until("it is frozen") do
      File.read("/proc/#{copy}/comm") == "rbprobe-frozen\n" && Processes.status_of(copy, "State").start_with?("S")
    end
    assert_equal "1", Processes.status_of(copy, "Threads")
    assert_equal File.readlink("/proc/#{subject.pid}/ns/pid"), File.readlink("/proc/#{copy}/ns/pid")
    output_of(subject, "eval", "$mark.replace(#{mark("two").inspect})")
    assert in_memory?(copy, mark("one")), "the copy has what was"
    refute in_memory?(copy, mark("two")), "the copy has what came later"
    Process.kill(:KILL, copy)
    wait_until("nothing is left of it, and no zombie") { !File.exist?("/proc/#{copy}") }
  ensure
    begin
      Process.kill(:KILL, copy) if copy
    rescue Errno::ESRCH
      nil
    end
  end

  def mark(end_of_it)
    "a mark in memory " * 3 + end_of_it
  end

  def in_memory?(pid, text)
    File.open("/proc/#{pid}/mem", "rb") do |memory|
      File.readlines("/proc/#{pid}/maps").grep(/ rw-p /).any? do |line|
        from, to = line[/\A\S+/].split("-").map { |address| address.to_i(16) }
        next if to - from > 256 << 20 # no heap of a test's, but what a sanitizer has set aside

        memory.seek(from)
        memory.read(to - from)&.include?(text)
      rescue SystemCallError
        false
      end
    end
  end

  # --- What must be as it was

  def possessions_of(pid)
    below = Dir.glob("/proc/#{pid}/task/*/children").flat_map { |path| File.read(path).split }
    descriptors = Dir.children("/proc/#{pid}/fd").sort.map { |number| [number, File.readlink("/proc/#{pid}/fd/#{number}")] }
    { threads: Processes.threads_of(pid), below: below, descriptors: descriptors }
  rescue Errno::ENOENT # one that was just closed, or a thread that just ended
    nil
  end

  KINDS.each do |kind, start|
    COMMANDS.each do |command, check|
      test "#{command} of #{kind}" do
        subject = send(start)
        wait_until("it goes on at first") { subject.goes_on.call }
        before = wait_until("it is at rest") { possessions_of(subject.pid) }
        send(check, subject)
        wait_until(-> { "#{possessions_of(subject.pid)} is #{before} again" }) { possessions_of(subject.pid) == before }
        wait_until("it goes on") { subject.goes_on.call }
      end
    end
  end
end
