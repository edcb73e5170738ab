# Ruby's own methods, most of them written in C.

Truth.trace("Array#each", "Array#sort_by!", "BasicObject#instance_exec", "Enumerable#each_with_object", "Enumerable#inject",
            "Hash#fetch", "Kernel#Integer", "Kernel#catch", "Kernel#public_send", "Method#call", "Process.pid", "String#center",
            "String#gsub", "String#upcase", "Struct#each")

class Case::Yielding
  include Enumerable

  def initialize(*items)
    @items = items
  end

  def each
    i = 0
    while i < @items.size
      yield @items[i]
      i += 1
    end
    self
  end

  def double(x)
    x * 2
  end

  def refuse(x)
    raise ArgumentError, "no #{x}"
  end

  def key(x)
    -x
  end

  def public_one(x)
    x
  end
end

yielding = Case::Yielding.new(3, 1, 2)

truth "a C method without a block", <<~TREE do
  String#upcase => "ABC"
  String#center(arg1=9, arg2="*") => "***abc***"
  String#center(arg1=5) => " abc "
TREE
  "abc".upcase
  "abc".center(9, "*")
  "abc".center(5)
end

truth "break out of a C method", <<~TREE do
  Array#each(&block=#<Proc>) => 7
  Array#each(&block=#<Proc>) => nil
TREE
  raise "no" unless [1, 2].each { break 7 } == 7

  [1, 2].each { break }
end

truth "a C method that yields to a method", <<~TREE do
  Array#each(&block=#<Proc>) => [1, 2]
    Yielding#double(x=1) => 2
    Yielding#double(x=2) => 4
TREE
  [1, 2].each { |x| yielding.double(x) }
end

truth "a C method that an exception leaves", <<~TREE do
  Array#each(&block=#<Proc>) ! ArgumentError: no 1
    Yielding#refuse(x=1) ! ArgumentError: no 1
TREE
  begin
    [1, 2].each { |x| yielding.refuse(x) }
  rescue ArgumentError
    nil
  end
end

truth "yield across a C method", <<~TREE do
  Enumerable#each_with_object(arg1=[], &block=#<Proc>) => [6, 2, 4]
    Yielding#each => #<Yielding>
      Yielding#double(x=3) => 6
      Yielding#double(x=1) => 2
      Yielding#double(x=2) => 4
TREE
  yielding.each_with_object([]) { |x, all| all << yielding.double(x) }
end

truth "break across a C method and one in Ruby", <<~TREE do
  Enumerable#each_with_object(arg1=[], &block=#<Proc>) => 3
    Yielding#each ~ thrown
TREE
  yielding.each_with_object([]) { |x, _| break x }
end

truth "KeyError of fetch", <<~TREE do
  Hash#fetch(arg1=:tea) ! KeyError: key not found: :tea
TREE
  begin
    {}.fetch(:tea)
  rescue KeyError
    nil
  end
end

truth "public_send", <<~TREE do
  Kernel#public_send(arg1=:public_one, arg2=6) => 6
    Yielding#public_one(x=6) => 6
TREE
  yielding.public_send(:public_one, 6)
end

truth "a Method object", <<~TREE do
  Method#call(arg1=6) => 12
    Yielding#double(x=6) => 12
TREE
  yielding.method(:double).call(6)
end

truth "a C method that calls back for each element", <<~TREE do
  Array#sort_by!(&block=#<Proc>) => [3, 2]
    Array#each(&block=#<Proc>) => [2, 3]
      Yielding#key(x=2) => -2
      Yielding#key(x=3) => -3
TREE
  [2, 3].sort_by! { |x| yielding.key(x) }
end

truth "enumerators without a block", <<~TREE do
  Array#each => #<Enumerator: [1]:each>
  Struct#each => #<Enumerator: #<struct a=1>:each>
TREE
  [1].each
  Struct.new(:a).new(1).each
end

truth "a singleton method in C", <<~TREE do
  Process.pid => #{Process.pid}
TREE
  Process.pid
end

truth "a block that a C method of any arity is given", <<~TREE do
  String#gsub(arg1="b", &block=#<Proc>) => "aXXc"
  Hash#fetch(arg1=:none, &block=#<Proc>) => :none
  Enumerable#inject(arg1=10, &block=#<Proc>) => 16
    Yielding#each => #<Yielding>
  Enumerable#inject(arg1=:+) => 6
    Yielding#each => #<Yielding>
TREE
  "abbc".gsub("b") { "X" }
  {}.fetch(:none) { |key| key }
  yielding.inject(10) { |sum, x| sum + x }
  yielding.inject(:+)
end

truth "catch and throw", <<~TREE do
  Kernel#catch(arg1=:done, &block=#<Proc>) => 5
    Array#each(&block=#<Proc>) ~ thrown
      Yielding#double(x=1) => 2
TREE
  catch(:done) { [1, 2].each { |x| throw :done, yielding.double(x) + 3 } }
end

truth "catch without a throw", <<~TREE do
  Kernel#catch(&block=#<Proc>) => :over
TREE
  catch { :over }
end

truth "instance_exec", <<~TREE do
  BasicObject#instance_exec(arg1=4, &block=#<Proc>) => 8
    Yielding#double(x=4) => 8
TREE
  yielding.instance_exec(4) { |x| double(x) }
end

truth "a C method that raises by itself", <<~TREE do
  Kernel#Integer(arg1="abc") ! ArgumentError: invalid value for Integer(): "abc"
TREE
  begin
    Integer("abc")
  rescue ArgumentError
    nil
  end
end
