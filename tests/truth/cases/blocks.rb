# Blocks: how they give values, and how they end what called them.

class Case::Blocks
  def once(x)
    yield x
  end

  def twice(x)
    [yield(x), yield(x + 1)]
  end

  def through(x, &block)
    once(x, &block)
  end

  def first_even(list)
    list.each { |x| return x if once(x) { |y| y.even? } }
    nil
  end

  def each_item
    [1, 2].each { |item| yield item }
    :all
  end

  def looped
    n = 0
    loop { n += 1; break n * 10 if n == 2 }
  end

  def ensured(log)
    yield
  ensure
    log << helper
  end

  def helper
    :helped
  end

  def next_in_block
    once(3) { |x| next x * 2 }
  end

  def redo_in_block
    tries = 0
    once(1) { tries += 1; redo if tries < 3; tries }
  end

  def proc_return
    pr = proc { return :from_proc }
    once(pr) { |x| x.call }
    :not_here
  end

  def lambda_return
    la = lambda { |x| return x * 3 }
    once(la) { |x| x.call(7) } + 1
  end

  def block_argument(&block)
    block
  end
end

blocks = Case::Blocks.new

truth "a block gives a value", <<~TREE do
  Blocks#once(x=1) => 2
TREE
  blocks.once(1) { |x| x + 1 }
end

truth "a block twice", <<~TREE do
  Blocks#twice(x=1) => [10, 20]
TREE
  blocks.twice(1) { |x| x * 10 }
end

truth "break gives the caller its value", <<~TREE do
  Blocks#once(x=1) => 5
  Blocks#helper => :helped
TREE
  raise "no" unless blocks.once(1) { break 5 } == 5

  blocks.helper
end

truth "break without a value", <<~TREE do
  Blocks#once(x=1) => nil
TREE
  blocks.once(1) { break }
end

truth "break through another method", <<~TREE do
  Blocks#through(x=1, block=#<Proc>) => [1]
    Blocks#once(x=1) ~ thrown
TREE
  blocks.through(1) { |x| break [x] }
end

truth "break runs ensure", <<~TREE do
  Blocks#ensured(log=[]) => :out
    Blocks#helper => :helped
TREE
  blocks.ensured([]) { break :out }
end

truth "break across a C method", <<~TREE do
  Blocks#each_item => 1
    Array#each(&block=#<Proc>) ~ thrown
TREE
  blocks.each_item { |x| break x }
end

truth "return from a block", <<~TREE do
  Blocks#first_even(list=[1, 2, 3]) => 2
    Array#each(&block=#<Proc>) ~ thrown
      Blocks#once(x=1) => false
      Blocks#once(x=2) => true
TREE
  blocks.first_even([1, 2, 3])
end

truth "loop with break", <<~TREE do
  Blocks#looped => 20
TREE
  blocks.looped
end

truth "next in a block", <<~TREE do
  Blocks#next_in_block => 6
    Blocks#once(x=3) => 6
TREE
  blocks.next_in_block
end

truth "redo in a block", <<~TREE do
  Blocks#redo_in_block => 3
    Blocks#once(x=1) => 3
TREE
  blocks.redo_in_block
end

truth "return in a proc", <<~TREE do
  Blocks#proc_return => :from_proc
    Blocks#once(x=#<Proc>) ~ thrown
TREE
  blocks.proc_return
end

truth "return in a lambda", <<~TREE do
  Blocks#lambda_return => 22
    Blocks#once(x=#<Proc>) => 21
TREE
  blocks.lambda_return
end

truth "a block that is passed", <<~TREE do
  Blocks#block_argument(block=#<Proc>) => #<Proc>
  Blocks#block_argument(block=nil) => nil
TREE
  blocks.block_argument { 1 }
  blocks.block_argument
end

truth "a symbol as a block", <<~TREE do
  Blocks#once(x=4) => true
TREE
  blocks.once(4, &:even?)
end

truth "a method as a block", <<~TREE do
  Blocks#through(x=4, block=#<Proc>) => 4
    Blocks#once(x=4) => 4
      Blocks#once(x=4) => 4
TREE
  blocks.through(4) { |x| blocks.once(x) { |y| y } }
end
