# Says in one line each how tests went, in TAP, which tests/run counts together with that of the unit tests.

class TapReporter < Minitest::AbstractReporter
  def initialize(io)
    super()
    @io = io
    @count = 0
    @failed = false
  end

  def record(result)
    @count += 1
    name = "#{result.klass.sub(/Test\z/, "")}: #{result.name.sub(/\Atest_\d+ /, "")}"
    if result.skipped?
      @io.puts "ok #{@count} - #{name} # SKIP #{result.failure.message.lines.first.chomp}"
    elsif result.passed?
      @io.puts "ok #{@count} - #{name}"
    else
      @failed = true
      @io.puts "not ok #{@count} - #{name}"
      result.failures.each { |failure| explain(failure) }
    end
    @io.flush
  end

  def report
    @io.puts "1..#{@count}"
  end

  def passed?
    !@failed
  end

  private

  def explain(failure)
    text = failure.is_a?(Minitest::UnexpectedError) ? failure.message : "#{failure.message}\n#{failure.location}"
    text.each_line { |line| @io.puts "# #{line.chomp}" }
  end
end

module Minitest
  def self.plugin_tap_init(options)
    reporter.reporters.clear
    reporter << TapReporter.new(options[:io])
  end
end

Minitest.extensions << "tap"
