# A process whose main thread is in a given state: states.rb STATE. Says "ready" when it is.

$stdout.sync = true

require "socket"

def busy_threads(count)
  Array.new(count) { Thread.new { nil while true } }
end

STATES = {
  "sleep" => -> { sleep },
  "join" => -> { Thread.new { sleep }.join },
  "queue" => -> { $keep = Thread.new { sleep }; Queue.new.pop },
  "select" => -> { IO.select([$stdin]) },
  "mutex" => lambda do
    mutex = Mutex.new
    locked = Queue.new
    $keep = Thread.new { mutex.synchronize { locked << 1; sleep } }
    locked.pop
    mutex.lock
  end,
  "condition variable" => -> { $keep = Thread.new { sleep }; (m = Mutex.new).synchronize { ConditionVariable.new.wait(m) } },
  "wait for a child" => -> { Process.wait(spawn("sleep", "600", in: :close, out: :close)) },
  "blocking read" => -> { IO.pipe[0].tap { |r| $keep = r }.read },
  "read of standard input" => -> { $stdin.read },
  "accept" => -> { TCPServer.new("127.0.0.1", 0).accept },
  "busy" => -> { nil while true },
  "join with a busy thread" => -> { busy_threads(1).first.join },
  "join with eight busy threads" => -> { busy_threads(8).first.join },
  "busy among busy threads" => -> { busy_threads(3); nil while true },
}.freeze

if $PROGRAM_NAME == __FILE__
  main = Thread.current
  # Where the state is one of waiting, it has been reached when the thread sleeps.
  Thread.new do
    sleep 0.001 until main.stop? || ARGV[0].start_with?("busy")
    puts "ready"
  end
  STATES.fetch(ARGV[0]).call
end
