# The target of tests/soak/load: a zygote that forks, for each kind it reads on standard input, a process that has never heard of
# rbprobe and does one kind of work until the next line comes, checking its own results. It prints the PID, and, when that has ended, its verdict:
# "ok", "wrong: ..." (a result was not what it has to be), "crashed: ..." (killed by a signal), "hung".

require "socket"
require "timeout"

class Soak
  def tick(units)
    units
  end
end

SOAK = Soak.new
SLACK = 0.5 # how late a sleep may end on a busy machine

def check(what, actual, expected)
  raise "#{what}: #{actual.inspect} instead of #{expected.inspect}" unless actual == expected
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

# Calls the traced method besides what the main thread does.
def ticking
  Thread.new { loop { SOAK.tick(0); sleep 0.005 } }
end

def compute(n)
  s = 0
  n.times { |i| s = (s * 31 + i) & 0xffffffff }
  s
end

def allocate(n)
  sum = 0
  n.times { |i| sum += ("x" * (i * 37 % 3000) + i.to_s).bytesize }
  sum
end

COMPUTED = compute(3000)
ALLOCATED = allocate(400)
LOGISTIC = 3000.times.inject(0.4) { |x, _| 3.9 * x * (1.0 - x) }

# Something to read, from another process.
def pulse(pause)
  reader, writer = IO.pipe
  child = fork do
    reader.close
    200.times { |i| writer.write(format("%06d", i)); sleep pause }
    exit!
  end
  writer.close
  yield reader
ensure
  Process.kill(:KILL, child)
  Process.wait(child)
end

# Each does a bit of work and checks it; it is called again until the time is over.
KINDS = {
  "sleep" => lambda {
    began = now
    sleep 0.03
    took = now - began
    raise "sleep 0.03 took #{took}" unless took.between?(0.0295, 0.03 + SLACK)
  },
  "arithmetic" => -> { check("sum", compute(3000), COMPUTED) },
  "allocation" => -> { check("sizes", allocate(400), ALLOCATED) },
  "floats" => -> { check("logistic map", 3000.times.inject(0.4) { |x, _| 3.9 * x * (1.0 - x) }, LOGISTIC) },
  "busy threads" => lambda {
    $busy ||= Array.new(8) { Thread.new { loop { check("sum", compute(3000), COMPUTED); SOAK.tick(2) } } }
    $busy.first.join(0.005)
  },
  "allocating threads" => lambda {
    $busy ||= Array.new(8) { Thread.new { loop { check("sizes", allocate(400), ALLOCATED); SOAK.tick(2) } } }
    $busy.first.join(0.005)
  },
  "pipe read" => lambda {
    pulse(0.002) { |reader| 60.times { |i| check("pipe", reader.read(6), format("%06d", i)) } }
  },
  "accept" => lambda {
    server = TCPServer.new("127.0.0.1", 0)
    child = fork do
      10.times { |i| sleep 0.005; TCPSocket.open("127.0.0.1", server.addr[1]) { |s| s.write(i.to_s) } }
      exit!
    end
    10.times { |i| server.accept.then { |s| check("accept", s.read, i.to_s); s.close } }
    server.close
    Process.wait(child)
  },
  "select" => lambda {
    pulse(0.005) do |reader|
      30.times { |i| check("select", IO.select([reader], nil, nil, 10)&.first, [reader]); check("pipe", reader.read(6), format("%06d", i)) }
    end
  },
  "queue" => lambda {
    queue = Queue.new
    thread = Thread.new { 10.times { |i| sleep 0.005; queue << i } }
    10.times { |i| check("queue", queue.pop, i) }
    thread.join
  },
  "wait" => lambda {
    child = fork { sleep 0.03; exit! 9 }
    check("status", Process.wait2(child)[1].exitstatus, 9)
  },
  "dlopen" => lambda {
    20.times { Fiddle.dlopen("libm.so.6").then { |m| check("cos", Fiddle::Function.new(m["cos"], [Fiddle::TYPE_DOUBLE], Fiddle::TYPE_DOUBLE).call(0.0), 1.0); m.close } }
  },
  "fork" => lambda {
    child = fork { exit!(allocate(400) == ALLOCATED ? 5 : 6) }
    check("status", Process.wait2(child)[1].exitstatus, 5)
  },
  "spawn" => -> { check("echo", `echo 1`, "1\n") },
  "thread churn" => -> { check("threads", Array.new(5) { |i| Thread.new { allocate(20); i } }.map(&:value), [0, 1, 2, 3, 4]) },
  "fibers" => lambda {
    fiber = Fiber.new { |x| loop { x = Fiber.yield(x + allocate(50)) } }
    a = allocate(50)
    20.times { |i| check("fiber", fiber.resume(i), i + a) }
  },
  "regexp" => -> { check("gsub", ("ab" * 2000).gsub(/b(?=a|$)/, "c"), "ac" * 2000) },
  "stderr" => -> { $null ||= File.open("/dev/null", "w"); 200.times { |i| $null.printf("%08d %s\n", i, "x" * 100) } },
  "GC.stress" => lambda {
    GC.stress = true
    texts = 8.times.map { |i| i.to_s * 3 }
    GC.stress = false
    check("texts", texts, %w[000 111 222 333 444 555 666 777])
  },
}.freeze

# No default gem since 4.0.
begin
  require "fiddle"
rescue LoadError
  MISSING = ["dlopen"].freeze
else
  MISSING = [].freeze
end

TICKING = ["sleep", "pipe read", "accept", "select", "queue", "wait"].freeze

def live(kind, stop)
  ticking if TICKING.include?(kind)
  work = KINDS.fetch(kind)
  Thread.report_on_exception = false
  until IO.select([stop], nil, nil, 0)
    work.call
    SOAK.tick(1)
  end
  # Not exit!: the extension has to get through the end of the VM as well.
  exit(0)
rescue SystemExit
  raise
rescue Exception => e # rubocop:disable Lint/RescueException
  File.write("/tmp/soak-#{Process.pid}", "#{e.class}: #{e.message} #{e.backtrace&.first}")
  exit!(1)
end

def verdict(pid)
  status = Timeout.timeout(20) { Process.wait2(pid)[1] }
  return "ok" if status.success?
  return "crashed: signal #{status.termsig}" if status.signaled?

  path = "/tmp/soak-#{pid}"
  text = File.exist?(path) ? File.read(path) : "exit status #{status.exitstatus}"
  File.delete(path) if File.exist?(path)
  "wrong: #{text.tr("\n", " ")}"
rescue Timeout::Error
  Process.kill(:KILL, pid)
  Process.wait(pid)
  "hung"
end

if $PROGRAM_NAME == __FILE__
  $stdout.sync = true
  puts "ready"
  $stdin.each_line do |line|
    if MISSING.include?(line.chomp)
      puts "missing"
      next
    end
    stop, going_on = IO.pipe
    pid = fork { [$stdin, going_on].each(&:close); live(line.chomp, stop) }
    stop.close
    puts pid
    $stdin.gets
    going_on.close
    puts verdict(pid)
  end
end
