# Ways in which methods are defined, found and called.

class Case::Base
  def greet(name)
    "hello #{name}"
  end

  alias salute greet

  def self.build(x)
    new.greet(x)
  end

  protected def guarded
    :guarded
  end

  def compare(other)
    other.guarded
  end
end

module Case::Loud
  def greet(name)
    super.upcase
  end
end

module Case::Polite
  def greet(name)
    "#{super}, please"
  end
end

class Case::Derived < Case::Base
  prepend Case::Loud
  include Case::Polite

  def greet(name)
    super("dear #{name}")
  end

  define_method(:defined) { |x, y = 2| x + y }
  define_method(:returning) { |x| [1, 2].each { |y| return x * y if y == 2 } }
  define_method(:unbound, Case::Base.instance_method(:compare))

  def method_missing(name, *args)
    name.to_s.start_with?("find_") ? [name, *args] : super
  end

  def respond_to_missing?(name, include_private = false)
    name.to_s.start_with?("find_") || super
  end

  def call_private
    hidden(1)
  end

  private

  def hidden(x)
    x
  end
end

module Case::Tools
  module_function

  def double(x)
    x * 2
  end
end

class Case::Arguments
  def optional(a, b = a * 2, *rest, c)
    [a, b, rest, c]
  end

  def keywords(a:, b: a + 1, **others)
    [a, b, others]
  end

  def splat(*, **)
    :nothing
  end

  def forwarding(*args, &block)
    optional(*args, &block)
  end

  def reassigned(x)
    x += 1
    x
  end
end

derived = Case::Derived.new
arguments = Case::Arguments.new

truth "super through a module, a class and its base", <<~TREE do
  Loud#greet(name="Ada") => "HELLO DEAR ADA, PLEASE"
    Derived#greet(name="Ada") => "hello dear Ada, please"
      Polite#greet(name="dear Ada") => "hello dear Ada, please"
        Base#greet(name="dear Ada") => "hello dear Ada"
    String#upcase => "HELLO DEAR ADA, PLEASE"
TREE
  derived.greet("Ada")
end

truth "an alias keeps its name", <<~TREE do
  Base#salute(name="Ada") => "hello Ada"
TREE
  Case::Base.new.salute("Ada")
end

truth "a singleton method", <<~TREE do
  Base.build(x="Bob") => "hello Bob"
    Base#greet(name="Bob") => "hello Bob"
TREE
  Case::Base.build("Bob")
end

truth "a method made of a block", <<~TREE do
  Derived#returning(x=5) => 10
    Array#each(&block=#<Proc>) ~ thrown
TREE
  derived.returning(5)
end

truth "method_missing", <<~TREE do
  Derived#method_missing(name=:find_tea, args=[1]) => [:find_tea, 1]
  Derived#respond_to_missing?(name=:find_cup, include_private=false) => true
TREE
  derived.find_tea(1)
  derived.respond_to?(:find_cup)
end

truth "private and protected methods", <<~TREE do
  Derived#call_private => 1
    Derived#hidden(x=1) => 1
  Base#compare(other=#<Derived>) => :guarded
    Base#guarded => :guarded
TREE
  derived.call_private
  derived.compare(derived)
end

truth "a module function", <<~TREE do
  Tools.double(x=4) => 8
TREE
  Case::Tools.double(4)
end

truth "send and method objects", <<~TREE do
  Derived#hidden(x=3) => 3
  Derived#hidden(x=4) => 4
TREE
  derived.send(:hidden, 3)
  derived.instance_eval { hidden(4) }
end

truth "optional arguments and a rest", <<~TREE do
  Arguments#optional(a=1, b=2, rest=[], c=3) => [1, 2, [], 3]
  Arguments#optional(a=1, b=2, rest=[3], c=4) => [1, 2, [3], 4]
TREE
  arguments.optional(1, 3)
  arguments.optional(1, 2, 3, 4)
end

truth "keywords", <<~TREE do
  Arguments#keywords(a=1, b=2, others={}) => [1, 2, {}]
  Arguments#keywords(a=1, b=5, others={:c=>3}) => [1, 5, {:c=>3}]
TREE
  arguments.keywords(a: 1)
  arguments.keywords(a: 1, b: 5, c: 3)
end

truth "arguments that are passed on", <<~TREE do
  Arguments#forwarding(args=[1, 2, 3], block=nil) => [1, 2, [], 3]
    Arguments#optional(a=1, b=2, rest=[], c=3) => [1, 2, [], 3]
TREE
  arguments.forwarding(1, 2, 3)
end

truth "an argument that is assigned to later", <<~TREE do
  Arguments#reassigned(x=1) => 2
TREE
  arguments.reassigned(1)
end
