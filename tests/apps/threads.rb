# Threads in every state that a backtrace can show, each with a name of its own.

require "monitor"
require_relative "console"

Server = Class.new

# Returns when the thread has come to rest.
def thread(name)
  Thread.new { yield }.tap do |thread|
    thread.name = name
    Thread.pass until %w[sleep].include?(thread.status)
  end
end

def nap
  [1].each do
    sleep
  end
end

def waiting_threads
  $queue = Queue.new
  full = SizedQueue.new(1)
  full << 1
  $pipe = IO.pipe
  mutex = Mutex.new
  condition = ConditionVariable.new
  popper = thread("popper") { $queue.pop }
  sleeper = thread("sleeper") { nap }
  thread("pusher") { full.push(2) }
  thread("reader") { $pipe[0].read }
  thread("selector") { IO.select([$pipe[0]]) }
  thread("joiner") { sleeper.join }
  thread("valuer") { sleeper.value }
  thread("stopped") { Thread.stop }
  thread("conditional") { mutex.synchronize { condition.wait(mutex) } }
  $popper = popper
  nil
end

def release_popper
  $queue << 1
  $popper.join
  nil
end

class Office
  class Door
    def open
      Office.new.run
    end
  end

  def run
    [1].each do
      Office.work
    end
  end

  def self.work
    sleep
  end
end

def waiting_in_methods
  thread("in methods") { Office::Door.new.open }
  nil
end

def contended_mutex
  mutex = Mutex.new
  monitor = Monitor.new
  thread("holder") { monitor.synchronize { mutex.synchronize { sleep } } }
  thread("waiter") { mutex.synchronize { nil } }
  thread("monitor waiter") { monitor.synchronize { nil } }
  nil
end

def busy_threads(count)
  count.times do |i|
    Thread.new { loop { i += 1 } }.name = "busy #{i}"
  end
  nil
end

def described_thread
  group = ThreadGroup.new
  described = thread("described") do
    Thread.current[:job] = "invoice 7"
    Thread.current.thread_variable_set(:attempt, 3)
    Thread.current.instance_variable_set(:@server, Server.new)
    sleep
  end
  described.priority = 2
  group.add(described)
  nil
end

def many_threads(count)
  queue = Queue.new
  count.times { |i| thread("many #{i}") { queue.pop } }
  nil
end

def descend(levels)
  levels.zero? ? sleep : descend(levels - 1)
end

def deep_thread(levels)
  thread("deep") { descend(levels) }
  nil
end

def start_worker
  fork { sleep }
end

# In the thread's own fiber, in one that it resumes, and in one that that resumes; and within an enumerator.
def resuming_fibers
  thread("nested") do
    outer = 1
    middle = Fiber.new { |number| Fiber.new { sleep number + outer }.resume }
    middle.resume(10_000)
  end
  thread("enumerating") { Enumerator.new { sleep }.next }
  nil
end

def waiting_fiber
  $fiber = Fiber.new do
    Fiber.yield
  end
  $fiber.resume
  nil
end

console
