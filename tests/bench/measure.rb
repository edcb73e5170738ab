# What all measurements stand on: how much of each, both tools in turn, a workload's cost in one process against another's.

require_relative "floor"
require_relative "statistics"
require_relative "tools"

class Measure
  # How much of everything: [quick, full].
  AMOUNTS = {
    pairs_of_processes: [3, 30], alternations: [6, 30], attaches: [5, 50], attaches_rbtrace: [1, 6], repetitions: [1, 5],
    sustained_calls: [2_000_000, 20_000_000], sustained_calls_rbtrace: [20_000, 100_000], memory_processes: [1, 5],
    slow_reader_s: [2, 6], bursts: [5, 25], article_keys: [100_000, 1_000_000], web_processes: [1, 3], web_rounds: [1, 4],
    web_s: [1, 2], web_answer_rounds: [4, 24], heap_objects: [300_000, 2_500_000],
    large_heap_objects: [1_000_000, 10_000_000], recorded_calls: [2_000_000, 50_000_000], recorded_web_s: [2, 10]
  }.freeze
  SELECTOR = "Bench#traced"
  # Fits into a ring, so that nothing is lost however busy the machine is: at most two records of 24 bytes a call.
  BURST = 40_000
  BURST_RBTRACE = 1_000
  CALLS = 200_000

  def initialize(quick:)
    @amounts = AMOUNTS.transform_values { |quick_amount, full| quick ? quick_amount : full }
    @tools = [RbprobeTool, RbtraceTool]
  end

  private

  def amount(key)
    @amounts.fetch(key)
  end

  # { "rbprobe" => block's value, "rbtrace" => ... or why there is none }
  def each_tool
    @tools.to_h do |tool|
      next [tool.name, RbtraceTool.missing] if tool == RbtraceTool && RbtraceTool.missing

      [tool.name, yield(tool)]
    rescue NotMeasured, SystemCallError => e
      [tool.name, "not measured: #{e.message.tr("\n|", " ").squeeze(" ").slice(0, 300)}"]
    end
  end

  # The block's value, or why there is none.
  def or_reason
    yield
  rescue NotMeasured => e
    "not measured: #{e.message}"
  end

  def with(*started)
    yield(*started)
  ensure
    started.each(&:kill)
  end

  def output
    "#{SCRATCH}/output"
  end

  # Until the client has written what it got, and the ring is empty again: a line of a deep call is mostly indentation.
  def await_quiet
    size = nil
    deadline = now + 20
    loop do
      sleep 0.01
      before = size
      size = File.size?(output)
      return if size == before || now > deadline
    end
  end

  # The cost of workload in subject as a ratio of that in control, alternating. Bursts are short, and the least time of each
  # counts:
  # what else the machine does only ever adds.
  def ratio(subject, control, workload, count = CALLS)
    times = { subject => [], control => [] }
    amount(:alternations).times do |i|
      pair = i.even? ? [subject, control] : [control, subject]
      pair.each { |target| times[target] << target.each_ns(workload, count) }
    end
    times[subject].min / times[control].min
  end

  def samples_or_text(values, &block)
    values.transform_values { |value| value.is_a?(String) ? value : block.call(value) }
  end

  # Arms before the block and lets go after it; the block says how many calls it made.
  def traced(tool, target, *arguments, workload: "traced", lines: 1)
    client = tool.attach(target, *arguments, output: output)
    tool.await_armed(target, client, workload) if tool == RbtraceTool
    before = tool == RbtraceTool ? client.delivered : 0
    made = yield(client)
    calls, lost = tool.stop(client, made && made + before, lines: lines)
    [calls - before, lost]
  ensure
    client&.kill
  end

  def check_delivery(made, calls, lost)
    raise NotMeasured, "#{lost} calls lost of #{made}" if lost > 0
    raise NotMeasured, "#{calls} calls delivered, #{made} made" if calls != made
  end
end
