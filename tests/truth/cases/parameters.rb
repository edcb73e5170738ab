# Parameters: which are named, in which order, and what they are at the call.

class Case::Parameters
  def destructured(a, (b, *c), d = 4, *e, ((f, g), *, h), i:, **j, &k)
    [a, b, c, d, e, f, g, h, i, j, k]
  end

  def nothing_named(a, (*), (*, b))
    [a, b]
  end

  def with_another_variable(a = (x, y = [1, 2]), (b, c))
    [a, x, y, b, c]
  end

  define_method(:of_a_block) { |(a, b), c| [a, b, c] }

  # Ruby names required keywords first.
  def keywords(a: 1, b:, c: a + 1, d:, **rest)
    [a, b, c, d, rest]
  end

  def reassigned(a, (b, c))
    a = b = c = 0
    [a, b, c]
  end
end

parameters = Case::Parameters.new
fewer = "[1, nil, [], 2, [3], 4, nil, nil, 5, {:z=>6}, nil]"

truth "destructured parameters", <<~TREE do
  Parameters#destructured(a=1, b=2, c=[3], d=4, e=[], f=5, g=6, h=8, i=9, j={}, k=nil) => [1, 2, [3], 4, [], 5, 6, 8, 9, {}, nil]
  Parameters#destructured(a=1, b=nil, c=[], d=2, e=[3], f=4, g=nil, h=nil, i=5, j={:z=>6}, k=nil) => #{fewer}
TREE
  parameters.destructured(1, [2, 3], [[5, 6], 7, 8], i: 9)
  parameters.destructured(1, nil, 2, 3, 4, i: 5, z: 6)
end

truth "destructured parameters without names", <<~TREE do
  Parameters#nothing_named(a=1, b=3) => [1, 3]
TREE
  parameters.nothing_named(1, [2], [2, 3])
end

truth "a default value that sets variables of its own, beside a destructured parameter", <<~TREE do
  Parameters#with_another_variable(a=[1, 2], b=3, c=4) => [[1, 2], 1, 2, 3, 4]
TREE
  parameters.with_another_variable([3, 4])
end

# Before 3.0, the event of such a method comes before it takes its arguments apart.
truth "destructured parameters of a block", <<~TREE do
  Parameters#of_a_block(#{"a=1, b=2, " if RUBY_VERSION >= "3.0"}c=3) => [1, 2, 3]
TREE
  parameters.of_a_block([1, 2], 3)
end

truth "required keywords come first", <<~TREE do
  Parameters#keywords(b=2, d=4, a=1, c=2, rest={}) => [1, 2, 2, 4, {}]
  Parameters#keywords(b=2, d=4, a=5, c=6, rest={:e=>7}) => [5, 2, 6, 4, {:e=>7}]
TREE
  parameters.keywords(b: 2, d: 4)
  parameters.keywords(d: 4, a: 5, b: 2, e: 7)
end

truth "arguments that the method changes at once", <<~TREE do
  Parameters#reassigned(a=1, b=2, c=3) => [0, 0, 0]
TREE
  parameters.reassigned(1, [2, 3])
end
