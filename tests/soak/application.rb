# The target of tests/soak/run: an application that does, in a dozen threads at once, what applications do and what they
# should not, and checks every result itself. It takes one command a line on standard input and answers each with one line
# of JSON:
#
#     pause       every worker stops at the end of its round; {"rounds": {worker: number}, "failures": [...]}
#     resume      they go on
#     count N     N calls of Counted#call in three threads; answers when all have returned
#     speed       how a loop that was traced compares with one that never is: {"ruby": ratio, "c": ratio}
#     victim KIND a child that works until it ends as KIND says at the next line: {"pid": ...}
#     end         the victim ends; {"status": ...}
#     quit

require "digest"
require "fiber"
require "json"
require "monitor"
require "objspace"
require "set"
require "socket"
require "tempfile"
require "timeout"

$stdout.sync = true
Thread.report_on_exception = false
Warning[:experimental] = false if Warning.respond_to?(:[]=)

class Wrong < StandardError; end

# Ruby 2.7 dies of UNIXSocket.pair when there is no descriptor left: rsock_socketpair0() takes the two that it did not get
# for its own ("[BUG] rb_update_max_fd: invalid fd"). This program runs out of descriptors on purpose.
def connected_sockets
  return UNIXSocket.pair if RUBY_VERSION >= "3"

  # A forked child may hold the last one a little longer.
  UNIXServer.open("\0soak-#{Random.urandom(8).unpack1("H*")}") do |server|
    left = UNIXSocket.open(server.path)
    begin
      [left, server.accept]
    rescue SystemCallError
      left.close
      raise
    end
  end
end

def check(what, actual, expected)
  raise Wrong, "#{what}: #{actual.inspect[0, 200]} instead of #{expected.inspect[0, 200]}" unless actual == expected
end

module Louder
  refine String do
    def upcase
      "#{super}!"
    end
  end
end

module Quiet
  def self.upcase_of(text)
    text.upcase
  end
end

using Louder

def louder(text)
  text.upcase
end

class Counted
  def call(number)
    number + 1
  end
end

# So long a thread may take to come to rest. With GC.stress on in one of them, each turn of another takes a whole time slice.
REST_SECONDS = 60 * ENV.fetch("RBPROBE_PATIENCE", "1").to_f

class Work
  attr_accessor :state

  def initialize
    @state = 0
  end

  def add(a, b = 1, *rest, key: 2, **others, &block)
    sum = a + b + rest.sum + key + others.values.sum
    block ? block.call(sum) : sum
  end

  def deep(depth)
    depth.zero? ? 0 : 1 + deep(depth - 1)
  end

  def raising(number)
    raise ArgumentError, "odd #{number}" if number.odd?

    number
  ensure
    @state += 1
  end

  def leaving
    [1, 2, 3].each { |number| return number if number == 2 }
    nil
  end

  def retrying
    tries = 0
    begin
      tries += 1
      raise IOError if tries < 3

      tries
    rescue IOError
      retry
    end
  end

  def method_missing(name, *arguments)
    name.to_s.start_with?("dynamic_") ? [name, *arguments] : super
  end

  def respond_to_missing?(name, all = false)
    name.to_s.start_with?("dynamic_") || super
  end
end

# Its fibers wait by their scheduler.
class Scheduler
  def initialize
    @ready = []
    @waiting = {}
    @readable = {}
    @lock = Thread::Mutex.new
    @unblocked = []
  end

  def run
    until @ready.empty? && @waiting.empty? && @readable.empty?
      ready, @ready = @ready, []
      @lock.synchronize { ready.concat(@unblocked.tap { @unblocked = [] }) }
      now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
      due, @waiting = @waiting.partition { |_, time| time <= now }.map(&:to_h)
      readable, = IO.select(@readable.keys, nil, nil, ready.empty? && due.empty? ? 0.001 : 0)
      readable&.each { |io| ready << @readable.delete(io) }
      (ready + due.keys).uniq.each { |fiber| fiber.resume if fiber.alive? }
    end
  end

  def close
    run
  end

  def fiber(&block)
    Fiber.new(blocking: false, &block).tap(&:resume)
  end

  def kernel_sleep(seconds = nil)
    @waiting[Fiber.current] = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds.to_f
    Fiber.yield
    true
  end

  def io_wait(io, events, _timeout)
    @readable[io] = Fiber.current
    Fiber.yield
    events
  end

  def block(_blocker, timeout = nil)
    @waiting[Fiber.current] = Process.clock_gettime(Process::CLOCK_MONOTONIC) + (timeout || 0.001)
    Fiber.yield
    true
  end

  def unblock(_blocker, fiber)
    @lock.synchronize { @unblocked << fiber }
  end

  def fiber_interrupt(fiber, exception)
    fiber.raise(exception)
  end

  def process_wait(pid, flags)
    Thread.new { Process::Status.wait(pid, flags) }.value
  end
end

DIGEST = Digest::SHA256.hexdigest("soak" * 1000)
WORDS = %w[alpha beta gamma delta].freeze
TABLE = WORDS.each_with_index.to_h.freeze
WORK = Work.new

def value_of_ractor(ractor)
  ractor.respond_to?(:value) ? ractor.value : ractor.take
end

# A Ractor that runs may hold a lock of the VM, for which a forked child waits for ever (rb_thread_atfork() of 3.1): the
# VM's own defect.
FORKS = Thread::Mutex.new

def fork_apart(&code)
  FORKS.synchronize { fork(&code) }
end

def child_of(code)
  reader, writer = IO.pipe
  pid = fork_apart do
    GC.stress = false # another thread may have it on at this moment
    reader.close
    writer.write(code.call.to_s)
    writer.close
    exit!(7)
  end
  writer.close
  result = reader.read
  reader.close
  _, status = Process.wait2(pid)
  check("child's status", status.exitstatus, 7)
  result
end

# Up to Ruby 3.3 at least, a Ractor that is collected takes the events of all global TracePoints with it, until one is
# enabled or disabled.
SILENCED_BY_COLLECTOR = defined?(Ractor) && RUBY_VERSION < "4"

WORKERS = {
  "arithmetic" => lambda do |round|
    check("sum", (1..100).sum { |i| i * round }, 5050 * round)
    check("add", WORK.add(round, 2, 3, key: 4, other: 5), round + 14)
    check("block", WORK.add(round) { |sum| sum * 2 }, (round + 3) * 2)
    check("deep", WORK.deep(50), 50)
    check("pow", 3.pow(round, 1009), (3**(round % 1008)) % 1009)
  end,
  "text" => lambda do |round|
    check("gsub", "a-b-c".gsub("-") { |dash| dash + round.to_s }, "a-#{round}b-#{round}c")
    check("match", "key=#{round}"[/key=(\d+)/, 1], round.to_s)
    check("format", format("%05d", round % 100_000).to_i, round % 100_000)
    check("refined", louder("x#{round}"), "X#{round}!")
    check("not refined", Quiet.upcase_of("x"), "X")
    check("split", WORDS.join(",").split(","), WORDS)
  end,
  "collections" => lambda do |round|
    check("hash", TABLE.transform_values { |v| v + round }.fetch("beta"), 1 + round)
    check("sort", [3, 1, 2].sort_by { |n| -n }, [3, 2, 1])
    check("lazy", (1..Float::INFINITY).lazy.select(&:even?).map { |n| n * 2 }.first(3), [4, 8, 12])
    check("set", Set.new(WORDS).include?("gamma"), true)
    check("zip", WORDS.each_slice(2).to_a.flatten, WORDS)
  end,
  "digest and JSON" => lambda do |round|
    check("digest", Digest::SHA256.hexdigest("soak" * 1000), DIGEST)
    check("json", JSON.parse(JSON.generate("round" => round, "words" => WORDS)), { "round" => round, "words" => WORDS })
  end,
  "jumps" => lambda do |round|
    check("throw", catch(:out) { WORDS.each { |word| throw :out, word if word == "beta" } }, "beta")
    check("break", WORDS.each { |word| break word if word == "gamma" }, "gamma")
    check("return", WORK.leaving, 2)
    check("retry", WORK.retrying, 3)
    check("raise", begin WORK.raising(round) rescue $!.message end, round.odd? ? "odd #{round}" : round)
    check("missing", WORK.dynamic_thing(round), [:dynamic_thing, round])
    check("no method", begin WORK.nothing_of_the_kind rescue $!.class end, NoMethodError)
  end,
  "threads" => lambda do |round|
    check("join", Array.new(3) { |i| Thread.new { Thread.pass; i * round } }.map(&:value), [0, round, 2 * round])
    queue = SizedQueue.new(2)
    producer = Thread.new { 5.times { |i| queue << i } }
    check("queue", Array.new(5) { queue.pop }, [0, 1, 2, 3, 4])
    producer.join
    check("timeout", begin Timeout.timeout(0.005) { sleep 60 } rescue $!.class end, Timeout::Error)
    killed = Thread.new { sleep }
    Thread.pass until killed.stop?
    killed.kill
    check("kill", killed.join.status, false)
    raising = Thread.new { sleep }
    Thread.pass until raising.stop?
    raising.raise(IOError, "from outside")
    check("raise", begin raising.value rescue $!.message end, "from outside")
  end,
  "locks" => lambda do |_|
    monitor = Monitor.new
    number = 0
    Array.new(3) { Thread.new { 20.times { monitor.synchronize { number += 1 } } } }.each(&:join)
    check("monitor", number, 60)
    lock = Thread::Mutex.new
    condition = Thread::ConditionVariable.new
    arrived = false
    waiter = Thread.new { lock.synchronize { condition.wait(lock) until arrived; :woken } }
    lock.synchronize { arrived = true; condition.signal }
    check("condition", waiter.value, :woken)
  end,
  "fibers" => lambda do |round|
    fiber = Fiber.new { |x| 3.times { |i| x = Fiber.yield(x + i) }; :done }
    check("resume", [fiber.resume(1), fiber.resume(2), fiber.resume(3), fiber.resume(0)], [1, 3, 5, :done])
    external = Enumerator.new { |y| 3.times { |i| y << i * round } }
    check("external", [external.next, external.next, external.next], [0, round, 2 * round])
  end,
  "descriptors" => lambda do |round|
    reader, writer = IO.pipe
    begin
      thread = Thread.new { reader.read }
      writer.write("line #{round}\n" * 100)
      writer.close
      check("pipe", thread.value.bytesize, "line #{round}\n".bytesize * 100)
    ensure
      reader.close
      writer.close
    end
    left, right = connected_sockets
    begin
      left.puts(round)
      # Ruby 2.7 does not look, where it is interrupted before each time that it would, until the time is over: many seconds on a
      # busy machine.
      check("select", IO.select([right], nil, nil, REST_SECONDS)&.first, [right])
      check("socket", right.gets, "#{round}\n")
    ensure
      left.close
      right.close
    end
    Tempfile.create("soak") do |file|
      file.sync = true # a child that another thread forks meanwhile would write what is in the buffer, too
      file.write(round.to_s)
      check("file", File.read(file.path), round.to_s)
    end
  end,
  "processes" => lambda do |round|
    check("fork", child_of(-> { (1..50).sum * round }), (1275 * round).to_s)
    check("exec", `echo #{round}`, "#{round}\n")
    check("exec's status", $?.exitstatus, 0)
    check("spawn", Process.wait2(Process.spawn("exit 3"))[1].exitstatus, 3)
  end,
  "definitions" => lambda do |round|
    klass = Class.new(String) { def upcase; "u"; end }
    check("anonymous", klass.new("x").upcase, "u")
    object = Object.new
    object.instance_eval { define_singleton_method(:single) { round } }
    check("singleton", object.single, round)
    WORK.singleton_class.send(:define_method, :again) { |n = 1| n + round }
    check("again", WORK.again, 1 + round)
    check("super", Class.new(Work) { define_method(:add) { |*a, **k, &b| super(*a, **k, &b) + 1 } }.new.add(1), 5)
    struct = Struct.new(:left, :right) { def both; left + right; end }
    check("struct", struct.new(1, round).both, 1 + round)
    modul = Module.new { def extended_by; :module; end }
    check("extend", Object.new.extend(modul).extended_by, :module)
  end,
  "reloading" => lambda do |round|
    Object.send(:remove_const, :Reloaded) if Object.const_defined?(:Reloaded, false)
    Object.class_eval("class Reloaded; def version(a#{", b = 1" if round.odd?}); #{round} + a; end; end", __FILE__, 1)
    check("reloaded", Reloaded.new.version(1), round + 1)
    Reloaded.class_eval { remove_method(:version); def version(x); -x; end }
    check("redefined", Reloaded.new.version(round), -round)
    Reloaded.prepend(Module.new { def version(x); super + 1; end })
    check("prepended", Reloaded.new.version(round), 1 - round)
  end,
  "evaluation" => lambda do |round|
    local = round
    check("binding", binding.eval("local + 1"), round + 1)
    check("instance_exec", WORK.instance_exec(round) { |n| @state.class == Integer ? n : nil }, round)
    check("proc", proc { |a, (b, *c), d| [a, b, c, d] }.call(1, [2, 3], 4), [1, 2, [3], 4])
    check("caller", caller_locations(0, 1).first.path, __FILE__)
  end,
  "own tracing" => lambda do |_|
    seen = []
    thread = Thread.current
    (SILENCED_BY_COLLECTOR ? 3 : 1).times do
      seen.clear
      TracePoint.new(:call) { |tp| seen << tp.method_id if Thread.current == thread && tp.method_id == :deep }.enable do
        WORK.deep(2)
      end
      break if seen.size == 3
    end
    check("TracePoint", seen, %i[deep deep deep])
  end,
  "collector" => lambda do |round|
    GC.start if (round % 4).zero?
    GC.compact if (round % 8).zero? && GC.respond_to?(:compact)
    if (round % 16).zero?
      begin
        GC.stress = true
        check("stressed", [1, 2].map { |n| n.to_s * 2 }, %w[11 22])
      ensure
        GC.stress = false
      end
    end
    weak = ObjectSpace::WeakMap.new
    key = Object.new
    weak[key] = WORDS
    check("weak", weak[key], WORDS)
    sleep 0.02
  end,
  "signals" => lambda do |_|
    20.times do
      Process.kill(:USR1, Process.pid)
      sleep 0.001
    end
  end,
  "sleeper" => lambda do |_|
    began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    sleep 0.05
    raise Wrong, "sleep was cut short" if Process.clock_gettime(Process::CLOCK_MONOTONIC) - began < 0.05
  end,
}
if defined?(Ractor)
  WORKERS["ractors"] = lambda do |round|
    FORKS.synchronize do
      # Now and then one lives so long that sessions begin and end meanwhile.
      ractor = Ractor.new(round) { |n| sleep 0.2 if (n % 8).zero?; (1..20).sum { |i| i * n } }
      check("ractor", value_of_ractor(ractor), 210 * round)
      sleep 0.02 # until its thread has ended
    end
    sleep 0.05
  end
end
if Fiber.respond_to?(:set_scheduler)
  WORKERS["fiber scheduler"] = lambda do |round|
    results = []
    Thread.new do
      Fiber.set_scheduler(Scheduler.new)
      reader, writer = IO.pipe
      Fiber.schedule { results << reader.gets.to_i; reader.close }
      Fiber.schedule { sleep 0.002; writer.puts(round); writer.close }
      Fiber.schedule { 3.times { |i| sleep 0.001; results << i } }
    end.join
    check("scheduled", results.sort, [0, 1, 2, round].sort)
  end
end

# To look for a cause: SOAK_WITHOUT="own tracing,collector"
ENV.fetch("SOAK_WITHOUT", "").split(",").each { |name| WORKERS.delete(name) }

$signals = 0
trap(:USR1) { $signals += 1 }

class Crew
  def initialize
    @lock = Thread::Mutex.new
    @changed = Thread::ConditionVariable.new
    @paused = false
    @parked = 0
    @rounds = Hash.new(0)
    @failures = []
    @threads = WORKERS.map { |name, work| Thread.new { labour(name, work) }.tap { |thread| thread.name = name } }
  end

  def pause
    @lock.synchronize do
      @paused = true
      deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + REST_SECONDS
      until @parked == @threads.size || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
        @changed.wait(@lock, 0.1)
      end
      @threads.each do |thread|
        next if thread[:parked]

        failed("#{thread.name} hangs: #{thread.alive? ? thread.backtrace&.first(6)&.join(" < ") : "dead"}")
      end
      { "rounds" => @rounds.dup, "failures" => @failures.dup }
    end
  end

  def resume
    @lock.synchronize do
      @paused = false
      @changed.broadcast
    end
  end

  private

  def failed(text)
    @failures << text if @failures.size < 20
  end

  def labour(name, work)
    loop do
      park while @paused
      sleep 0.002 # for the others
      begin
        work.call(@rounds[name] += 1)
      rescue Errno::EMFILE, Errno::ENFILE, Errno::EAGAIN, Errno::ENOMEM, NoMemoryError
        # The driver has lowered a limit.
        sleep 0.01
      rescue Wrong => e
        failed("#{name}: #{e.message}")
      rescue Exception => e # rubocop:disable Lint/RescueException
        failed("#{name}: #{e.class}: #{e.message} (#{e.backtrace.first(4).join(" < ")})") unless limited?(e)
      end
    end
  end

  # What the low limit looks like from Ruby's own threads and processes.
  def limited?(error)
    error.is_a?(ThreadError) && error.message.include?("can't create Thread") || error.message.include?("Too many open files")
  end

  def park
    @lock.synchronize do
      Thread.current[:parked] = true
      @parked += 1
      @changed.broadcast
      @changed.wait(@lock) while @paused
      @parked -= 1
      Thread.current[:parked] = false
    end
  end
end

# What keeps files open that this application has not opened: names of their holders' classes, or of the VM's roots.
def holders
  files = ObjectSpace.each_object(File).select { |file| !file.closed? && file.path == __FILE__ }
  refers = ->(referred) { files.any? { |file| referred&.any? { |object| file.equal?(object) } } }
  roots = ObjectSpace.reachable_objects_from_root.select { |_, referred| refers.(referred) }.keys
  objects = ObjectSpace.each_object.select { |object| refers.(ObjectSpace.reachable_objects_from(object)) }
  {roots: roots, objects: objects.map { |object| object.class.name }.tally}
end

def count(number)
  counted = Counted.new
  shares = [number / 2, number / 3]
  shares << number - shares.sum
  { "returned" => shares.map { |share| Thread.new { share.times { |i| counted.call(i) }; share } }.sum(&:value) }
end

class Twin
  def traced(number)
    number + 1
  end

  def other(number)
    number + 1
  end
end

def seconds_for
  began = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
  yield
  Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) - began
end

# The best of many, in turn, so that what else runs here concerns both alike.
def ratio(one, other)
  pairs = Array.new(15) { [seconds_for(&one), seconds_for(&other)] }
  pairs.map(&:first).min / pairs.map(&:last).min
end

def speed
  twin = Twin.new
  { "ruby" => ratio(-> { i = 0; i = twin.traced(i) while i < 20_000 }, -> { i = 0; i = twin.other(i) while i < 20_000 }),
    "c" => ratio(-> { i = 0; (TABLE.key?("beta"); i += 1) while i < 20_000 },
                 -> { i = 0; (TABLE.member?("beta"); i += 1) while i < 20_000 }) }
end

VICTIM_ENDS = {
  "exit" => -> { exit 7 }, "exit!" => -> { exit!(7) }, "exec" => -> { exec("true") },
  "kill" => -> { Process.kill(:KILL, Process.pid); sleep },
  "abort" => -> { Signal.trap(:TERM, "DEFAULT"); Process.kill(:TERM, Process.pid); sleep },
  "raise" => -> { $stderr.reopen(File::NULL); raise "over" },
}.freeze

def victim(kind)
  go, $victim_stdin = IO.pipe
  pid = fork_apart do
    GC.stress = false
    $victim_stdin.close
    Thread.new { loop { WORK.add(1); WORK.deep(5); sleep 0.001 } }
    go.gets
    VICTIM_ENDS.fetch(kind).call
  end
  go.close
  $victim = pid
  { "pid" => pid }
end

def end_victim
  $victim_stdin.close
  _, status = Process.wait2($victim)
  { "status" => status.to_s }
end

crew = Crew.new
puts JSON.generate("pid" => Process.pid)
while (line = $stdin.gets)
  command, argument = line.split
  answer =
    case command
    when "pause" then crew.pause
    when "resume" then crew.resume; {}
    when "count" then count(Integer(argument))
    when "speed" then speed
    when "victim" then victim(argument)
    when "end" then end_victim
    when "collect" then 3.times { GC.start }; {}
    when "holders" then holders
    when "quit" then exit!(0)
    end
  puts JSON.generate(answer)
end
