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
