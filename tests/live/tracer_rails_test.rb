# The tracers rack, rails, sql and jobs against a real Rails application: what one request does, from its socket to the database.

require_relative "helper"
require "net/http"
require "socket"

class TracerRailsTest < LiveTest
  def setup
    super
    only_with_gems("rails", "action_mailer", "active_record", "sqlite3", "puma")
    @port = TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
    @target = start("rails", @port, directory)
  end

  def get(path)
    Net::HTTP.get_response("127.0.0.1", path, @port).code
  end

  # Everything that the tracers show of it; a call without others inside is one line, however long it took. One
  # request before that, as the first one compiles views and asks for columns.
  def shown(*tracers)
    yield
    tracer = trace(@target, *tracers.flat_map { |name| ["-c", name] })
    yield
    # The answer is there before the server's method returns.
    tracer.wait_for(/^\S[^\n]*<\d+\.\d+>\n\z/)
    tracer.stop.tree.gsub("ActiveRecord::ConnectionAdapters::AbstractAdapter", "Adapter").gsub(/^\[thread.*\n/, "")
          .gsub(/^( *)(\S+?)(\(.*\))\n\1\2 <time>$/, '\1\2\3 <time>')
  end

  SELECT = %q("SELECT \\"orders\\".* FROM \\"orders\\" WHERE \\"orders\\".\\"id\\" = ? LIMIT ?")

  test "a page: server, action, cache, queries, views and layout" do
    text = shown("rack", "rails", "sql", "jobs") { assert_equal "200", get("/items") }
    items = (1..3).map { |id| <<~'TREE'.gsub("ID", id.to_s).gsub("SQL") { SELECT } }.join
      |         ActionView::Template#render(template="items/_item")
      |            Adapter#log(sql=SQL, binds=[ID, 1]) <time>
      |         ActionView::Template#render <time>
    TREE
    assert_equal <<~'TREE'.sub("ITEMS\n", items.gsub(/^\|/, "")), text
      Puma::Request#handle_request(method="GET", path="/items", query="")
         ActionController::Metal#dispatch(controller="ItemsController", action="index", method="GET", path="/items")
            ActiveSupport::Cache::Store#fetch(key="greeting") <time>
            Adapter#log(sql="SELECT \"items\".* FROM \"items\" ORDER BY \"items\".\"id\" ASC", binds=[]) <time>
            ActionView::Template#render(template="items/index")
      ITEMS
            ActionView::Template#render <time>
            ActionView::Template#render(template="layouts/shop") <time>
         ActionController::Metal#dispatch <time>
         Puma::Request#str_headers(status=200) <time>
      Puma::Request#handle_request <time>
    TREE
  end

  test "what one action does: its views are rendered after its own method" do
    { ["--within", "ItemsController#process_action"] => [0, 4], ["--within", "ItemsController#index"] => [0, 0],
      ["--tree", "--if", 'elapsed && is_a?(ItemsController) && action_name == "index"'] => [1, 4] }.each do |options, counts|
      get("/items")
      tracer = trace(@target, "-c", "rails", "-c", "sql", *options)
      %w[/old /items].each { |path| get(path) }
      tracer.wait_for(counts == [0, 0] ? /"items\\".*ORDER BY/ : /layouts\/shop/)
      shown = tracer.stop.tree
      assert_includes shown, 'Cache::Store#fetch(key="greeting")'
      refute_includes shown, 'action="old"'
      assert_equal counts, [shown.scan('action="index"').size, shown.scan(/\(template="items/).size], options.inspect
    end
  end

  test "a redirect, and an exception" do
    assert_equal <<~'TREE', shown("rack", "rails") { assert_equal "302", get("/old") }
      Puma::Request#handle_request(method="GET", path="/old", query="")
         ActionController::Metal#dispatch(controller="ItemsController", action="old", method="GET", path="/old")
            ActionController::Redirecting#redirect_to(to="/items") <time>
         ActionController::Metal#dispatch <time>
         Puma::Request#str_headers(status=302) <time>
      Puma::Request#handle_request <time>
    TREE
    text = shown("rails") { assert_equal "500", get("/failing") }
    assert_match(/\AActionController::Metal#dispatch\(.*action="failing".*\) ! KeyError: no such thing <time>$/, text)
  end

  test "a job, and its mail" do
    text = shown("jobs", "rails") { Net::HTTP.post(URI("http://127.0.0.1:#{@port}/orders"), "item=tea") }
    assert_equal <<~'TREE', text.gsub(/id="[\h-]+"/, 'id="ID"')
      ActionController::Metal#dispatch(controller="ItemsController", action="order", method="POST", path="/orders")
         ActiveJob::Enqueuing#enqueue(job="ReceiptJob", args=["tea", 2])
            ActiveJob::Execution#perform_now(job="ReceiptJob", args=["tea", 2], queue="default", id="ID")
               ActionMailer::Base.deliver_mail(mailer="ShopMailer", to=["a@example.com"], subject="Your tea") <time>
            ActiveJob::Execution#perform_now <time>
         ActiveJob::Enqueuing#enqueue <time>
      ActionController::Metal#dispatch <time>
    TREE
  end

  test "stat counts by action, and by statement" do
    get("/items")
    counters = {"rails" => "action", "sql" => "statement"}.map do |tracer, key|
      launch("stat", "-v", "--yes", "-p", @target.pid.to_s, "-c", tracer, "--by", key, "--calls").wait_until_armed
    end
    3.times { get("/items") }
    get("/old")
    get("/old") # what is before it has been counted
    by_action, by_statement = counters.map { |counter| counter.stop.stdout }
    assert_match(/^ +3  ActionController::Metal#dispatch  "ItemsController#index"$/, by_action)
    assert_match(/^ +[12]  ActionController::Metal#dispatch  "ItemsController#old"$/, by_action)
    assert_match(/^ +9  \S+#log  "SELECT \\"orders\\".* WHERE \\"orders\\".\\"id\\" = \? LIMIT \?"$/, by_statement)
  end
end
