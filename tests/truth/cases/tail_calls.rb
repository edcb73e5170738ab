# Methods that are compiled so that a call at their end takes their place: no event tells of their own end, nor of a result.

options = { tailcall_optimization: true, trace_instruction: false }
RubyVM::InstructionSequence.compile(<<~RUBY, __FILE__, __FILE__, __LINE__ + 1, **options).eval
  class Case::Tail
    def sum(n, total)
      return total if n == 0

      sum(n - 1, total + n)
    end

    def first(x)
      second(x + 1)
    end

    def second(x)
      helper(x)
      third(x)
    end

    def third(x)
      x * 2
    end

    def helper(x)
      x + 100
    end

    def to_core(x)
      Integer.sqrt(x)
    end

    def caller_of(x)
      y = to_core(x)
      helper(y)
      y
    end

    def refuse(x)
      raise ArgumentError, "no"
    end

    def refusing(x)
      refuse(x)
    end

    def to_block(x)
      yield x
    end

    def plain(x)
      helper(x)
      x
    end
  end
RUBY

tail = Case::Tail.new

truth "tail recursion", <<~TREE do
  Tail#sum(n=2, total=0) ~ ended
  Tail#sum(n=1, total=2) ~ ended
  Tail#sum(n=0, total=3) => 3
TREE
  raise "no" unless tail.sum(2, 0) == 3
end

truth "tail calls of other methods", <<~TREE do
  Tail#first(x=1) ~ ended
  Tail#second(x=2) ~ ended
    Tail#helper(x=2) => 102
  Tail#third(x=2) => 4
  Tail#helper(x=3) => 103
TREE
  raise "no" unless tail.first(1) == 4

  tail.helper(3)
end

truth "a tail call of a C method", <<~TREE do
  Tail#caller_of(x=16) => 4
    Tail#to_core(x=16) => 4
    Tail#helper(x=4) => 104
TREE
  tail.caller_of(16)
end

truth "a tail call that raises", <<~TREE do
  Tail#refusing(x=1) ~ ended
  Tail#refuse(x=1) ! ArgumentError: no
  Tail#helper(x=3) => 103
TREE
  begin
    tail.refusing(1)
  rescue ArgumentError
    nil
  end
  tail.helper(3)
end

truth "a call without a tail call", <<~TREE do
  Tail#plain(x=1) => 1
    Tail#helper(x=1) => 101
TREE
  tail.plain(1)
end
