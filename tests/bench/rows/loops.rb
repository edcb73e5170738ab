# Loops that do hardly anything but call what is traced: the worst case for a tracer. What is compared with what: bursts in
# a process that is traced, and in one that never is, in turn; a burst fits into a ring, so that nothing is lost. Then the
# same after the tracer has let go.
# Of each process's bursts, which take some milliseconds, the fastest counts: what else the machine does only ever adds.
class Measurements
  # target's workload, selector, what "at least" says of the slowdown, calls a burst
  LOOPS = [
    { key: "ruby", what: "loop of a Ruby method", workload: "traced", selector: "Bench#traced", requirement: 5 },
    { key: "ruby-args", what: "loop of a Ruby method, its two arguments captured", workload: "pair", selector: "Bench#pair",
      names: %w[first second] },
    { key: "c", what: "loop of a C method (`Hash#key?`)", workload: "key", selector: "Hash#key?", requirement: 3.5 },
    { key: "threads", what: "8 threads in a loop of a Ruby method", workload: "threads", selector: "Bench#traced" },
    { key: "recursion", what: "recursion 1,000 deep, a call", workload: "recursion", selector: "Bench#descend", nested: true },
    { key: "ruby-stack", what: "loop of a Ruby method below 20 others, `--stack=20`", workload: "deep", selector: "Bench#traced",
      options: ["--stack=20"] },
    { key: "ruby-measure", what: "loop of a Ruby method, `--measure cpu,alloc,gc`", workload: "traced", selector: "Bench#traced",
      options: ["--measure=cpu,alloc,gc"] },
    { key: "ruby-hook", what: "loop of a Ruby method, `--engine hook`", workload: "traced", selector: "Bench#traced",
      options: ["--engine", "hook"] },
    { key: "c-hook", what: "loop of a C method, `--engine hook`", workload: "key", selector: "Hash#key?",
      options: ["--engine", "hook"] }
  ].freeze

  measurement :loops do
    LOOPS.flat_map { |one| loop_rows(**one) }
  end

  # What is not selected, while something else is.
  measurement :unselected do
    loop_rows(key: "unselected", what: "loop of a Ruby and a C method, neither selected", workload: "mixed",
              selector: "Bench#traced", requirement: 1.01, delivered: false, arm: "traced")
  end

  # Every method there is; here lines are not counted, since the loop makes others than its own calls, too.
  measurement :firehose do
    how = { workload: "untraced", burst: 10_000, delivered: false }
    loop_rows(key: "firehose", what: "firehose (`-f`), loop of a Ruby method", firehose: :engines, requirement: 6, **how) +
      loop_rows(key: "firehose-hook", what: "firehose by the whole hook (`-f --yes`), loop of a Ruby method",
                firehose: :hook, after: nil, **how)
  end

  # The article's: a hash of a million keys, Hash#key? traced.
  measurement :article do
    prepare = ->(target) { target.run("article-build", amount(:article_keys)) }
    loop_rows(key: "article", what: "the article's loop: `h.key?(keys.sample)`, a million keys", workload: "article",
              selector: "Hash#key?", requirement: 1.3, prepare: prepare)
  end

  private

  def loop_rows(key:, what:, workload:, requirement: nil, notes: nil, after: 1.01, **how)
    untraced = noise = nil
    values = each_tool do |tool|
      next "has no engines" if tool == RbtraceTool && (how[:options] || how[:firehose] == :hook)

      columns = Array.new(amount(:repetitions)) { loop_once(tool, workload, **how) }.transpose.map do |column|
        Samples.new(column)
      end
      untraced, noise = columns.values_at(0, 3) if tool == RbprobeTool
      columns[1, 2]
    end
    traced, later = [0, 1].map { |i| samples_or_text(values) { |columns| columns[i] } }
    rows = [Row.new(key: key, what: "#{what}: traced", unit: :ns, requirement: requirement, relative: true, untraced: untraced,
                    rbprobe: traced["rbprobe"], rbtrace: traced["rbtrace"], notes: notes)]
    return rows if how[:options]

    rows << Row.new(key: "#{key}-after", what: "#{what}: after detach, against before", unit: :ratio, requirement: after,
                    noise: noise, rbprobe: later["rbprobe"], rbtrace: later["rbtrace"])
  end

  # [ns untraced, ns traced, ratio after to before, and that of a process that was left alone meanwhile]
  def loop_once(tool, workload, selector: nil, names: nil, options: [], firehose: nil, burst: BURST, delivered: true,
                nested: false, prepare: nil, arm: workload)
    burst = BURST_RBTRACE if tool == RbtraceTool
    delivered = false if nested && tool == RbtraceTool # of which only the lines can be counted: two for most calls here
    arguments = firehose ? tool.firehose(firehose) : names ? tool.arguments_of(selector, *names) : [*options, selector]
    with(Target.new(tool), Target.new(nil), Target.new(nil)) do |subject, control, left_alone|
      [subject, control, left_alone].each do |target|
        prepare&.call(target)
        target.run(workload, BURST)
      end
      before, alone_before = [subject, left_alone].map { |target| ratio(target, control, workload, BURST) }
      plain = []
      traced = []
      delivery = traced(tool, subject, *arguments, workload: arm, lines: delivered ? 1 : nil) do
        amount(:bursts).times do
          plain << control.each_ns(workload, BURST)
          await_quiet
          traced << subject.each_ns(workload, burst)
        end
        amount(:bursts) * burst if delivered
      end
      raise NotMeasured, "#{delivery.last} calls lost" if delivery.last > 0

      check_delivery(amount(:bursts) * burst, *delivery) if delivered
      after, alone_after = [subject, left_alone].map { |target| ratio(target, control, workload, BURST) }
      [plain.min, traced.min, after / before, alone_after / alone_before]
    end
  end
end
