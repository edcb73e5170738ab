# One tracer for every version of a library. Of each layout that its versions have, stand-in classes: names of classes, methods
# and parameters as they are there, and what they call in each other. tracer_libraries_test.rb has the libraries of Debian.

require_relative "helper"

class TracerVersionsTest < LiveTest
  # Where ActiveRecord's adapter calls its log, and what is inside of that.
  ADAPTER = <<~'RUBY'
    module ActiveRecord; module VERSION; STRING = "%s"; end; module ConnectionAdapters; class AbstractAdapter
      def adapter_name() "PostgreSQL" end
      %s
    end; end; end
    module PG; VERSION = "1.5.9"; class Connection; def exec_params(sql, binds) 1 end; end; end
    $adapter = ActiveRecord::ConnectionAdapters::AbstractAdapter.new
    $bind = Struct.new(:value_before_type_cast).new("tea")
  RUBY
  LOGGED = 'ActiveRecord::ConnectionAdapters::AbstractAdapter#log(sql="select $1", binds=["tea"]) <time>'.freeze

  # Tracer; library and version as `tracers -p` shows them; the layout; calls; what is shown.
  LAYOUTS = [
    ["sql", "ActiveRecord 6.1.7 (1 method), pg 1.5.9 (1 method)", format(ADAPTER, "6.1.7", <<~RUBY),
      def exec_query(sql, name = "SQL", binds = [], prepare: false)
        log(sql, name, binds, binds) { PG::Connection.new.exec_params(sql, binds) }
      end
      def log(sql, name = "SQL", binds = [], type_casted_binds = [], statement_name = nil) yield end
    RUBY
     '$adapter.exec_query("select $1", "SQL", [$bind])', LOGGED],
    ["sql", "ActiveRecord 7.0.8 (1 method), pg 1.5.9 (1 method)", format(ADAPTER, "7.0.8", <<~RUBY),
      def exec_query(sql, name = "SQL", binds = [], prepare: false, async: false)
        log(sql, name, binds, binds, async: async) { PG::Connection.new.exec_params(sql, binds) }
      end
      def log(sql, name = "SQL", binds = [], type_casted_binds = [], statement_name = nil, async: false, &block) block.call end
    RUBY
     '$adapter.exec_query("select $1", "SQL", [$bind])', LOGGED],
    ["sql", "ActiveRecord 7.1.5 (1 method), pg 1.5.9 (1 method)", format(ADAPTER, "7.1.5", <<~RUBY),
      def exec_query(sql, name = "SQL", binds = [], prepare: false) internal_exec_query(sql, name, binds) end
      def internal_exec_query(sql, name = "SQL", binds = [], prepare: false, async: false, allow_retry: false)
        log(sql, name, binds, binds, async: async) { PG::Connection.new.exec_params(sql, binds) }
      end
      def log(sql, name = "SQL", binds = [], type_casted_binds = [], statement_name = nil, async: false, &block) block.call end
    RUBY
     '$adapter.exec_query("select $1", "SQL", [$bind])', LOGGED],
    ["sql", "ActiveRecord 8.0.2 (1 method), pg 1.5.9 (1 method)", format(ADAPTER, "8.0.2", <<~RUBY),
      def exec_query(sql, name = "SQL", binds = [], prepare: false) raw_execute(sql, name, binds) end
      def raw_execute(sql, name = nil, binds = [], prepare: false, async: false, allow_retry: false, batch: false)
        log(sql, name, binds, binds, async: async) { |note| perform_query(PG::Connection.new, sql, binds, binds) }
      end
      def perform_query(raw_connection, sql, binds, type_casted_binds) raw_connection.exec_params(sql, type_casted_binds) end
      def log(sql, name = "SQL", binds = [], type_casted_binds = [], async: false, allow_retry: false, &block) block.call({}) end
    RUBY
     '$adapter.exec_query("select $1", "SQL", [$bind])', LOGGED],
    ["sql", "ActiveRecord 8.2.0.alpha (1 method), pg 1.5.9 (1 method)", format(ADAPTER, "8.2.0.alpha", <<~RUBY),
      Intent = Struct.new(:name) { def initialize(sql, binds) super("SQL"); @processed_sql = sql; @binds = binds; end }
      def exec_query(sql, name = "SQL", binds = []) raw_execute(Intent.new(sql, binds)) end
      def raw_execute(intent) log(intent) { PG::Connection.new.exec_params("select $1", []) } end
      def log(intent_or_sql, name = "SQL", binds = [], type_casted_binds = [], async: false, &block) block.call end
    RUBY
     '$adapter.exec_query("select $1", "SQL", [$bind])', LOGGED],
    # A method in C, as there.
    ["sql", "trilogy 2.13.0 (1 method)", 'class Trilogy < Array; VERSION = "2.13.0"; alias_method :query, :push; end',
     'Trilogy.new.query("select 1")', 'Trilogy#query(sql="select 1") <time>'],
    ["redis", "redis 4.8.0 (1 method)", <<~RUBY,
      class Redis; VERSION = "4.8.0"; class Client; def process(commands) commands.size end; end; end
    RUBY
     'Redis::Client.new.process([[:auth, "secret"], [:get, "a"]])',
     'Redis::Client#process(commands=[[:auth], [:get, "a"]]) <time>'],
    ["redis", "redis-client 0.22.2 (2 methods)", <<~RUBY,
      class RedisClient
        VERSION = "0.22.2"
        module ConnectionMixin
          def call(command, timeout) command end
          def call_pipelined(commands, timeouts, exception: true) commands end
        end
        class RubyConnection; include ConnectionMixin; end
      end
      class Redis; VERSION = "5.3.0"; class Client < RedisClient; end; end
    RUBY
     '$it = RedisClient::RubyConnection.new; $it.call(["SET", "a", "1"], nil); ' \
     '$it.call_pipelined([["HELLO", "3", "p"], ["PING"]], nil)',
     "RedisClient::ConnectionMixin#call(command=[\"SET\", \"a\", \"1\"]) <time>\n" \
     'RedisClient::ConnectionMixin#call_pipelined(commands=[["HELLO"], ["PING"]]) <time>'],
    # What retries raises an error of its own, around the job's and around middleware's. It leaves process as the one that it was.
    *{"4.2.10" => "work", "6.4.2" => "work", "8.1.7" => "uow"}.map do |version, parameter|
      ["jobs", "Sidekiq #{version} (4 methods)", <<~RUBY,
        require "json"
        module Sidekiq
          VERSION = "#{version}"
          def self.load_json(text) JSON.parse(text) end
          class Client; def push(item) item end; def push_bulk(items) items end; end
          class Manager; def hard_shutdown() 1 end; end
          class Processor
            private def process(#{parameter})
              dispatch(Sidekiq.load_json(#{parameter}.job))
            rescue RuntimeError => error
              raise error.cause
            end
            def dispatch(job) job["args"] == [0] && raise(IOError) rescue raise "Skip" end
          end
        end
        Work = Struct.new(:hash) do
          def job() JSON.generate(hash.merge("jid" => "abc")) end
          def queue_name() "low" end
        end
        $mail = {"class" => "Mailer", "args" => [7]}
      RUBY
       "Sidekiq::Client.new.push($mail); Sidekiq::Client.new.push_bulk('class' => 'Mailer', 'args' => [[1], [2]]); " \
       "[$mail, {'class' => 'Wrapper', 'wrapped' => 'Report', 'args' => [1]}, {'class' => 'Mailer', 'args' => [0]}]" \
       ".each { |job| Sidekiq::Processor.new.send(:process, Work.new(job)) rescue Sidekiq::Manager.new.hard_shutdown }",
       "Sidekiq::Client#push(job=\"Mailer\", args=[7]) <time>\nSidekiq::Client#push_bulk(job=\"Mailer\", count=2) <time>\n" \
       "Sidekiq::Processor#process(job=\"Mailer\", args=[7], queue=\"low\", id=\"abc\") <time>\n" \
       "Sidekiq::Processor#process(job=\"Report\", args=[1], queue=\"low\", id=\"abc\") <time>\n" \
       "Sidekiq::Processor#process(job=\"Mailer\", args=[0], queue=\"low\", id=\"abc\") ! IOError: IOError <time>\n" \
       "Sidekiq::Manager#hard_shutdown <time>"]
    end,
    *{"1.27.4" => "Version = VERSION = '1.27.4'", "3.0.0" => "VERSION = '3.0.0'"}.map do |version, constant|
      ["jobs", "Resque #{version} (2 methods)", <<~RUBY,
        module Resque
          #{constant}
          extend self
          def enqueue_to(queue, klass, *args) args.size end
          class Job
            def initialize(queue, payload) @queue = queue; @payload = payload; end
            def perform() 1 end
          end
        end
        class Mailer; end
      RUBY
       "Resque.enqueue_to(:low, Mailer, 7); Resque::Job.new('low', {'class' => 'Mailer', 'args' => [7]}).perform",
       "Resque#enqueue_to(queue=:low, job=Mailer, args=[7]) <time>\n" \
       'Resque::Job#perform(job="Mailer", args=[7], queue="low") <time>']
    end,
    *{"1.10.4" => "Net::HTTP.new.request(method, url)", "2.12.0" => "NetHttp.new.call(method, url)"}.map do |version, sends|
      ["http", "Net::HTTP 0.4.1 (1 method), Faraday #{version} (1 method)", <<~RUBY,
        module Net; class HTTP; VERSION = "0.4.1"; def request(req, body = nil, &block) 1 end; end; end
        module Faraday
          VERSION = "#{version}"
          class NetHttp; def call(method, url) Net::HTTP.new.request(method, url) end; end
          class Connection
            def initialize(base) @url_prefix = base end
            def run_request(method, url, body, headers) #{sends} end
          end
        end
        require "uri"
      RUBY
       "Faraday::Connection.new(URI('http://shop.example/')).run_request(:get, '/tea', nil, nil)",
       'Faraday::Connection#run_request(method=:get, url="/tea", base="http://shop.example/") <time>']
    end,
    *{"0.24.7" => "*args, **options", "1.3.4" => "*args, **params"}.map do |version, parameters|
      ["http", "HTTPX #{version} (2 methods)", <<~RUBY,
        module HTTPX
          VERSION = "#{version}"
          class Response; def initialize(request, status, version, headers) 1 end; end
          class Session; def request(#{parameters}) Response.new(1, 200, "2.0", {}) end; end
        end
      RUBY
       "HTTPX::Session.new.request('GET', 'http://shop.example/tea')",
       "HTTPX::Session#request(args=[\"GET\", \"http://shop.example/tea\"])\n" \
       "   HTTPX::Response#initialize(status=200) <time>\nHTTPX::Session#request <time>"]
    end,
    *{"2.5.0" => "op, key, *args", "2.7.11" => "*all_args", "3.2.8" => "*all_args"}.map do |version, parameters|
      ["memcached", "dalli #{version} (2 methods)", <<~RUBY,
        module Dalli
          VERSION = "#{version}"
          class Client; def perform(#{parameters}) 1 end; def get_multi(*keys) keys.size end; end
        end
      RUBY
       "Dalli::Client.new.perform(:get, 'a'); Dalli::Client.new.get_multi('a', 'b')",
       "Dalli::Client#perform(op=:get, key=\"a\") <time>\nDalli::Client#get_multi(keys=[\"a\", \"b\"]) <time>"]
    end,
    *{"2.5.3" => ["Iterable", "options"], "2.21.0" => ["Iterable", "opts"]}.map do |version, (place, options)|
      ["mongo", "mongo #{version} (2 methods)", <<~RUBY,
        module Mongo
          VERSION = "#{version}"
          class Collection
            attr_reader :name
            def initialize(name) @name = name end
            def update_one(filter, update, #{options} = {}) 1 end
            class View
              module #{place}; def each() [] end; end
              include #{place}
              def initialize(collection, filter) @collection = collection; @filter = filter; end
            end
          end
        end
        $items = Mongo::Collection.new("items")
      RUBY
       "Mongo::Collection::View.new($items, {sku: 'tea'}).each; $items.update_one({sku: 'tea'}, {sku: 'pot'})",
       "Mongo::Collection::View::Iterable#each(collection=\"items\", filter={:sku=>\"tea\"}) <time>\n" \
       'Mongo::Collection#update_one(collection="items", filter={:sku=>"tea"}, update={:sku=>"pot"}) <time>']
    end,
    *{"4.3.12" => ["Server", "req, lines"], "5.6.5" => ["Request", "client, lines, requests"],
      "6.4.2" => ["Request", "client, requests"], "8.0.2" => ["Response", "processor, client, requests"]}
      .map do |version, (place, parameters)|
        headers = place == "Server" ? "" : "def str_headers(env, status, headers, more = nil) status end"
        own = place == "Server" ? "" : "class Server; include #{place}; end"
        count = place == "Server" ? "1 method" : "2 methods"
        given = parameters.split(", ").map { |name| name =~ /client|req\z/ ? "$client" : "0" }.join(", ")
        inside = "\n   Puma::#{place}#str_headers(status=200) <time>\nPuma::#{place}#handle_request <time>"
        inside = " <time>" if place == "Server"
        ["rack", "Puma #{version} (#{count})", <<~RUBY,
          module Puma
            module Const; PUMA_VERSION = VERSION = "#{version}".freeze; end
            #{place == "Server" ? "class" : "module"} #{place}
              def handle_request(#{parameters}) #{"str_headers({}, 200, {})" unless place == "Server"} end
              #{headers}
            end
            #{own}
          end
          $client = Struct.new(:env).new({"REQUEST_METHOD" => "GET", "REQUEST_PATH" => "/tea", "QUERY_STRING" => "n=1"})
        RUBY
         "Puma::Server.new.handle_request(#{given})",
         "Puma::#{place}#handle_request(method=\"GET\", path=\"/tea\", query=\"n=1\")#{inside}"]
      end,
    *{"2.2.10" => "VERSION = [1, 3].freeze; RELEASE = '2.2.10'", "3.1.8" => "RELEASE = '3.1.8'"}.map do |version, constants|
      ["rack", "Rack #{version} (1 method)", "module Rack; #{constants}; class Builder; def call(env) env end; end; end",
       "Rack::Builder.new.call('REQUEST_METHOD' => 'GET', 'PATH_INFO' => '/tea', 'QUERY_STRING' => '')",
       'Rack::Builder#call(method="GET", path="/tea", query="") <time>']
    end,
    *{"0.4.10" => "*args", "0.5.6" => "*args, **kwargs"}.map do |version, parameters|
      ["sql", "mysql2 #{version} (2 methods)", <<~RUBY,
        module Mysql2
          VERSION = "#{version}"
          class Client; def query(sql, options = {}) sql end; end
          class Statement; def execute(#{parameters}) args end; end
        end
      RUBY
       "Mysql2::Client.new.query('select 1'); Mysql2::Statement.new.execute(7, 'tea')",
       "Mysql2::Client#query(sql=\"select 1\") <time>\nMysql2::Statement#execute(binds=[7, \"tea\"]) <time>"]
    end,
    *{"6.1.7" => "", "8.0.2" => "@serialized_arguments = nil"}.map do |version, _|
      ["jobs", "ActiveJob #{version} (2 methods)", <<~RUBY,
        module ActiveJob
          module VERSION; STRING = "#{version}"; end
          module Execution; def perform_now() 1 end; end
          module Enqueuing; def enqueue(options = {}) 1 end; end
          class Base
            include Execution
            include Enqueuing
            def initialize(*arguments) @arguments = arguments; @queue_name = "low"; @job_id = "abc"; end
          end
        end
        class Report < ActiveJob::Base; end
      RUBY
       "Report.new(7).enqueue; Report.new(7).perform_now",
       "ActiveJob::Enqueuing#enqueue(job=\"Report\", args=[7]) <time>\n" \
       'ActiveJob::Execution#perform_now(job="Report", args=[7], queue="low", id="abc") <time>']
    end,
  ].freeze

  def fit_of(target, tracer)
    result = rbprobe("tracers", "-p", target.pid.to_s)
    assert_exit 0, result
    result.stdout[/^#{tracer} +(.*)$/, 1]
  end

  LAYOUTS.each do |tracer, fit, layout, calls, shown|
    test "#{tracer}: #{fit}" do
      target = start("console")
      target.run("#{layout}\nnil")
      assert_equal fit, fit_of(target, tracer)
      run = trace(target, "-c", tracer).tap { target.run("#{calls}; nil") }.stop
      assert_equal "#{shown}\n", run.tree
      refute_match(/no method|never|fits nothing/, run.stderr)
    end
  end

  test "a version is a String of a constant that is there: nothing is loaded, called or given away" do
    target = start("console")
    target.run(<<~RUBY)
      $called = []
      module Late; def self.const_missing(name) $called << name; "1.0"; end; def run() end; end
      module Auto; autoload :VERSION, "/nowhere/at/all"; def run() end; end
      module Odd; VERSION = Object.new; def VERSION.to_s() $called << :to_s; "1.0"; end; def run() end; end
      module Secret; VERSION = "my password"; def run() end; end
      module Fine; VERSION = "1.2.3.rc1"; def run() end; end
      nil
    RUBY
    config = directory
    FileUtils.mkdir_p("#{config}/rbprobe/tracers")
    File.write("#{config}/rbprobe/tracers/own.tracer", %w[Late Auto Odd Secret Fine].map { |name|
      "#:library #{name}, from 1 on\n#:version #{name}::VERSION\n#{name}#run\n"
    }.join)
    result = rbprobe("tracers", "-p", target.pid.to_s, env: {"XDG_CONFIG_HOME" => config})
    assert_equal %w[Late Auto Odd Secret].map { |name| "#{name}, from 1 on (1 method), " }.join + "Fine 1.2.3.rc1 (1 method)",
                 result.stdout[/^own +(.*)$/, 1]
    result = rbprobe("tracers", "-p", target.pid.to_s, "--format", "json", env: {"XDG_CONFIG_HOME" => config})
    own = result.stdout.lines.map { |line| JSON.parse(line) }.find { |tracer| tracer["name"] == "own" }
    assert_equal [nil, nil, nil, nil, "1.2.3.rc1"], own["libraries"].map { |library| library["version"] }
    assert_equal "[]", target.run("$called")
    {"#:version A::B\nWork#run\n" => /#:version belongs to one #:library before it$/,
     "#:library a\n#:version a b\nWork#run\n" => /#:version takes a constant, such as Redis::VERSION, not "a b"$/,
     "#:library a\n#:version A\n#:version B\nWork#run\n" => /#:version belongs to one #:library before it$/}.each do |text, said|
      File.write("#{config}/bad.tracer", text)
      assert_refused 2, said, "trace", "-p", target.pid.to_s, "-c", "#{config}/bad.tracer"
    end
  end
end
