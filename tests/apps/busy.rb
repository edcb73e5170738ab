# Threads that work without pause: busy.rb [THREADS]. `go` lets them begin, `halt` makes them stop and returns how many calls
# of Work#step there have been. Commands are taken by the main thread.

require_relative "console"

class Work
  attr_reader :steps

  def initialize
    @steps = 0
  end

  def step(number)
    @steps += 1
    number
  end
end

$works = Array.new(Integer(ARGV.fetch(0, "1"))) { Work.new }
$going = false

def go
  $going = true
  $threads = $works.map do |work|
    Thread.new { work.step(1) while $going }
  end
  :going
end

def halt
  $going = false
  $threads.each(&:join)
  steps
end

def steps
  $works.sum(&:steps)
end

console
