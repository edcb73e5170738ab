# rbprobe backtrace: whom or what a thread waits for, circles of threads that wait for each other, and the statement whose answer
# a database owes.

require_relative "helper"

class BacktraceWaitsTest < LiveTest
  # What `resting` is given sleeps.
  THREADS = <<~'RUBY'.freeze
    require "monitor"
    def thread(name, &body); Thread.new(&body).tap { |made| made.name = name }; end
    def resting(*threads); Thread.pass until threads.all?(&:stop?); end
  RUBY

  def prepared(code)
    start("threads").tap { |target| target.run(THREADS + code + "\nnil") }
  end

  def look(target, *options)
    rbprobe("bt", "-p", target.pid.to_s, *options).tap { |result| assert_exit 0, result }
  end

  def objects(target, type, *options)
    look(target, "--format", "json", *options).objects.select { |object| object["type"] == type }
  end

  def named(target)
    objects(target, "thread").to_h { |thread| [thread["name"], thread] }
  end

  # 'thread 12 "a" waits for Mutex 0x7f, held by' as [:a, "waits for Mutex", ...]
  def circle_in(text)
    text[/^deadlock of .*?(?=^thread)/m].gsub(/thread \d+ /, "thread ").gsub(/0x\h+/, "0x")
  end

  test "which thread one joins" do
    only_without_yjit
    target = prepared(<<~RUBY)
      a = thread("a") { sleep }
      resting(thread("joins") { a.join }, thread("values") { a.value }, thread("limited") { a.join(600) })
    RUBY
    found = named(target)
    { "joins" => false, "values" => false, "limited" => true }.each do |name, timed|
      assert_equal [found["a"]["id"], "a", timed], found[name]["joins"].values_at("thread", "thread_name", "timed"), name
      assert_match(/\Athread (\d+ )?"a"\z/, found[name]["waits_on"])
    end
    refute found["a"].key?("joins")
    text = look(target).stdout
    assert_match(/"joins", sleeping in \S*join on thread (\d+ )?"a"/, text)
    assert_match(/"values", sleeping in \S*value on thread (\d+ )?"a"/, text)
  end

  # Jobs run on the main thread, too, which is awake then.
  test "which thread the main one joins" do
    only_without_yjit
    target = start("states", "join")
    assert_match(/^thread .* main, sleeping in \S*join on thread /, look(target).stdout)
  end

  test "a circle of a Mutex, a Monitor and a join" do
    only_without_yjit
    target = prepared(<<~RUBY)
      mutex = Mutex.new
      monitor = Monitor.new
      last = nil
      thread("locks") { mutex.synchronize { Thread.pass until monitor.mon_locked?; monitor.synchronize { } } }
      thread("has the monitor") { monitor.synchronize { Thread.pass until last; last.join } }
      last = thread("is joined") { Thread.pass until mutex.locked?; mutex.synchronize { } }
      thread("beside") { Thread.pass until monitor.mon_locked?; monitor.synchronize { } }
    RUBY
    wait_until("all wait") { ["locks", "is joined", "beside"].all? { |name| named(target)[name]["mutex"] } }
    expected = <<~TEXT.lines.map { |line| "   #{line}" }.join
      thread "locks" waits for Monitor 0x, held by
      -> thread "has the monitor" waits in Thread#join for the end of
      -> thread "is joined" waits for Mutex 0x, held by
      -> thread "locks"
    TEXT
    assert_equal "deadlock of 3 threads:\n#{expected}", circle_in(look(target).stdout)
    found = named(target)
    circle = objects(target, "deadlock").first["threads"]
    assert_equal(["locks", "has the monitor", "is joined"].map { |name| found[name]["id"] }, circle.map { |each| each["id"] })
    assert_equal [found["locks"]["mutex"]["monitor"], found["is joined"]["id"], nil],
                 [circle[0]["monitor"], circle[1]["joins"], circle[2]["joins"]]
    assert_equal found["has the monitor"]["id"], found["beside"].dig("mutex", "owner"), look(target).stdout
  end

  test "threads that join each other; one with a limit is no deadlock for ever" do
    only_without_yjit
    target = prepared(<<~RUBY)
      a = b = nil
      a = thread("a") { Thread.pass until b; b.join }
      b = thread("b") { Thread.pass until a; a.join(600) }
      resting(a, b)
    RUBY
    assert_equal "deadlock of 2 threads, until the time limit of a join:\n   thread \"a\" waits in Thread#join for the end of\n" \
                 "   -> thread \"b\" waits in Thread#join for the end of\n   -> thread \"a\"\n", circle_in(look(target).stdout)
    assert_equal true, objects(target, "deadlock").first["timed"]
  end

  test "threads held up by one that waits at a Queue or ConditionVariable, with their locks" do
    only_without_yjit
    target = prepared(<<~RUBY)
      $outer, $inner, queue = Mutex.new, Mutex.new, Queue.new
      condition = ConditionVariable.new
      resting(thread("has both") { $outer.synchronize { $inner.synchronize { condition.wait($inner) } } })
      resting(thread("locks") { $outer.synchronize { } }, thread("idle") { queue.pop }, thread("inner") { $inner.lock; sleep })
      joins = thread("joins") { Thread.list.find { |each| each.name == "idle" }.join }
      resting(joins)
    RUBY
    found = named(target)
    assert_match(/^1 thread waits for one that waits to be woken:
   thread (\d+ )?"locks" waits for Mutex 0x\h+, held by
   -> thread (\d+ )?"has both", sleeping in \S*wait on 0x#{found["has both"]["waits_for"].to_s(16)}$/, look(target).stdout)
    assert_equal [[found["has both"]["id"], [found["locks"]["id"]]]],
                 objects(target, "held_up").map { |each| each.values_at("by", "threads") }
    refute_includes look(target).stdout, "can wake another"
  end

  # Ruby itself ends a program none of whose threads can be woken, but for one that sleeps.
  test "no thread can wake another" do
    only_without_yjit
    only_where_loading_is_possible
    { "sleep" => true, "sleep 600" => false, "$queue.pop" => true, "thread.join" => true, "thread.join(600)" => false,
      "Mutex.new.then { |m| m.synchronize { ConditionVariable.new.wait(m, 600) } }" => false,
      "Mutex.new.then { |m| m.synchronize { ConditionVariable.new.wait(m) } }" => true }.each do |main, dead|
      pid = start_beside(*Processes::RUBY, "-e", "$queue = Queue.new; Thread.new { sleep }; " \
                                                 "thread = Thread.new { $queue.pop }; Thread.pass until thread.stop?; #{main}")
      text = ""
      wait_until("it has started") { Processes.threads_of(pid) > 2 }
      wait_until(-> { "it waits: #{main}: #{text}" }) do
        text = rbprobe("bt", "-p", pid.to_s).stdout
        text.match?(/ main, sleeping in /) && text.include?("pop on")
      end
      wait_until(-> { "#{main}: #{text}" }) do
        text = rbprobe("bt", "-p", pid.to_s).stdout
        text.include?("all 3 threads wait without a limit, and none can wake another") == dead
      end
    end
  end

  test "which Mutex the main thread waits for" do
    only_without_yjit
    target = start("states", "mutex")
    assert_match(/^thread .* main, waiting for Mutex 0x\h+ held by thread /, look(target).stdout)
  end

  # Threads get the memory of every second String. What lies behind it is the address of a Mutex, again and again. Jobs run on
  # the main thread, which says that it is large, as it has many variables.
  test "a thread that sleeps waits for no Mutex, whatever lies beside it in memory" do
    target = prepared(<<~RUBY)
      200.times { |number| Thread.current["variable \#{number}"] = number }
      $mutex = Mutex.new
      address = [$mutex.inspect[/0x(\\h+)/, 1].hex].pack("Q")
      $memory = (40..80).flat_map { |words| (1..60).map { address * words } }
      $memory.each_slice(2) { |first, _| first.clear }
      resting(*(1..40).map { |number| thread("t\#{number}") { sleep } })
    RUBY
    threads = objects(target, "thread").select { |thread| thread["name"].to_s.start_with?("t") }
    assert_equal 40, threads.size
    assert_empty(threads.select { |thread| thread["mutex"] })
  end

  test "where YJIT is on, its code is not dropped unasked" do
    yjit = Processes::RUBY.first != "chroot" && `#{Processes::RUBY.shelljoin} --yjit -e 'p RubyVM::YJIT.enabled?' 2>&1`
    skip "this Ruby has no YJIT" unless yjit == "true\n"
    only_where_loading_is_possible
    begun = "#{shared_directory}/joins"
    pid = start_beside(*Processes::RUBY, "--yjit", "-e", "File.write(ARGV[0], ''); Thread.new { sleep }.join", begun)
    wait_until("it has started") { File.exist?(begun) }
    wait_until("it joins") { rbprobe("bt", "-p", pid.to_s).stdout.include?("#join") }
    without = rbprobe("bt", "-p", pid.to_s)
    refute_includes without.stdout, "#join on thread"
    assert_equal "rbprobe: process #{pid}: whom threads join, what they wait for, and their SQL are shown with --locals: for " \
                 "these the compiler (YJIT) has to drop its code, once\n", without.stderr
    with = rbprobe("bt", "--locals", "-p", pid.to_s)
    assert_includes with.stdout, "#join on thread"
    assert_equal "", with.stderr
    assert_includes rbprobe("bt", "-p", pid.to_s).stdout, "#join on thread"
  end

  test "which Queue or ConditionVariable" do
    only_without_yjit
    target = prepared(<<~RUBY)
      $queue = Queue.new
      mutex = Mutex.new
      condition = ConditionVariable.new
      resting(thread("one") { $queue.pop }, thread("two") { $queue.pop }, thread("other") { Queue.new.pop },
              thread("condition") { mutex.synchronize { condition.wait(mutex) } })
    RUBY
    found = named(target)
    assert_equal found["one"]["waits_for"], found["two"]["waits_for"]
    assert_equal 3, found.values_at("one", "other", "condition").map { |thread| thread.fetch("waits_for") }.uniq.size
    assert_match(/"one", sleeping in \S*pop on 0x#{found["one"]["waits_for"].to_s(16)}\b/, look(target).stdout)
    # One group, whatever each of them waits for.
    assert_match(/^x2 sleeping in \S*pop[,:]/, look(target, "--group", "-t", "o[nt]*").stdout)
  end

  test "what one waits in, where a single frame is shown" do
    target = prepared("mutex = Mutex.new; resting(thread('one') { mutex.synchronize { ConditionVariable.new.wait(mutex) } })")
    assert_match(/"one", sleeping in \S*wait\b/, look(target, "--limit", "1").stdout)
    assert_equal look(target, "-t", "one").stdout.lines[1].sub(/, [\d.]+ s CPU/, ""),
                 look(target, "-t", "one", "--limit", "1").stdout.lines[1].sub(/, [\d.]+ s CPU/, "")
  end

  test "a thread that starts and ends while it is looked at is in no circle" do
    target = prepared(<<~RUBY)
      $going = true
      $locks = Array.new(2) { Mutex.new }
      4.times do |i|
        Thread.new do
          while $going
            $locks[0].synchronize { Thread.pass; $locks[1].synchronize { Thread.pass } }
            Thread.new { Thread.pass }.join
          end
        end
      end
    RUBY
    30.times { refute_includes look(target).stdout, "deadlock" }
    target.run("$going = false")
  end

  # --- Databases

  test "the statement that a method of a driver was given, around the method that waits, and no other" do
    only_without_yjit
    target = prepared(<<~RUBY)
      module Mysql2
        class Client
          def query(sql, options = {}); [1].each { wait }; end
          def wait; sleep; end
          def each_row(sql); yield; end
          def ping(text); sleep; end
        end
      end
      client = Mysql2::Client.new
      module ActiveRecord; module ConnectionAdapters; class Adapter
        def execute(sql, client); sql =~ /x/; client.ping("data"); end
      end; end; end
      def mine(sql, client); client.ping("data"); end
      resting(thread("query") { client.query("SELECT '\u00e9'\\n" + "x" * 2000) },
              thread("row") { client.each_row("SELECT 2") { sleep } },
              thread("adapter") { ActiveRecord::ConnectionAdapters::Adapter.new.execute("SELECT 3", client) },
              thread("mine") { mine("SELECT 4", client) }, thread("asleep") { sql = "SELECT 5"; sleep })
    RUBY
    found = named(target)
    assert_match(/\ASELECT 'é'\\nx+\.\.\./, found["query"]["sql"])
    assert_operator found["query"]["sql"].bytesize, :<, 1100
    assert_equal 'SELECT 3', found["adapter"]["sql"]
    %w[row mine asleep].each { |name| refute found[name].key?("sql"), name }
    assert_match(/^thread .*"adapter", sleeping in .*\n   SQL SELECT 3\n   /, look(target).stdout)
  end

  # A server that says who may come in, and no more.
  SILENT_POSTGRES = <<~'RUBY'.freeze
    require "pg"
    require "socket"
    $server = TCPServer.new("127.0.0.1", 0)
    Thread.new do
      loop do
        Thread.new($server.accept) do |client|
          client.read(client.read(4).unpack1("N") - 4)
          client.write("R", [8, 0].pack("NN"), "Z", [5].pack("N"), "I")
          sleep
        end
      end
    end
    def connection
      PG::Connection.new(host: "127.0.0.1", port: $server.addr[1], user: "a", dbname: "a",
                         sslmode: "disable", gssencmode: "disable")
    end
  RUBY

  test "the statement in ruby-pg" do
    only_with_gems("pg")
    target = prepared(<<~RUBY)
      #{SILENT_POSTGRES}
      $threads = { "exec" => ->(pg) { pg.exec("SELECT 1") }, "exec_params" => ->(pg) { pg.exec_params("SELECT $1", [2]) },
                   "prepare" => ->(pg) { pg.prepare("a name", "SELECT 3") },
                   "exec_prepared" => ->(pg) { pg.exec_prepared("a name", [4]) } }.map do |name, call|
        thread(name) { connection.tap { Thread.current[:connected] = true }.then(&call) }
      end
      sleep 0.01 until $threads.all? { |each| each[:connected] }
      sleep 0.2
    RUBY
    found = named(target)
    assert_equal ["SELECT 1", "SELECT $1", "SELECT 3", nil],
                 found.values_at("exec", "exec_params", "prepare", "exec_prepared").map { |thread| thread["sql"] }
    assert_match(/"exec", sleeping in PG::Connection#exec(?: on TCP .*)?, .*\n.*\n?   SQL SELECT 1$/, look(target).stdout)
  end

  # Jobs run there. The thread is awake then, in a method of whatever name.
  test "the statement for which the main thread waits" do
    only_with_gems("pg")
    only_where_loading_is_possible
    pid = start_beside(*Processes::RUBY, "-e", SILENT_POSTGRES + "connection.exec('SELECT 1')")
    skip "this user may not see what its processes wait for" unless (File.read("/proc/#{pid}/syscall") rescue nil)
    wait_until("it has started") { Processes.threads_of(pid) > 2 }
    text = ""
    wait_until(-> { "it waits: #{text}" }) do
      text = rbprobe("bt", "-p", pid.to_s, "-t", "main", "--limit", "1").stdout
      text.match?(/ on TCP .*\n(?:.*=.*\n)?   SQL SELECT 1\n/)
    end
    assert_match(/ main, sleeping in PG::Connection#exec on TCP 127\.0\.0\.1:\d+ to /, text)
  end
end
