# The target of tests/soak/load: a zygote that forks, for each kind it reads on standard input, a process that has never heard of
# rbprobe and does one kind of work until the next line comes, checking its own results. It prints the PID, and, when that
# has ended, its verdict:
# "ok", "wrong: ..." (a result was not what it has to be), "crashed: ..." (killed by a signal), "hung".

require "socket"
require "timeout"
require "zlib"

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
      30.times do |i|
        check("select", IO.select([reader], nil, nil, 10)&.first, [reader])
        check("pipe", reader.read(6), format("%06d", i))
      end
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
    20.times do
      Fiddle.dlopen("libm.so.6").then do |m|
        check("cos", Fiddle::Function.new(m["cos"], [Fiddle::TYPE_DOUBLE], Fiddle::TYPE_DOUBLE).call(0.0), 1.0)
        m.close
      end
    end
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
  # In a process of its own that serves requests until it is told to end: see serve.
  "puma" => nil,
}.freeze

def missing(library)
  require library
  false
rescue LoadError
  true
end

# Fiddle is no default gem since 4.0.
MISSING = { "dlopen" => ["fiddle"],
            "puma" => ["puma/cli", "rack"] }.select { |_, libraries| libraries.any? { |one| missing(one) } }.keys.freeze

# A Puma as the puma command starts it. Who asks for /N gets a body that depends on N, with its checksum in a header.
def serve(directory)
  File.write("#{directory}/config.ru", <<~APP)
    run(lambda do |env|
      n = Integer(env["PATH_INFO"].delete("/"))
      SOAK.tick(n)
      body = Array.new(20 + n % 50) { |i| (n * i).to_s(36) * 7 }.join(" ")
      [200, { "content-type" => "text/plain", "x-sum" => Zlib.crc32(body).to_s }, [body]]
    end)
  APP
  File.write("#{directory}/puma.rb", "raise_exception_on_sigterm false\nenvironment 'none'\nquiet true\n")
  $stdout = File.open("#{directory}/log", "w")
  Puma::CLI.new(["-b", "unix://#{directory}/socket", "-t", "4:4", "-C", "#{directory}/puma.rb", "#{directory}/config.ru"]).run
  exit(0)
end

def answer(directory, number)
  response = Timeout.timeout(10) do
    UNIXSocket.open("#{directory}/socket") { |s| s.write("GET /#{number} HTTP/1.0\r\n\r\n"); s.read }
  end
  head, body = response.split("\r\n\r\n", 2)
  check("status of /#{number}", head[%r{\AHTTP/1\.\d (\d+)}, 1], "200")
  check("checksum of /#{number}", Zlib.crc32(body).to_s, head[/^x-sum: (\d+)/i, 1])
  check("body of /#{number}", body.split.size, 20 + number % 50)
end

# The file is there a moment before anybody listens.
def listening?(path)
  UNIXSocket.open(path).close
  true
rescue SystemCallError
  false
end

# Asks without a pause, in three threads, until told to stop; then tells the server.
def ask(directory, server, stop)
  over = false
  threads = Array.new(3) { |t| Thread.new { number = t; answer(directory, number += 3) until over } }
  IO.select([stop])
  over = true
  threads.each(&:join)
  Process.kill(:TERM, server)
  exit!(0)
rescue StandardError => e
  Process.kill(:TERM, server)
  note(e)
end

TICKING = ["sleep", "pipe read", "accept", "select", "queue", "wait"].freeze

# For verdict.
def note(error)
  File.write("/tmp/soak-#{Process.pid}", "#{error.class}: #{error.message} #{error.backtrace&.first}")
  exit!(1)
end

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
  note(e)
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

# Starts what does that work until the other end of the pipe is closed: the process to load into, and who else has a verdict.
def start(kind, stop, others_end)
  return [fork { [$stdin, others_end].each(&:close); live(kind, stop) }] unless kind == "puma"

  directory = Dir.mktmpdir("soak-")
  server = fork { [$stdin, stop, others_end].each(&:close); serve(directory) }
  sleep 0.01 until listening?("#{directory}/socket") || Process.wait(server, Process::WNOHANG)
  [server, fork { [$stdin, others_end].each(&:close); ask(directory, server, stop) }, directory]
end

if $PROGRAM_NAME == __FILE__
  require "tmpdir"
  $stdout.sync = true
  puts "ready"
  $stdin.each_line do |line|
    if MISSING.include?(line.chomp)
      puts "missing"
      next
    end
    stop, going_on = IO.pipe
    pid, asking, directory = start(line.chomp, stop, going_on)
    stop.close
    puts pid
    $stdin.gets
    going_on.close
    verdicts = [asking, pid].compact.map { |one| verdict(one) }
    FileUtils.rm_rf(directory) if directory
    puts verdicts.find { |text| text != "ok" } || "ok"
  end
end
