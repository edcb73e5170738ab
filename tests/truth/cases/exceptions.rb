# How calls end that do not return.

class Case::Errors
  class Refused < StandardError
    def initialize(text = "refused")
      super
    end
  end

  class Chatty < StandardError
    def message
      raise "not to be run"
    end
  end

  def refuse(x)
    raise Refused, "no #{x}"
  end

  def refuse_plainly
    raise Refused
  end

  def without_message
    raise RuntimeError
  end

  def raise_chatty
    raise Chatty, "what was said"
  end

  def let_through(x)
    refuse(x)
  end

  def rescued(x)
    refuse(x)
  rescue Refused => error
    error.class
  end

  def ensured(x)
    refuse(x)
  ensure
    helper
  end

  def ensure_that_returns(x)
    refuse(x)
  ensure
    return helper # rubocop:disable Lint/EnsureReturn
  end

  def reraised(x)
    refuse(x)
  rescue Refused
    raise
  end

  def wrapped(x)
    refuse(x)
  rescue Refused
    raise ArgumentError, "wrapped"
  end

  def helper
    :helped
  end

  def retried(times)
    tries ||= 0
    tries += 1
    refuse(tries) if tries < times
    tries
  rescue Refused
    retry
  end

  def retried_in_begin(times)
    tries = 0
    begin
      tries += 1
      refuse(tries) if tries < times
    rescue Refused
      retry
    end
    tries
  end

  def retried_recursively(depth)
    tries ||= 0
    tries += 1
    retried_recursively(depth - 1) if depth > 0
    refuse(depth) if tries == 1
    tries
  rescue Refused
    retry
  end

  def thrower
    throw :out, 9
  end

  def throw_inside
    thrower
  ensure
    helper
  end

  def catcher
    catch(:out) { throw_inside }
  end

  def throws_to_nobody
    throw :nobody
  end

  def undefined_name
    nothing_of_that_name
  end

  def undefined_method
    Object.new.nothing_of_that_name(1)
  end

  def of_nil
    nil.foo
  end

  def divide
    1 / 0
  end

  def frozen
    "a".freeze << "b"
  end

  def deep(n)
    deep(n + 1)
  end

  def else_branch(x)
    helper
  rescue Refused
    :rescued
  else
    x
  end

  def wait
    sleep
  end

  def leave
    exit(3)
  end
end

errors = Case::Errors.new
quietly = lambda do |kind = StandardError, &code|
  code.call
rescue kind
  nil
end

truth "an exception", <<~TREE do
  Errors#let_through(x=1) ! Errors::Refused: no 1
    Errors#refuse(x=1) ! Errors::Refused: no 1
      Errors::Refused#initialize(text="no 1") => #<Errors::Refused: no 1>
TREE
  quietly.call { errors.let_through(1) }
end

truth "an exception with the message of its class", <<~TREE do
  Errors#refuse_plainly ! Errors::Refused: refused
    Errors::Refused#initialize(text="refused") => #<Errors::Refused: refused>
  Errors#without_message ! RuntimeError: RuntimeError
TREE
  quietly.call { errors.refuse_plainly }
  quietly.call { errors.without_message }
end

truth "rescue", <<~TREE do
  Errors#rescued(x=1) => Errors::Refused
    Errors#refuse(x=1) ! Errors::Refused: no 1
      Errors::Refused#initialize(text="no 1") => #<Errors::Refused: no 1>
TREE
  errors.rescued(1)
end

truth "ensure", <<~TREE do
  Errors#ensured(x=1) ! Errors::Refused: no 1
    Errors#refuse(x=1) ! Errors::Refused: no 1
      Errors::Refused#initialize(text="no 1") => #<Errors::Refused: no 1>
    Errors#helper => :helped
TREE
  quietly.call { errors.ensured(1) }
end

truth "return in ensure", <<~TREE do
  Errors#ensure_that_returns(x=1) => :helped
    Errors#refuse(x=1) ! Errors::Refused: no 1
      Errors::Refused#initialize(text="no 1") => #<Errors::Refused: no 1>
    Errors#helper => :helped
TREE
  errors.ensure_that_returns(1)
end

truth "raised again", <<~TREE do
  Errors#reraised(x=1) ! Errors::Refused: no 1
    Errors#refuse(x=1) ! Errors::Refused: no 1
      Errors::Refused#initialize(text="no 1") => #<Errors::Refused: no 1>
  Errors#wrapped(x=2) ! ArgumentError: wrapped
    Errors#refuse(x=2) ! Errors::Refused: no 2
      Errors::Refused#initialize(text="no 2") => #<Errors::Refused: no 2>
TREE
  quietly.call { errors.reraised(1) }
  quietly.call { errors.wrapped(2) }
end

truth "retry in a method's rescue", <<~TREE do
  Errors#retried(times=4) => 4 (retried 3 times)
    Errors#refuse(x=1) ! Errors::Refused: no 1
      Errors::Refused#initialize(text="no 1") => #<Errors::Refused: no 1>
    Errors#refuse(x=2) ! Errors::Refused: no 2
      Errors::Refused#initialize(text="no 2") => #<Errors::Refused: no 2>
    Errors#refuse(x=3) ! Errors::Refused: no 3
      Errors::Refused#initialize(text="no 3") => #<Errors::Refused: no 3>
  Errors#retried(times=1) => 1
TREE
  errors.retried(4)
  errors.retried(1)
end

truth "retry and recursion", <<~TREE do
  Errors#retried_recursively(depth=1) => 2 (retried 1 time)
    Errors#retried_recursively(depth=0) => 2 (retried 1 time)
      Errors#refuse(x=0) ! Errors::Refused: no 0
        Errors::Refused#initialize(text="no 0") => #<Errors::Refused: no 0>
    Errors#refuse(x=1) ! Errors::Refused: no 1
      Errors::Refused#initialize(text="no 1") => #<Errors::Refused: no 1>
    Errors#retried_recursively(depth=0) => 2 (retried 1 time)
      Errors#refuse(x=0) ! Errors::Refused: no 0
        Errors::Refused#initialize(text="no 0") => #<Errors::Refused: no 0>
TREE
  errors.retried_recursively(1)
end

truth "retry in begin", <<~TREE do
  Errors#retried_in_begin(times=2) => 2
    Errors#refuse(x=1) ! Errors::Refused: no 1
      Errors::Refused#initialize(text="no 1") => #<Errors::Refused: no 1>
TREE
  errors.retried_in_begin(2)
end

truth "a throw that nobody catches", <<~TREE do
  Errors#throws_to_nobody ! UncaughtThrowError: uncaught throw :nobody
TREE
  quietly.call(UncaughtThrowError) { errors.throws_to_nobody }
end

truth "names that are not defined", <<~TREE do
  Errors#undefined_name ! NameError: undefined: :nothing_of_that_name for #<Errors>
  Errors#undefined_method ! NoMethodError: undefined: :nothing_of_that_name for #<Object>
  Errors#of_nil ! NoMethodError: undefined: :foo for nil
TREE
  quietly.call(NameError) { errors.undefined_name }
  quietly.call(NameError) { errors.undefined_method }
  quietly.call(NameError) { errors.of_nil }
end

truth "a message method that is not to be run", <<~TREE do
  Errors#raise_chatty ! Errors::Chatty: what was said (its own message method was not called)
TREE
  begin
    errors.raise_chatty
  rescue Case::Errors::Chatty
    nil
  end
end

truth "errors of the VM", <<~TREE do
  Errors#divide ! ZeroDivisionError: divided by 0
  Errors#frozen ! FrozenError: can't modify frozen String: "a"
TREE
  quietly.call { errors.divide }
  quietly.call { errors.frozen }
end

truth "else", <<~TREE do
  Errors#else_branch(x=4) => 4
    Errors#helper => :helped
TREE
  errors.else_branch(4)
end

truth "exit", <<~TREE do
  Errors#leave ! SystemExit: exit
TREE
  quietly.call(SystemExit) { errors.leave }
end

truth "a thread is killed", <<~TREE do
  -- waiting
  Errors#wait ~ killed
TREE
  thread = Thread.new { Thread.current.name = "a thread is killed waiting"; errors.wait }
  Thread.pass until thread.stop?
  thread.kill.join
end

truth "an exception from another thread", <<~TREE do
  Errors::Refused#initialize(text="wake up") => #<Errors::Refused: wake up>
  -- waiting
  Errors#wait ! Errors::Refused: wake up
TREE
  thread = Thread.new do
    Thread.current.name = "an exception from another thread waiting"
    Thread.current.report_on_exception = false
    errors.wait
  end
  Thread.pass until thread.stop?
  thread.raise(Case::Errors::Refused, "wake up")
  quietly.call { thread.join }
end

truth "throw through methods", <<~TREE do
  Errors#catcher => 9
    Kernel#catch(arg1=:out, &block=#<Proc>) => 9
      Errors#throw_inside ~ thrown
        Errors#thrower ~ thrown
        Errors#helper => :helped
TREE
  errors.catcher
end
