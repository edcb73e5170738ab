# Fibers and threads.

class Case::Steps
  def walk(limit)
    limit.times { |i| Fiber.yield step(i) }
    :walked
  end

  def step(i)
    i * 10
  end

  def wrapped(x)
    fiber = Fiber.new { step(x) }
    fiber.resume
  end

  def each
    return enum_for(:each) unless block_given?

    yield step(1)
    yield step(2)
  end

  def work(n)
    n.zero? ? 0 : 1 + work(n - 1)
  end
end

steps = Case::Steps.new

truth "a fiber has a tree of its own", <<~TREE do
  Steps#wrapped(x=4) => 40
  --
  Steps#step(i=4) => 40
TREE
  steps.wrapped(4)
end

truth "a fiber that is resumed again and again", <<~TREE do
  Steps#step(i=7) => 70
  Steps#step(i=8) => 80
  Steps#step(i=9) => 90
  --
  Steps#walk(limit=2) => :walked
    Steps#step(i=0) => 0
    Steps#step(i=1) => 10
TREE
  fiber = Fiber.new { steps.walk(2) }
  3.times do |i|
    steps.step(7 + i)
    fiber.resume
  end
end

truth "an enumerator", <<~TREE do
  Steps#each => #<Enumerator: #<Steps>:each>
  Steps#each => nil
    Steps#step(i=1) => 10
    Steps#step(i=2) => 20
TREE
  steps.each.to_a
end

count = 20
depth = 30
tree = (0..depth).map { |i| "#{"  " * i}Steps#work(n=#{depth - i}) => #{depth - i}\n" }.join
truth "many threads", (1..count).map { |i| "-- #{i}\n#{tree * 5}" }.join do
  threads = (1..count).map do |i|
    Thread.new do
      Thread.current.name = "many threads #{i}"
      5.times { steps.work(depth); Thread.pass }
    end
  end
  threads.pop.join while threads.any?
end
