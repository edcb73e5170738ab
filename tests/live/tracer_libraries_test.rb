# The tracers that ship, each against the libraries themselves, as Debian has them, and real servers where there are some.

require_relative "helper"
require "socket"

class TracerLibrariesTest < LiveTest
  # Of a library that is large or needs a large server, which CI does not install.
  def only_where_installed(what, *gems)
    only_with_gems(*gems)
  rescue Minitest::Skip
    warn "NOT TRIED: the tracer for #{what}: it needs #{gems.join(" and ")}" unless Processes::RUBY.first == "chroot"
    raise
  end

  def only_with_program(name)
    directories = [*ENV["PATH"].split(":"), "/usr/sbin"]
    directories.map { |path| "#{path}/#{name}" }.find { |file| File.executable?(file) } || skip("needs #{name}")
  end

  def free_port
    TCPServer.open("127.0.0.1", 0) { |server| server.addr[1] }
  end

  def wait_for_port(port)
    wait_until("port #{port} is open") do
      TCPSocket.new("127.0.0.1", port).close
      true
    rescue Errno::ECONNREFUSED
      false
    end
  end

  def with_redis
    program = only_with_program("redis-server")
    port = free_port
    start_beside(program, "--port", port.to_s, "--save", "", "--dir", directory, "--bind", "127.0.0.1")
    wait_for_port(port)
    port
  end

  # What the tracer shows of this code.
  def shown(target, tracer, code, *options)
    trace(target, "-c", tracer, *options).tap { target.run("#{code}; nil") }.stop.tree
  end

  test "redis" do
    only_with_gems("redis")
    port = with_redis
    target = start("console")
    target.run("require 'redis'; $redis = Redis.new(port: #{port}, password: 'secret') rescue 1; nil")
    text = shown(target, "redis", "$redis.auth('secret') rescue 1; $redis = Redis.new(port: #{port}); $redis.set('a', 1); " \
                                  "$redis.pipelined { |all| all.get('a'); all.incr('a') }")
    assert_match(/Redis::Client#process\(commands=\[\[:set, "a", "?1"?\]\]\)/, text)
    assert_match(/commands=\[\[:get, "a"\], \[:incr, "a"\]\]/, text)
    refute_match(/secret/, text)
    counter = rbprobe_stat(target, "redis", "command", "3.times { |n| $redis.get(n.to_s) }")
    assert_match(/^ +3 .*"get"/, counter)
  end

  def rbprobe_stat(target, tracer, key, code)
    counter = launch("stat", "-v", "--yes", "-p", target.pid.to_s, "-c", tracer, "--by", key).wait_until_armed
    target.run("#{code}; nil")
    counter.stop.stdout
  end

  # A Sidekiq process that knows these jobs: its PID, a part of its command line, and what enqueues some.
  def sidekiq_with(jobs)
    only_with_gems("sidekiq")
    only_where_loading_is_possible
    program = only_with_program("sidekiq")
    File.write("#{site = directory}/#{name = "site#{Process.pid}"}.rb", <<~RUBY)
      require "sidekiq"
      url = { url: "redis://127.0.0.1:#{with_redis}" }
      Sidekiq.configure_server { |config| config.redis = url }
      Sidekiq.configure_client { |config| config.redis = url }
      #{jobs}
    RUBY
    pid = start_beside(*Processes::RUBY, program, "-r", "#{site}/#{name}.rb", "-c", "2", "-g", name)
    wait_until("it works") { File.read("/proc/#{pid}/cmdline").include?("of 2 busy") }
    [pid, name, lambda { |code|
      assert system(*Processes::RUBY, "-r", "#{site}/#{name}.rb", "-e", code, %i[out err] => File::NULL)
    }]
  end

  # The guide's line for workers.
  test "jobs and SQL of a Sidekiq process that runs: the slow ones, found by a part of its command line" do
    pid, name, enqueue = sidekiq_with(<<~RUBY)
      class Slow; include Sidekiq::Worker; def perform(n) = sleep(0.4); end
      class Quick; include Sidekiq::Worker; def perform(n) = n; end
    RUBY
    client = launch("trace", "-v", "--ps", name, "--all", "-c", "jobs", "-c", "sql", "--slow", "300").wait_until_armed
    enqueue.("Quick.perform_async(1); Slow.perform_async(2)")
    client.wait_for(/#process.*<[\d.]+>$/)
    result = client.stop
    assert_match(/^Sidekiq::Processor#process\(job="Slow", args=\[2\], queue="default", id="\h+"\)/, result.stdout)
    refute_includes result.stdout, "Quick"
    assert_match(/tracer sql fits nothing in process #{pid}/, result.stderr)
  end

  test "jobs that fail in a Sidekiq process, in themselves, in middleware or for want of a class, with their own errors" do
    pid, _, enqueue = sidekiq_with(<<~RUBY)
      class Gate; def call(job, item, queue) item["args"] == [9] ? raise(KeyError, "shut") : yield; end; end
      Sidekiq.configure_server { |config| config.server_middleware { |chain| chain.add(Gate) } }
      class Fails; include Sidekiq::Worker; def perform(n) = raise(IOError, "no paper"); end
      class Once; include Sidekiq::Worker; sidekiq_options retry: false; def perform(n) = Integer("tea"); end
      class Quick; include Sidekiq::Worker; def perform(n) = n; end
    RUBY
    client = launch("trace", "-v", "-p", pid.to_s, "-c", "jobs", "--raised").wait_until_armed
    of_a_class = launch("trace", "-v", "-p", pid.to_s, "-c", "jobs", "--raised=IOError").wait_until_armed
    enqueue.("Quick.perform_async(1); Fails.perform_async(2); Once.perform_async(3); Quick.perform_async(9); " \
             "Sidekiq::Client.push('class' => 'Missing', 'args' => [4])")
    %w[Fails Once Quick Missing].each { |job| client.wait_for(/"#{job}".* ! .*<[\d.]+>$/) }
    of_a_class.wait_for(/IOError.*$/)
    shown = 'Sidekiq::Processor#process\(job="%s", args=\[%d\], queue="default", id="\h+"\) ! %s <time>'
    # One may be tried again meanwhile.
    calls = ->(result) { result.tree.lines.grep(/#process/).sort.uniq.join }
    first = format(shown, "Fails", 2, "IOError: no paper")
    others = [["Missing", 4, "NameError: .*Missing.*"], ["Once", 3, 'ArgumentError: .*"tea"'], ["Quick", 9, 'KeyError: .*shut.*']]
             .map { |other| format(shown, *other) }
    assert_match(/\A#{[first, *others].join("\n")}\n\z/, calls.(client.stop))
    assert_match(/\A#{first}\n\z/, calls.(of_a_class.stop))
  end

  test "jobs that a Sidekiq process is given, and gives itself" do
    pid, _, enqueue = sidekiq_with(<<~RUBY)
      class Quick; include Sidekiq::Worker; def perform(*) = 1; end
      class More; include Sidekiq::Worker; def perform(n) = Sidekiq::Client.push_bulk("class" => Quick, "args" => [[n], [n]]); end
    RUBY
    client = launch("trace", "-v", "-p", pid.to_s, "-c", "jobs").wait_until_armed
    counter = launch("stat", "-v", "-p", pid.to_s, "-c", "jobs", "--by", "job").wait_until_armed
    enqueue.("More.perform_async(7); Quick.perform_async(7, 'tea')")
    client.wait_for(/args=\[7, "tea"\]/)
    client.wait_for(/(process\(job="Quick", args=\[7\].*){2}/m)
    text = client.stop.tree
    assert_match(/^Sidekiq::Processor#process\(job="More", args=\[7\], queue="default", id="\h+"\)/, text)
    assert_match(/^   Sidekiq::Client#push_bulk\(job=Quick, count=2\)/, text)
    assert_match(/^Sidekiq::Processor#process\(job="Quick", args=\[7, "tea"\]/, text)
    assert_match(/^ +3 +0 .*Sidekiq::Processor#process +"Quick"$/, counter.stop.stdout)
  end

  test "jobs: ActiveJob; rails: controllers, views, cache and mail" do
    only_where_installed("Rails", "active_job", "action_controller", "action_view", "action_mailer")
    target = start("console")
    target.run(<<~RUBY)
      require "active_job"
      require "action_controller"
      require "action_mailer"
      require "active_support/cache"
      require "active_support/cache/memory_store"
      ActiveJob::Base.logger = Logger.new(File::NULL)
      ActiveJob::Base.queue_adapter = :inline
      class Report < ActiveJob::Base; def perform(*) end; end
      class Shop < ActionController::Base
        def show; render inline: "a <%= 1 %> b"; end
        def away; redirect_to "/there"; end
      end
      ActionMailer::Base.delivery_method = :test
      class Post < ActionMailer::Base
        def hello; mail(to: "a@b.c", from: "d@e.f", subject: "Hello") { |format| format.text { render plain: "x" } }; end
      end
      $cache = ActiveSupport::Cache::MemoryStore.new
      $env = Rack::MockRequest.env_for("/shop/1?a=b")
      nil
    RUBY
    text = shown(target, "jobs", "Report.perform_later(1, 'x')")
    assert_match(/\AActiveJob::Enqueuing#enqueue\(job="Report", args=\[1, "x"\]\)/, text)
    assert_match(/ActiveJob::Execution#perform_now\(job="Report", args=\[1, "x"\], queue="default", id="[\h-]+"\)/, text)
    text = shown(target, "rails", "Shop.action(:show).call($env); Shop.action(:away).call($env); " \
                                  "$cache.fetch('k') { 1 }; $cache.read('k'); Post.hello.deliver_now")
    assert_match(/^ActionController::Metal#dispatch\(controller="Shop", action="show", method="GET", path="\/shop\/1"\)/, text)
    assert_match(/^   ActionView::Template#render\(template="inline template"\)/, text)
    assert_match(/^   ActionController::Redirecting#redirect_to\(to="\/there"\)/, text)
    assert_match(/^ActiveSupport::Cache::Store#fetch\(key="k"\)/, text)
    assert_match(/^ActiveSupport::Cache::Store#read\(key="k"\)/, text)
    assert_match(/ActionMailer::Base\.deliver_mail\(mailer="Post", to=\["a@b\.c"\], subject="Hello"\)/, text)
  end

  test "http: Net::HTTP and Faraday; rack: WEBrick" do
    only_with_gems("faraday", "webrick")
    port = free_port
    target = start("console")
    target.run(<<~RUBY)
      require "net/http"
      require "faraday"
      require "webrick"
      server = WEBrick::HTTPServer.new(Port: #{port}, BindAddress: "127.0.0.1", AccessLog: [],
                                       Logger: WEBrick::Log.new(File::NULL))
      server.mount_proc("/tea") { |request, response| response.body = "tea" }
      Thread.new { server.start }
      nil
    RUBY
    wait_for_port(port)
    text = shown(target, "http", "Net::HTTP.get(URI('http://127.0.0.1:#{port}/tea?n=1')); " \
                                 "Faraday.new('http://127.0.0.1:#{port}').get('/none')", "--thread", target.pid.to_s)
    assert_equal <<~TREE, text.gsub(/ ?<time>/, "").gsub(port.to_s, "80")
      Net::HTTP#request(method="GET", url="http://127.0.0.1:80/tea?n=1")
         Net::HTTPResponse#initialize(status="200", message="OK")
      Net::HTTP#request
      Faraday::Connection#run_request(method=:get, url="/none", base="http://127.0.0.1:80/")
         Net::HTTPResponse#initialize(status="404", message="Not Found")
      Faraday::Connection#run_request
    TREE
    text = shown(target, "rack", "Net::HTTP.get(URI('http://127.0.0.1:#{port}/tea?n=1'))")
    assert_match(/WEBrick::HTTPServer#service\(method="GET", path="\/tea", query="n=1"\)/, text)
  end

  test "rack: Sinatra under Puma, one line for a request" do
    only_with_gems("sinatra/base", "puma")
    port = free_port
    target = start("console")
    target.run(<<~RUBY)
      require "sinatra/base"
      require "puma"
      class Shop < Sinatra::Base
        get("/tea") { "tea" }
      end
      $server = Puma::Server.new(Shop, Puma::Events.null)
      $server.add_tcp_listener("127.0.0.1", #{port})
      $server.run
      require "net/http"
      nil
    RUBY
    text = shown(target, "rack", "Net::HTTP.get(URI('http://127.0.0.1:#{port}/tea?n=1'))")
    assert_match(/^Puma::Request#handle_request\(method="GET", path="\/tea", query="n=1"\)$/, text)
    assert_match(/^   Puma::Request#str_headers\(status=200\)/, text)
    refute_match(/Sinatra/, text)
    assert_match(/Sinatra::Base#call!\(method="GET", path="\/tea", query=""\)/,
                 shown(target, "rack", "Shop.call(Rack::MockRequest.env_for('/tea'))"))
  end

  test "rack: Unicorn's workers" do
    only_with_gems("unicorn", "sinatra/base")
    path, port = directory, free_port
    File.write("#{path}/program.rb", <<~RUBY)
      require "unicorn"
      $stderr.reopen(File::NULL)
      require "sinatra/base"
      app = Class.new(Sinatra::Base) { get("/tea") { "tea" } }
      server = Unicorn::HttpServer.new(app, listeners: ["127.0.0.1:#{port}"], worker_processes: 1).start
      puts "ready"
      $stdout.flush
      server.join
    RUBY
    target = start("#{path}/program.rb")
    wait_for_port(port)
    worker = wait_until("there is a worker") { File.read("/proc/#{target.pid}/task/#{target.pid}/children").split.first }
    tracer = launch("trace", "-v", "--yes", "-p", worker, "-c", "rack").wait_until_armed
    require "net/http"
    Net::HTTP.get(URI("http://127.0.0.1:#{port}/tea?n=1"))
    tracer.wait_for(/^\S[^\n]*<\d+\.\d+>\n\z/)
    assert_equal <<~TREE, tracer.stop.tree
      Unicorn::HttpServer#process_client
         Sinatra::Base#call!(method="GET", path="/tea", query="n=1") <time>
      Unicorn::HttpServer#process_client <time>
    TREE
  end

  test "memcached" do
    only_with_gems("dalli")
    program = only_with_program("memcached")
    port = free_port
    start_beside(program, "-p", port.to_s, "-l", "127.0.0.1", "-u", "nobody")
    wait_for_port(port)
    target = start("console")
    target.run("require 'logger'; require 'dalli'; Dalli.logger = Logger.new(File::NULL); " \
               "$dalli = Dalli::Client.new('127.0.0.1:#{port}'); nil")
    text = shown(target, "memcached", "$dalli.set('a', 1); $dalli.get('a'); $dalli.get_multi('a', 'b')")
    assert_match(/Dalli::Client#perform\(op=:set, key="a"\)/, text)
    assert_match(/Dalli::Client#perform\(op=:get, key="a"\)/, text)
    assert_match(/Dalli::Client#get_multi\(keys=\["a", "b"\]\)/, text)
  end

  test "mongo, without a server: what it would have been asked for" do
    only_where_installed("MongoDB", "mongo")
    target = start("console")
    target.run(<<~RUBY)
      require "logger"
      require "mongo"
      Mongo::Logger.logger = Logger.new(File::NULL)
      $shop = Mongo::Client.new(["127.0.0.1:#{free_port}"], server_selection_timeout: 0.01, database: "shop")
      nil
    RUBY
    text = shown(target, "mongo", "$shop[:items].insert_one(sku: 'tea') rescue 1; " \
                                  "$shop[:items].find(sku: 'tea').to_a rescue 1; " \
                                  "$shop[:items].update_one({sku: 'tea'}, {sku: 'pot'}) rescue 1; $shop.close")
    assert_match(/Mongo::Collection#insert_one\(collection="items", document=\{:sku=>"tea"\}\)/, text)
    assert_match(/Mongo::Collection::View::Iterable#each\(collection="items", filter=\{"sku"=>"tea"\}\)/, text)
    assert_match(/Mongo::Collection#update_one\(collection="items", filter=\{:sku=>"tea"\}, update=\{:sku=>"pot"\}\)/, text)
  end
end
