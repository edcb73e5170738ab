# What the benchmark measures: a program that does on request what its standard input says, and times itself.
#
#     ruby target.rb                    "NAME COUNT" on each line of stdin: runs that workload, prints the nanoseconds it took
#     ruby target.rb sleep|waiting|compute|join goes into that state for good
#     ruby target.rb gap                runs those workloads as well, and "gap 0" prints the longest time between two turns of its
#                                       loop since the last line, of its thread's CPU time
#
# With each time comes when it began, on CLOCK_MONOTONIC, so that others can go on counting from there.

require "io/wait"

class Bench
  def traced(value)
    value
  end

  # The same, which nobody traces.
  def untraced(value)
    value
  end

  def pair(first, second)
    first
  end

  def descend(depth)
    depth == 0 ? 0 : descend(depth - 1)
  end

  # The block, below so many frames.
  def below(depth, &block)
    depth == 0 ? block.call : below(depth - 1, &block)
  end

  def unused; end

  attr_reader :attribute
end

BENCH = Bench.new
SMALL = { 1 => 1 }
BUSY_THREADS = 8
TURNING_THREADS = 4

def now_ns
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

# A workload has its loop inside, so that a call of it costs what a call in real code costs.
WORKLOADS = {
  "traced" => lambda do |count|
    bench = BENCH
    i = 0
    while i < count
      bench.traced(i)
      i += 1
    end
  end,
  "untraced" => lambda do |count|
    bench = BENCH
    i = 0
    while i < count
      bench.untraced(i)
      i += 1
    end
  end,
  "pair" => lambda do |count|
    bench = BENCH
    i = 0
    while i < count
      bench.pair(i, "text")
      i += 1
    end
  end,
  "key" => lambda do |count|
    small = SMALL
    i = 0
    while i < count
      small.key?(1)
      i += 1
    end
  end,
  # An iteration is one of the calls.
  "deep" => lambda do |count|
    bench = BENCH
    bench.below(20) do
      i = 0
      while i < count
        bench.traced(i)
        i += 1
      end
    end
  end,
  "recursion" => lambda do |count|
    bench = BENCH
    count.fdiv(1_000).ceil.times { bench.descend(999) }
  end,
  "empty" => lambda do |count|
    i = 0
    i += 1 while i < count
  end,
  "attribute" => lambda do |count|
    bench = BENCH
    i = 0
    while i < count
      bench.attribute
      i += 1
    end
  end,
  # A Ruby method and a C method.
  "mixed" => lambda do |count|
    bench = BENCH
    small = SMALL
    i = 0
    while i < count
      bench.untraced(i)
      small.key?(1)
      i += 1
    end
  end,
  "threads" => lambda do |count|
    Array.new(BUSY_THREADS) { Thread.new { WORKLOADS["traced"].call(count / BUSY_THREADS) } }.each(&:join)
  end,
  # Threads that hand each other a token, and so the GVL.
  "turns" => lambda do |count|
    queues = Array.new(TURNING_THREADS) { Queue.new }
    threads = queues.each_index.map do |i|
      Thread.new do
        (count / TURNING_THREADS).times do
          queues[i].pop
          queues[(i + 1) % TURNING_THREADS] << 1
        end
      end
    end
    queues[0] << 1
    threads.each(&:join)
  end,
  "article" => lambda do |count|
    hash = $article
    keys = $article_keys
    i = 0
    while i < count
      hash.key?(keys.sample)
      i += 1
    end
  end,
  # Preparations; their times are of no interest.
  "article-build" => lambda do |count|
    $article = {}
    count.times { |i| $article["key #{i}"] = i }
    $article_keys = $article.keys
  end,
  "heap-build" => lambda do |count|
    $heap = Array.new(count) { |i| [i, "text of number #{i}, longer than what is embedded in its slot", { i => i }] }
  end,
  "heap-dump" => lambda do |count|
    require "objspace"
    require "tmpdir"
    count.times { File.open("#{Dir.tmpdir}/bench-heap-#{Process.pid}.json", "w") { |file| ObjectSpace.dump_all(output: file) } }
  end,
  "collect" => lambda do |count|
    count.times { GC.start }
  end,
}

# Classes with so many methods, and loops that call them in turn.
many = lambda do |number|
  type = Class.new { number.times { |i| class_eval "def m#{i}(value) value end" } }
  Object.const_set("Many#{number}", type)
  WORKLOADS["many-#{number}"] = eval(<<~RUBY) # a loop that names them, as code does; a hundred calls an iteration
    lambda do |count|
      many = Many#{number}.new
      i = 0
      while i < count
        #{Array.new(100) { |i| "many.m#{i * 97 % number}(i); i += 1" }.join("; ")}
      end
    end
  RUBY
end
WORKLOADS["many-build"] = many
WORKLOADS["objects-build"] = ->(count) { $objects = Array.new(count) { Object.new } and GC.start }
WORKLOADS["chain-build"] = ->(count) { $chain = (1..count).inject(Object) { |type, _| Class.new(type) } and GC.start }

STATES = {
  "sleep" => -> { sleep },
  "waiting" => lambda do
    queue = Queue.new
    wait = ->(levels) { levels.zero? ? queue.pop : wait.call(levels - 1) }
    100.times { Thread.new { wait.call(5) } }
    sleep
  end,
  "compute" => -> { WORKLOADS["traced"].call(1_000_000) while true },
  "gap" => lambda do
    turn = -> { Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond) }
    longest, last = 0, turn.call
    loop do
      longest = [longest, turn.call - last].max
      last = turn.call
      next unless $stdin.wait_readable(0)

      name, count = $stdin.gets.split
      WORKLOADS.fetch(name).call(Integer(count)) unless name == "gap"
      puts "#{longest} #{now_ns}"
      longest, last = 0, turn.call
    end
  end,
  "join" => lambda do
    Array.new(BUSY_THREADS) { Thread.new { WORKLOADS["untraced"].call(1_000_000) while true } }.each(&:join)
  end,
}

$stdout.sync = true
puts "ready"
STATES.fetch(ARGV.first).call if ARGV.first
# Not in a blocking read, in which some Rubies do not look at what a signal handler has asked for.
while $stdin.wait_readable && (line = $stdin.gets)
  name, count = line.split
  began_ns = now_ns
  WORKLOADS.fetch(name).call(Integer(count))
  puts "#{now_ns - began_ns} #{began_ns}"
end
