# A program like the one in rbtrace's README: it goes round and round, nested calls and a pause each time. ARGV: seconds to
# pause; code for the rounds in the place of README's.

class String
  def stretch(times)
    @seen = 123
    gsub(/[aeiou]/) { |vowel| vowel * times }
  end
end

class Shop
  attr_reader :total

  def self.open(name, size: 3)
    new
  end

  def initialize
    @total = 7
  end

  def add(item, *rest, key: nil, &block)
    block&.call(item)
  end

  def compute(rounds)
    i = 0
    i += 1 while i < rounds
  end
end

pause = (ARGV[0] || 0.02).to_f
code = ARGV[1]
shop = Shop.new
null = File.open(File::NULL, "w")
other_round = code && eval("proc { #{code} }") # rubocop:disable Security/Eval
$stdout.sync = true
puts "ready"

while other_round
  other_round.call
  sleep pause
end

while true
  proc {
    Dir.chdir("/tmp") do
      Dir.pwd
      Process.pid
      "hello".stretch(3)
      sleep rand * 0.01 + pause
    end
  }.call
end
