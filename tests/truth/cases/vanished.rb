# Frames that are gone without an event.

class Case::Overflow
  def initialize
    @deeper = ->(n) { @deeper.call(n + 1) }
  end

  def top(x)
    @deeper.call(x)
  end

  def retrying(x)
    tries ||= 0
    tries += 1
    @deeper.call(x) if tries == 1
    tries
  rescue SystemStackError
    retry
  end

  def deep(n)
    deep(n + 1)
  end

  def rescuing
    top(1)
  rescue SystemStackError
    helper
  end

  def helper
    :helped
  end
end

overflow = Case::Overflow.new

truth "a stack overflow ends calls without a word", <<~TREE do
  Overflow#top(x=1) ~ ended
  Overflow#top(x=2) ~ ended
  Overflow#top(x=3) ~ ended
  Overflow#helper => :helped
TREE
  3.times do |i|
    overflow.top(i + 1)
  rescue SystemStackError
    nil
  end
  overflow.helper
end

truth "a stack overflow that is rescued", <<~TREE do
  Overflow#rescuing => :helped
    Overflow#top(x=1) ~ ended
    Overflow#helper => :helped
TREE
  overflow.rescuing
end

truth "a stack overflow and retry", <<~TREE do
  Overflow#retrying(x=1) => 2 (retried 1 time)
TREE
  overflow.retrying(1)
end
