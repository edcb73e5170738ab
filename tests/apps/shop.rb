# A little application whose methods call each other in the ways that tests want to see.

require_relative "console"

class Shop
  class SoldOut < StandardError; end

  attr_accessor :owner
  attr_reader :stock

  def initialize
    @stock = { tea: 3 }
    @owner = "Ada"
  end

  def price(item)
    item.length * 100
  end

  def sell(item, count = 1, *extras, gift: false, **options, &wrap)
    price(item) * count
  end

  def sell_all(items)
    items.each { |item| sell(item) }
    items.size
  end

  def countdown(number)
    number.zero? ? 0 : countdown(number - 1)
  end

  def refuse(item)
    raise SoldOut, "no #{item}"
  end

  def try(item)
    refuse(item)
  rescue SoldOut
    :sorry
  end

  def let_through(item)
    refuse(item)
  end

  def give_up
    throw :closed, 1
  end

  def give_up_inside
    give_up
  end

  def each_item
    yield :tea
    yield :pot
    :done
  end

  def each_twice(&block)
    each_item(&block)
    each_item(&block)
  end

  def first_item
    each_item { |item| return item }
  end

  def wait
    sleep
  end

  def self.open(name = "x")
    new.price(name)
  end

  private

  def secret(word)
    word
  end
end

$shop = Shop.new

console if $PROGRAM_NAME == __FILE__
