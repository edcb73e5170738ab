# Methods that are defined, redefined, removed and hidden while they are traced.

class Case::Changing
  def again(x)
    x
  end

  def removed(x)
    x
  end

  def wrapped(x)
    x
  end

  def inherited(x)
    x
  end

  def itself_again(x)
    Case::Changing.class_eval { def itself_again(y) y * 2 end }
    x
  end

  def visible(x)
    x
  end

  def self.made(x)
    x
  end
end

class Case::ChangingBelow < Case::Changing
end

class Case::ChangingText < String
  alias_method :turned, :upcase
end

Truth.trace("Case::ChangingText#turned")

changing = Case::Changing.new
below = Case::ChangingBelow.new

truth "a method with a new definition has its new parameters", <<~TREE do
  Changing#again(x=1) => 1
  Changing#again(left=2, right=3) => 5
  Changing#again(block=4) => 8
TREE
  changing.again(1)
  Case::Changing.class_eval "def again(left, right) left + right end", __FILE__, __LINE__
  changing.again(2, 3)
  Case::Changing.define_method(:again) { |block| block * 2 }
  changing.again(4)
end

truth "a method that is removed and comes back", <<~TREE do
  Changing#removed(x=1) => 1
  Changing#removed(x=3) => 9
TREE
  changing.removed(1)
  Case::Changing.send(:remove_method, :removed)
  begin
    changing.removed(2)
  rescue NoMethodError
    Case::Changing.class_eval { def removed(x) x * x end }
  end
  changing.removed(3)
end

truth "a method that is prepended to, and one that a subclass gets", <<~TREE do
  Changing#wrapped(x=1) => 1
  Before#wrapped(x=2) => 6
    Changing#wrapped(x=6) => 6
  Changing#inherited(x=3) => 3
  ChangingBelow#inherited(x=4) => 5
    Changing#inherited(x=5) => 5
TREE
  changing.wrapped(1)
  Case.const_set(:Before, Module.new { def wrapped(x) super(x * 3) end })
  Case::Changing.prepend(Case::Before)
  changing.wrapped(2)
  below.inherited(3)
  Case::ChangingBelow.class_eval { def inherited(x) super(x + 1) end }
  below.inherited(4)
end

truth "a singleton method that is defined anew", <<~TREE do
  Changing.made(x=1) => 1
  Changing.made(y=2) => 4
TREE
  Case::Changing.made(1)
  Case::Changing.define_singleton_method(:made) { |y| y * 2 }
  Case::Changing.made(2)
end

truth "a method that gets a new definition while it runs", <<~TREE do
  Changing#itself_again(x=1) => 1
  Changing#itself_again(y=2) => 4
TREE
  changing.itself_again(1)
  changing.itself_again(2)
end

truth "another visibility", <<~TREE do
  Changing#visible(x=1) => 1
  Changing#visible(x=2) => 2
TREE
  changing.visible(1)
  Case::Changing.send(:private, :visible)
  changing.send(:visible, 2)
end

truth "a C method that becomes another one", <<~TREE do
  ChangingText#turned => "ABC"
  ChangingText#turned => "abc"
TREE
  text = Case::ChangingText.new("aBc")
  text.turned
  Case::ChangingText.send(:alias_method, :turned, :downcase)
  text.turned
end

truth "an alias that stays when what it was made of changes", <<~TREE do
  Changing#kept(x=1) => 1
  Changing#origin(x=2) => 4
  Changing#kept(x=3) => 3
TREE
  Case::Changing.class_eval "def origin(x) x end; alias kept origin", __FILE__, __LINE__
  changing.kept(1)
  Case::Changing.class_eval "def origin(x) x * 2 end", __FILE__, __LINE__
  changing.origin(2)
  changing.kept(3)
end
