# How long the only thread of a process stands still while very many of its methods are armed, and while they are let go.
class Measurements
  ARMED_METHODS = 10_000

  measurement :arming do
    gaps = Array.new(amount(:repetitions)) { arming_gaps }.transpose.map { |column| Samples.new(column) }
    ["armed", "let go"].zip(gaps).map do |what, samples|
      Row.new(key: "gap-#{what.tr(" ", "-")}", what: "the longest time that a process of one thread does nothing else while " \
                                                  "#{ARMED_METHODS} methods are #{what}", unit: :ms, requirement: 20,
              rbprobe: samples, rbtrace: "not compared", notes: "CPU time of that thread between two turns of a loop")
    end
  end

  private

  # In ms, after a trace of one method, by which the extension has learnt what it needs of this Ruby.
  def arming_gaps
    with(Target.new(RbprobeTool, "gap")) do |target|
      target.run("many-build", ARMED_METHODS)
      RbprobeTool.attach(target, SELECTOR).stop
      target.run("gap", 0)
      client = RbprobeTool.attach(target, "Many#{ARMED_METHODS}#")
      armed = target.run("gap", 0).first
      client.stop
      [armed, target.run("gap", 0).first].map { |ns| ns / 1e6 }
    end
  end
end
