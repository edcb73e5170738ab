# What is left of a trace that used all engines that `auto` chooses without asking: every loop in the process that was
# traced, against one that never was, after against before. Between the two each loop ran while it was traced. Beside it the
# same where it ran and was not traced.
class Measurements
  RESIDUE_SELECTORS = ["Bench#traced", "Hash#key?", "Bench#attribute"].freeze # target, patch, hook
  RESIDUE_LOOPS = {
    "empty" => "an empty loop", "untraced" => "loop of a Ruby method that was not traced",
    "traced" => "loop of the traced Ruby method", "key" => "loop of the traced C method",
    "attribute" => "loop of the traced attr_reader"
  }.freeze

  measurement :residue do
    rounds = Array.new(amount(:repetitions)) { [residue_once(true), residue_once(false)] }
    columns, noise = rounds.transpose.map { |of_one_kind| of_one_kind.transpose.map { |column| Samples.new(column) } }
    RESIDUE_LOOPS.each_with_index.map do |(key, what), i|
      Row.new(key: "residue-#{key}", what: "after a trace with all engines: #{what}, against before", unit: :ratio,
              requirement: 1.01, noise: noise[i], rbprobe: columns[i])
    end
  end

  private

  def residue_once(is_traced)
    with(Target.new(RbprobeTool), Target.new(nil)) do |subject, control|
      # Often enough to be compiled, before and afterwards.
      warm = lambda do
        [subject, control].each do |target|
          RESIDUE_LOOPS.each_key { |workload| 40.times { target.run(workload, 1_000) } }
        end
      end
      warm.call
      before = residue_ratios(subject, control)
      meanwhile = lambda do |*|
        RESIDUE_LOOPS.each_key { |workload| subject.run(workload, BURST) }
        nil
      end
      is_traced ? traced(RbprobeTool, subject, *RESIDUE_SELECTORS, lines: nil, &meanwhile) : meanwhile.call
      warm.call
      residue_ratios(subject, control).zip(before).map { |later, earlier| later / earlier }
    end
  end

  # Bursts of about a millisecond in turn, many of them: even on a busy machine some are not interrupted.
  def residue_ratios(subject, control)
    RESIDUE_LOOPS.keys.map do |workload|
      times = Array.new(8 * amount(:alternations)) { [subject, control].map { |target| target.each_ns(workload, BURST) } }
      times.map(&:first).min / times.map(&:last).min
    end
  end
end
