# What the web benchmark measures: a Sinatra application that shows an order. /orders/N waits twice for what stands for a
# database; /computed/N does not, so that nothing hides what tracing costs.

require "sinatra/base"
require "erb"
require "json"

Product = Struct.new(:name, :cents)

class Line
  attr_reader :product, :count

  def initialize(product, count)
    @product = product
    @count = count
  end

  def cents
    discounted(product.cents * count)
  end

  def discounted(cents)
    count >= 3 ? cents * 9 / 10 : cents
  end
end

class Order
  PRODUCTS = Array.new(20) { |i| Product.new("Product #{i}", 100 + 37 * i) }.freeze

  attr_reader :number, :lines

  def self.find(number)
    query("orders", number)
    query("lines", number)
    new(number)
  end

  def self.query(_table, _number)
    sleep 0.001
  end

  def initialize(number)
    @number = number
    @lines = Array.new(10) { |i| Line.new(PRODUCTS[(number + i) % PRODUCTS.size], 1 + i % 4) }
  end

  def total
    lines.sum(&:cents)
  end
end

class Orders < Sinatra::Base
  set :environment, :production
  set :host_authorization, permitted_hosts: []
  set :inline_templates, true

  helpers do
    def money(cents)
      format("%d.%02d", cents / 100, cents % 100)
    end
  end

  TEMPLATE = <<~ERB
    <h1>Order <%= h(@order.number) %></h1>
    <% @order.lines.each do |line| %>
    <p><%= h(line.product.name) %>: <%= line.count %>, <%= money(line.cents) %></p>
    <% end %>
    <p><%= money(@order.total) %></p>
  ERB

  helpers ERB::Util

  get "/orders/:number" do
    @order = Order.find(Integer(params["number"]))
    erb TEMPLATE
  end

  get "/computed/:number" do
    @order = Order.new(Integer(params["number"]))
    erb TEMPLATE
  end
end

run Orders
