# Work that a profile is about. Commands are taken by the main thread, which waits for them.

require_relative "console"

class Work
  def busy
    turns = 0
    turns = add(turns) while $going
    turns
  end

  def add(turns)
    100.times { turns += 1 }
    turns
  end

  def wait
    sleep
  end

  def make(count)
    count.times { [Made.new, LargeMade.new] }
  end

  def fill(count)
    count.times { "x" * 2_000 }
  end
end

class Made; end

# Of so many instance variables that they have no room in a small object.
class LargeMade < Made
  def initialize
    40.times { |i| instance_variable_set("@v#{i}", i) }
  end
end

def make(count)
  Work.new.make(count)
end

# A thread that computes, and one that sleeps; both have names.
def go
  $going = true
  $threads = [Thread.new { Work.new.busy }, Thread.new { Work.new.wait }]
  $threads.zip(%w[computes sleeps]) { |thread, name| thread.name = name }
  :going
end

def halt
  $going = false
  $threads.each(&:kill).each(&:join)
  :halted
end

console
