# A program that does what it is told, a line each, and answers with what is true of it, as JSON.

require "json"

class Work
  def step(i)
    i
  end
end

class List < Array
  alias_method :step, :at # a method written in C
end

class Kept
end

KeptPair = Struct.new(:left, :right)

# Each thread knows its own frames: those of the line in which it then waits.
class Waiting
  def initialize(known, queue)
    @known = known
    @queue = queue
  end

  def park
    @known[Thread.current.name] = caller_locations(0).map { |at| [at.path, at.lineno, at.label, at.base_label] }; @queue.pop
  end

  def deep(levels)
    levels.zero? ? park : deep(levels - 1)
  end

  def in_blocks
    [1].each { |_| 1.times { park } }
  end

  def rescued
    raise "now"
  rescue RuntimeError
    begin
      park
    ensure
      @queue
    end
  end

  define_method(:defined) { |&block| block.call }

  def in_a_fiber
    Fiber.new { deep(1) }.resume
  end

  def self.of_the_class(waiting)
    waiting.park
  end
end

ANSWERS = {
  "step" => ->(count) { (1..count).each { |_| WORK.step(STEPS[0] += 1) }; STEPS[0] },
  "list" => ->(count) { (1..count).each { |_| LIST.step(STEPS[0] += 1) }; STEPS[0] },
  "keep" => lambda do |count|
    $kept = [Array.new(count) { Kept.new }, Array.new(count / 2) { KeptPair.new }, Array.new(count / 3) { "kept".dup }]
    GC.start
    [Kept, KeptPair].to_h { |kind| [kind, ObjectSpace.each_object(kind).count] }
  end,
  "wait" => lambda do |_|
    known = {}
    waiting = Waiting.new(known, queue = Queue.new)
    ways = { "deep" => -> { waiting.deep(5) }, "blocks" => -> { waiting.in_blocks }, "rescue" => -> { waiting.rescued },
             "define_method" => -> { waiting.defined { waiting.park } }, "fiber" => -> { waiting.in_a_fiber },
             "eval" => -> { eval("waiting.park", binding, "(some code)", 7) }, "class" => -> { Waiting.of_the_class(waiting) },
             "send" => -> { waiting.public_send(:method_missing_here) rescue waiting.park } }
    ways.each { |name, way| Thread.new { Thread.current.name = name; way.call } }
    Thread.pass until queue.num_waiting == ways.size
    known
  end,
  "fork" => lambda do |_|
    # It goes on reading the pipe that it is given.
    commands, $to_child = IO.pipe
    fork do
      $stdin.reopen(commands)
      serve
    end
  end,
  "tell" => ->(count) { $to_child.puts("step #{count}"); $to_child.flush },
}.freeze

WORK = Work.new
LIST = List.new
STEPS = [0]
$stdout.sync = true

def serve
  while (line = $stdin.gets)
    name, count = line.split
    puts JSON.generate(name => ANSWERS.fetch(name).call(count.to_i))
  end
end

puts JSON.generate("ready" => Process.pid)
serve
