# What `rbprobe stat` costs, beside a full trace, beside the least that it could cost (floor.rb) and beside nothing: bursts in
# processes of which each is observed in its own way, in turn.
class Measurements
  # [key, what, selector, options, requirement for a Ruby method, for a C method]
  STAT_WAYS = [
    ["trace", "full `trace`", ["trace"], nil, nil],
    ["times", "`stat`", ["stat"], 5.0, 3.0],
    ["calls", "`stat --calls`", ["stat", "--calls"], 3.9, 2.2],
    ["floor", "`stat`, if its callbacks did nothing but read the clock", ["stat"], nil, nil, CLOCK_ONLY]
  ].freeze

  measurement :stat do
    stat_rows("ruby", "loop of a Ruby method", "traced", "Bench#traced", 3) +
      stat_rows("c", "loop of a C method (`Hash#key?`)", "key", "Hash#key?", 4)
  end

  private

  def stat_rows(key, what, workload, selector, requirement)
    columns = Array.new(amount(:repetitions)) { stat_once(workload, selector) }.transpose.map { |column| Samples.new(column) }
    STAT_WAYS.each_with_index.map do |way, i|
      Row.new(key: "stat-#{key}-#{way[0]}", what: "#{what}: #{way[1]}", unit: :ns, requirement: way[requirement],
              relative: true, untraced: columns.first, rbprobe: columns[i + 1])
    end
  end

  # [ns untraced, ns by each way]
  def stat_once(workload, selector)
    with(Target.new(nil), *STAT_WAYS.map { |way| Target.new(way[5] || RbprobeTool) }) do |control, *subjects|
      [control, *subjects].each { |target| target.run(workload, BURST) }
      clients = STAT_WAYS.zip(subjects).map { |way, target| stat_client(target, *way[2], selector) }
      times = Array.new(amount(:bursts)) do
        [control, *subjects].map { |target| target.each_ns(workload, BURST).tap { await_quiet } }
      end
      STAT_WAYS.zip(clients) do |way, client|
        check_delivery(way[5] ? 0 : amount(:bursts) * BURST, *RbprobeTool.stop(client, nil, lines: nil))
      end
      times.transpose.map(&:min)
    ensure
      clients&.each(&:kill)
    end
  end

  def stat_client(target, *arguments)
    Client.new([RbprobeTool::PROGRAM, *arguments, "-v", "-p", target.pid.to_s, "-o", output],
               armed: /: tracing \d+ method/, output: output)
  end
end
