# What `make demo` watches: a small shop under Puma, with the layers that real ones have.

require "sinatra/base"
require "json"

class OutOfStock < StandardError; end

Item = Struct.new(:sku, :name, :cents, :stock)

class Catalogue
  ITEMS = [
    Item.new("tea", "Darjeeling, 100 g", 790, 12),
    Item.new("pot", "Cast-iron pot", 8900, 2),
    Item.new("cup", "Cup, handmade", 2400, 40),
    Item.new("whisk", "Bamboo whisk", 1650, 0),
  ].to_h { |item| [item.sku, item] }.freeze

  def find(sku)
    query("SELECT * FROM items WHERE sku = ?", sku)
    ITEMS.fetch(sku)
  end

  def search(word)
    query("SELECT * FROM items WHERE name LIKE ?", "%#{word}%")
    ITEMS.values.select { |item| item.name.downcase.include?(word.downcase) }
  end

  private

  # Stands for a database: some of its answers take their time.
  def query(sql, value)
    sleep(sql.include?("LIKE") ? 0.012 : 0.0015)
    [sql, value]
  end
end

class Cart
  def initialize(catalogue)
    @catalogue = catalogue
    @lines = []
  end

  def add(sku, count)
    item = @catalogue.find(sku)
    raise OutOfStock, "#{item.name}: #{item.stock} left" if item.stock < count

    @lines << [item, count]
  end

  def total
    @lines.sum { |item, count| discounted(item.cents * count, count) }
  end

  def discounted(cents, count)
    count >= 3 ? cents * 9 / 10 : cents
  end
end

class Shop < Sinatra::Base
  set :environment, :production
  set :host_authorization, permitted_hosts: []

  get "/items" do
    content_type :json
    JSON.generate(Catalogue.new.search(params.fetch("q", "")).map(&:to_h))
  end

  post "/cart" do
    cart = Cart.new(Catalogue.new)
    begin
      cart.add(params["sku"], Integer(params["count"]))
      content_type :json
      JSON.generate(total: cart.total)
    rescue OutOfStock => e
      halt 409, e.message
    end
  end
end
