# Threads that alternate between work and waiting, and measure by their own clocks how much CPU time each part takes. A profile
# has to say the same.

require "json"
require_relative "console"

# A thread's work, and one way of waiting.
class Alternating
  attr_reader :spent, :thread

  def initialize(name, work, &wait)
    @spent = { "work" => 0, "more" => 0, "wait" => 0 }
    @wait = wait
    @thread = Thread.new { loop { turn(work) } }
    @thread.name = name
  end

  def turn(work)
    work(2 * work)
    more(work)
    wait
  end

  def work(nanoseconds)
    count("work") { burn(nanoseconds) }
  end

  def more(nanoseconds)
    count("more") { burn(nanoseconds) }
  end

  def wait
    count("wait") { @wait.call }
  end

  def clock
    Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  end

  def count(part)
    began = clock
    yield
    @spent[part] += clock - began
  end

  def burn(nanoseconds)
    ends = clock + nanoseconds
    nil while clock < ends
  end
end

def one(seconds)
  $threads = [Alternating.new("sleeps", 1_000_000) { sleep seconds }]
  :started
end

# Somebody else pushes, and holds the mutex.
def many(seconds)
  queue, mutex = Queue.new, Mutex.new
  reader, $writer = IO.pipe
  $helper = Thread.new do
    loop do
      mutex.synchronize { sleep seconds }
      queue << 1 if queue.empty?
      Thread.pass
    end
  end
  $threads = [Alternating.new("sleeps", 1_000_000) { sleep seconds },
              Alternating.new("pops", 1_000_000) { queue.pop },
              Alternating.new("selects", 2_000_000) { IO.select([reader], nil, nil, seconds) },
              Alternating.new("locks", 1_000_000) { mutex.synchronize { nil } },
              Alternating.new("computes", 1_000_000) { nil }]
  :started
end

def truth
  JSON.generate($threads.to_h { |one| [one.thread.name, one.spent] })
end

console
