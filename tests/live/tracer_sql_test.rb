# The tracer sql against real servers: PostgreSQL and MariaDB, each by its driver alone and through ActiveRecord. The servers
# are the test's own, run by nobody, and listen on a socket in its directory only.

require_relative "helper"
require "socket"

class TracerSqlTest < LiveTest
  # Where the test is root's, as the servers refuse to run as root.
  def as_nobody
    Process.uid.zero? ? NOBODY : []
  end

  # Its own directory, which the server may write to.
  def server_directory
    directory.tap { |path| File.chown(65_534, 65_534, path) if Process.uid.zero? }
  end

  def only_with_programs(*patterns)
    patterns.map { |pattern| Dir.glob(pattern).max || skip("needs #{pattern}") }
  end

  # No server comes that ends before it listens: its log says why.
  def wait_until_it_answers(log, pid)
    wait_until(-> { "the server answers:\n#{File.read(log)}" }, 60) do
      flunk "the server has ended:\n#{File.read(log)}" if Process.wait(pid, Process::WNOHANG)
      yield
    end
  end

  def start_server(path, *command)
    start_beside(*as_nobody, *command, out: "#{path}/log", chdir: path)
  end

  def with_postgresql
    only_with_gems("pg", "active_record")
    initdb, server, ready = only_with_programs(*%w[initdb postgres pg_isready].map { |name| "/usr/lib/postgresql/*/bin/#{name}" })
    path = server_directory
    assert system(*as_nobody, initdb, "-D", "#{path}/data", "-N", "-A", "trust", "-U", "shop", "--locale=C", "-E", "UTF8",
                  chdir: path, %i[out err] => File::NULL), "initdb"
    pid = start_server(path, server, "-D", "#{path}/data", "-k", path, "-c", "listen_addresses=", "-F")
    wait_until_it_answers("#{path}/log", pid) { system(ready, "-q", "-h", path) }
    yield path
  ensure
    end_at_once(pid) if pid
  end

  # TERM would wait until its clients have gone.
  def end_at_once(pid)
    @others.delete(pid)
    Process.kill(:INT, pid)
    Process.wait(pid)
  end

  # Without system tables: nobody has to log in, and it starts at once.
  def with_mariadb
    only_with_gems("mysql2", "active_record")
    server, = only_with_programs("/usr/sbin/mariadbd")
    path = server_directory
    FileUtils.mkdir("#{path}/shop")
    FileUtils.chown(65_534, 65_534, "#{path}/shop") if Process.uid.zero?
    pid = start_server(path, server, "--no-defaults", "--skip-grant-tables", "--skip-networking", "--datadir=#{path}",
                       "--socket=#{path}/socket", "--pid-file=#{path}/pid", "--innodb-buffer-pool-size=8M",
                       "--innodb-log-file-size=4M")
    wait_until_it_answers("#{path}/log", pid) do
      UNIXSocket.new("#{path}/socket").close || true
    rescue Errno::ENOENT, Errno::ECONNREFUSED
      false
    end
    "#{path}/socket"
  end

  # What the tracer shows of this code: each call is one line, also where its beginning had one of its own since it took long;
  # and below, what stat counts by statement.
  def shown(target, code)
    tracer = trace(target, "-c", "sql")
    target.run("#{code}\nnil")
    tracer.stop.tree.gsub("ActiveRecord::ConnectionAdapters::AbstractAdapter", "Adapter")
          .gsub(/^( *)(\S+?)(\(.*\))\n\1\2 <time>$/, '\1\2\3 <time>')
  end

  def counted(target, code)
    counter = launch("stat", "-v", "--yes", "--format", "json", "-p", target.pid.to_s, "-c", "sql", "--by", "statement")
              .wait_until_armed
    target.run("#{code}\nnil")
    rows = counter.stop.stdout.lines.map { |line| JSON.parse(line) }.select { |row| row["type"] == "method" }
    rows.to_h { |row| [row["key"] && JSON.parse(row["key"]), row["calls"]] }
  end

  # Through ActiveRecord: the same for each adapter. The first time it asks for much else.
  MODEL = <<~RUBY
    Item.create!(name: "it's")
    Item.find_by(name: "tea")
    Item.where(id: [1, 2, 3]).to_a
    Item.where("name = ?", 'a "b"').count
    Item.connection.select_value("select 9")
  RUBY

  test "PostgreSQL: each way to send a statement, and its binds" do
    with_postgresql { |host| tried_with_postgresql(host) }
  end

  def tried_with_postgresql(host)
    target = start("console")
    target.run(<<~RUBY)
      require "pg"
      $pg = PG.connect(host: "#{host}", user: "shop", dbname: "postgres")
      $pg.exec("create table items (id serial primary key, name text)")
      nil
    RUBY
    text = shown(target, <<~'RUBY')
      $pg.exec("select 1")
      $pg.query("select 2")
      $pg.async_exec("select 3")
      $pg.exec_params("select $1::int + $2", [7, 8])
      $pg.async_exec_params("select $1::text", ["it's"])
      $pg.sync_exec_params("select $1::text", [{value: "tea", type: 25, format: 0}])
      $pg.prepare("find", "select * from items where name = $1")
      $pg.exec_prepared("find", ["tea"])
      $pg.exec("select nonsense") rescue 1
      $pg.send_query("select 5")
      $pg.get_last_result
      $pg.send_query_params("select $1::int", [6])
      $pg.get_last_result
      $pg.send_query_prepared("find", ["pot"])
      $pg.get_last_result
    RUBY
    type = target.run("{value: 'tea', type: 25, format: 0}")
    assert_equal <<~TREE, text.gsub(/ ! PG::UndefinedColumn: .* <time>/, " ! PG::UndefinedColumn <time>")
      PG::Connection#exec(sql="select 1", binds=[]) <time>
      PG::Connection#query(sql="select 2", binds=[]) <time>
      PG::Connection#async_exec(sql="select 3", binds=[]) <time>
      PG::Connection#exec_params(sql="select $1::int + $2", binds=[7, 8]) <time>
      PG::Connection#async_exec_params(sql="select $1::text", binds=["it's"]) <time>
      PG::Connection#sync_exec_params(sql="select $1::text", binds=[#{type}]) <time>
      PG::Connection#prepare(statement="find", sql="select * from items where name = $1") <time>
      PG::Connection#exec_prepared(statement="find", binds=["tea"]) <time>
      PG::Connection#exec(sql="select nonsense", binds=[]) ! PG::UndefinedColumn <time>
      PG::Connection#send_query(sql="select 5") <time>
      PG::Connection#send_query_params(sql="select $1::int", binds=[6]) <time>
      PG::Connection#send_query_prepared(statement="find", binds=["pot"]) <time>
    TREE
    target.run(<<~RUBY)
      require "active_record"
      ActiveRecord::Base.establish_connection(adapter: "postgresql", host: "#{host}", username: "shop", database: "postgres")
      class Item < ActiveRecord::Base; end
      #{MODEL}
      nil
    RUBY
    assert_equal <<~'TREE', shown(target, MODEL)
      Adapter#log(sql="BEGIN", binds=[]) <time>
      Adapter#log(sql="INSERT INTO \"items\" (\"name\") VALUES ($1) RETURNING \"id\"", binds=["it's"]) <time>
      Adapter#log(sql="COMMIT", binds=[]) <time>
      Adapter#log(sql="SELECT \"items\".* FROM \"items\" WHERE \"items\".\"name\" = $1 LIMIT $2", binds=["tea", 1]) <time>
      Adapter#log(sql="SELECT \"items\".* FROM \"items\" WHERE \"items\".\"id\" IN ($1, $2, $3)", binds=[1, 2, 3]) <time>
      Adapter#log(sql="SELECT COUNT(*) FROM \"items\" WHERE (name = 'a \"b\"')", binds=[]) <time>
      Adapter#log(sql="select 9", binds=[]) <time>
    TREE
    numbers = counted(target, "(1..3).each { |n| Item.where(id: (1..n + 1).to_a).to_a; $pg.exec_params('select $1', [n]); " \
                              "$pg.exec(%q(select 'it''s ', ) + n.to_s) }")
    assert_equal({"SELECT \"items\".* FROM \"items\" WHERE \"items\".\"id\" IN (?, ...)" => 3, "select ?" => 3,
                  "select ?, ..." => 3}, numbers)
  end

  test "MariaDB: each way to send a statement, and its binds" do
    socket = with_mariadb
    target = start("console")
    target.run(<<~RUBY)
      require "mysql2"
      $my = Mysql2::Client.new(socket: "#{socket}", database: "shop")
      $my.query("create table items (id int auto_increment primary key, name text)")
      nil
    RUBY
    text = shown(target, <<~'RUBY')
      $my.query("select 1")
      $my.query("select 2", as: :array)
      find = $my.prepare("select * from items where name = ? and id < ?")
      find.execute("it's", 7)
      find.execute("tea", 3, as: :array)
      $my.query("select nonsense") rescue 1
    RUBY
    assert_equal <<~TREE, text.gsub(/ ! Mysql2::Error: .* <time>/, " ! Mysql2::Error <time>")
      Mysql2::Client#query(sql="select 1") <time>
      Mysql2::Client#query(sql="select 2") <time>
      Mysql2::Client#prepare(sql="select * from items where name = ? and id < ?") <time>
      Mysql2::Statement#execute(binds=["it's", 7]) <time>
      Mysql2::Statement#execute(binds=["tea", 3]) <time>
      Mysql2::Client#query(sql="select nonsense") ! Mysql2::Error <time>
    TREE
    [true, false].each do |prepared|
      target.run(<<~RUBY)
        require "active_record"
        ActiveRecord::Base.establish_connection(adapter: "mysql2", socket: "#{socket}", database: "shop",
                                                prepared_statements: #{prepared})
        class Item < ActiveRecord::Base; end
        #{MODEL}
        nil
      RUBY
      text = shown(target, MODEL)
      by_hand = <<~'TREE'
        Adapter#log(sql="SELECT COUNT(*) FROM `items` WHERE (name = 'a \\\"b\\\"')", binds=[]) <time>
        Adapter#log(sql="select 9", binds=[]) <time>
      TREE
      assert_equal (prepared ? <<~'BOUND' : <<~'WRITTEN') + by_hand, text
        Adapter#log(sql="BEGIN", binds=[]) <time>
        Adapter#log(sql="INSERT INTO `items` (`name`) VALUES (?)", binds=["it's"]) <time>
        Adapter#log(sql="COMMIT", binds=[]) <time>
        Adapter#log(sql="SELECT `items`.* FROM `items` WHERE `items`.`name` = ? LIMIT ?", binds=["tea", 1]) <time>
        Adapter#log(sql="SELECT `items`.* FROM `items` WHERE `items`.`id` IN (?, ?, ?)", binds=[1, 2, 3]) <time>
      BOUND
        Adapter#log(sql="BEGIN", binds=[]) <time>
        Adapter#log(sql="INSERT INTO `items` (`name`) VALUES ('it\\'s')", binds=[]) <time>
        Adapter#log(sql="COMMIT", binds=[]) <time>
        Adapter#log(sql="SELECT `items`.* FROM `items` WHERE `items`.`name` = 'tea' LIMIT 1", binds=[]) <time>
        Adapter#log(sql="SELECT `items`.* FROM `items` WHERE `items`.`id` IN (1, 2, 3)", binds=[]) <time>
      WRITTEN
    end
    numbers = counted(target, <<~'RUBY')
      (1..3).each do |n|
        Item.where(id: (1..n + 1).to_a, name: "it's \\ #{n}").to_a
        $my.query("select \"a 'b #{n}\", 'it\\'s #{n}'")
      end
    RUBY
    assert_equal({"SELECT `items`.* FROM `items` WHERE `items`.`id` IN (?, ...) AND `items`.`name` = ?" => 3,
                  "select ?, ..." => 3}, numbers)
  end

  test "ActiveRecord from 8.2 on, whose log takes an object: as a stand-in has it" do
    target = start("console")
    target.run(<<~'RUBY')
      module ActiveRecord; module ConnectionAdapters; class AbstractAdapter
        Intent = Struct.new(:name) { def initialize(sql, binds) super("x"); @processed_sql = sql; @binds = binds; end }
        def adapter_name() "PostgreSQL" end
        def log(intent_or_sql, name = "SQL", binds = [], type_casted_binds = [], async: false, &block) 1 end
      end; end; end
      $adapter = ActiveRecord::ConnectionAdapters::AbstractAdapter.new
      nil
    RUBY
    code = '$adapter.log(ActiveRecord::ConnectionAdapters::AbstractAdapter::Intent.new("select $1", [7])); $adapter.log("x 2")'
    assert_equal <<~TREE, shown(target, code)
      Adapter#log(sql="select $1", binds=[7]) <time>
      Adapter#log(sql="x 2", binds=[]) <time>
    TREE
    assert_equal({"select ?" => 1, "x ?" => 1}, counted(target, code))
  end
end
