# What evaluations take from an application's pool of database connections, and give back. With the real ActiveRecord.

require_relative "helper"

class ActiveRecordTest < LiveTest
  def setup
    super
    only_with_gems("active_record", "sqlite3")
    @target = start("console")
    @target.run(<<~RUBY)
      require "active_record"
      ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: "#{directory}/db", pool: 5, reaping_frequency: nil)
      ActiveRecord::Base.connection.create_table(:orders) { |t| t.string :name }
      class Order < ActiveRecord::Base; end
      Order.create!(name: "cup")
      nil
    RUBY
  end

  def evaluate(code, *options)
    rbprobe("eval", "-p", @target.pid.to_s, *options, code)
  end

  # Connections, those in use, those of threads that have ended.
  def pool
    @target.run("ActiveRecord::Base.connection_pool.stat.values_at(:connections, :busy, :dead)")
  end

  test "evaluations give their connections back" do
    assert_equal "[1, 1, 0]", pool
    6.times { assert_equal "\"cup\"\n", evaluate("Order.first.name").stdout }
    assert_equal "[2, 1, 0]", pool
  end

  test "also where the code raises, or is cancelled" do
    assert_exit 1, evaluate("Order.first; raise 'no'")
    assert_exit 1, evaluate("Order.first; sleep", "--timeout", "0.5")
    assert_equal "[2, 1, 0]", pool
  end

  test "a console's lines do" do
    path = directory
    File.write("#{path}/lines", "Order.count\nOrder.first.name\nOrder.count + 1\n")
    result = rbprobe("console", "-p", @target.pid.to_s, stdin: "#{path}/lines")
    assert_match(/cup/, result.stdout)
    assert_equal "[2, 1, 0]", pool
  end

  test "the main thread keeps its own" do
    assert_equal "\"Order\"\n", evaluate("Order.name", "--main").stdout
    assert_equal "[1, 1, 0]", pool
  end

  test "a transaction that the code has left open is over, and its connection closed" do
    assert_exit 0, evaluate("ActiveRecord::Base.connection.begin_transaction; Order.create!(name: 'pot')")
    assert_equal "[1, 1, 0]", pool
    assert_equal "[false, 1]", @target.run("Thread.new { [ActiveRecord::Base.connection.transaction_open?, Order.count] }.value")
  end

  test "an application that never loaded ActiveRecord is not made to" do
    target = start("console")
    assert_equal "nil\n", rbprobe("eval", "-p", target.pid.to_s, "autoload :ActiveRecord, '/nowhere'; nil").stdout
    assert_equal "\"/nowhere\"", target.run("Object.autoload?(:ActiveRecord)")
  end
end
