# A Rails application in one file, served by Puma: a controller with views, a model, the cache, a mailer and a job.
# ARGV: a port, and an empty directory for its database and views.

require "action_controller/railtie"
require "action_view/railtie"
require "active_job/railtie"
require "active_record/railtie"
require "action_mailer/railtie"
require "puma"

PORT, PLACE = ARGV
ENV["DATABASE_URL"] = "sqlite3:#{PLACE}/db"
VIEWS = { "layouts/shop" => "<html><%= yield %></html>",
          "items/index" => "<% @items.each do |item| %><%= render 'item', item: item %><% end %>",
          "items/_item" => "<%= item.name %>: <%= item.order&.note %> " }.freeze
VIEWS.each do |name, text|
  FileUtils.mkdir_p("#{PLACE}/views/#{File.dirname(name)}")
  File.write("#{PLACE}/views/#{name}.html.erb", text)
end

class ShopApplication < Rails::Application
  config.root = PLACE
  config.eager_load = false
  config.logger = Logger.new(File::NULL)
  config.secret_key_base = "of no importance"
  config.cache_store = :memory_store
  config.hosts.clear
  config.active_job.queue_adapter = :inline
  config.action_mailer.delivery_method = :test
  routes.append do
    get "/items", to: "items#index"
    get "/old", to: "items#old"
    get "/failing", to: "items#failing"
    post "/orders", to: "items#order"
  end
end

class Order < ActiveRecord::Base; end

class Item < ActiveRecord::Base
  belongs_to :order, optional: true
end

class ItemsController < ActionController::Base
  layout "shop"
  prepend_view_path "#{PLACE}/views"

  def index
    Rails.cache.fetch("greeting") { "Hello" }
    @items = Item.order(:id).to_a
  end

  def old
    redirect_to "/items"
  end

  def failing
    raise KeyError, "no such thing"
  end

  def order
    ReceiptJob.perform_later(params[:item], 2)
    head :created
  end
end

class ShopMailer < ActionMailer::Base
  def receipt(item)
    mail(to: "a@example.com", from: "shop@example.com", subject: "Your #{item}") { |format| format.text { render plain: "x" } }
  end
end

class ReceiptJob < ActiveJob::Base
  def perform(item, _count)
    ShopMailer.receipt(item).deliver_now
  end
end

ShopApplication.initialize!
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define do
  create_table(:orders) { |table| table.string :note }
  create_table(:items) do |table|
    table.string :name
    table.integer :order_id
  end
end
3.times { |number| Item.create!(name: "item #{number}", order_id: Order.create!(note: "note #{number}").id) }

SERVER = Puma::Server.new(Rails.application, Puma::Events.null, min_threads: 1, max_threads: 3)
SERVER.add_tcp_listener("127.0.0.1", PORT.to_i)
SERVER.run
$stdout.sync = true
puts "ready"
$stdin.read
