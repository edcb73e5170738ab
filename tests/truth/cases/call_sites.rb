# Where calls are made: __source__.

class Case::Sites
  def called(x)
    x
  end

  def directly(x)
    called(x) # from here
  end

  def from_a_block(x)
    x.upto(x) { |y| called(y) } # from here, too
    1.times do
      called(x) # and from here
    end
  end

  def by_send(x)
    send(:called, x) # the nearest place in Ruby
  end
end

sites = Case::Sites.new
line_of = ->(comment) { File.readlines(__FILE__).index { |line| line.end_with?("# #{comment}\n") } + 1 }
at = ->(comment) { "__source__=#{__FILE__}:#{line_of.(comment)}" }

Truth.expressions["Case::Sites#"] = "__source__"
Truth.expressions["String#swapcase"] = "__source__"
Truth.trace("String#swapcase")

truth "the place of a call", <<~TREE do
  Sites#directly(#{at.("first call")}, x=1) => 1
    Sites#called(#{at.("from here")}, x=1) => 1
TREE
  sites.directly(1) # first call
end

truth "the place of a call in a block", <<~TREE do
  Sites#from_a_block(#{at.("second call")}, x=2) => 1
    Sites#called(#{at.("from here, too")}, x=2) => 2
    Sites#called(#{at.("and from here")}, x=2) => 2
TREE
  sites.from_a_block(2) # second call
end

truth "the place of a call by a C method", <<~TREE do
  Sites#by_send(#{at.("third call")}, x=3) => 3
    Sites#called(#{at.("the nearest place in Ruby")}, x=3) => 3
TREE
  sites.by_send(3) # third call
end

truth "the place of a C method's call", <<~TREE do
  String#swapcase(#{at.("fourth call")}) => "aB"
TREE
  "Ab".swapcase # fourth call
end
