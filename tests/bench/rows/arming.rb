# How long the only thread of a process stands still while very many of its methods are armed, while they are let go, and while
# the modules of a large process are listed.
class Measurements
  ARMED_METHODS = 10_000
  LISTED = { "objects" => [5_000_000, "objects"], "chain" => [5_000, "classes, each below the one before"] }.freeze

  measurement :arming do
    gaps = Array.new(amount(:repetitions)) { arming_gaps }.transpose.map { |column| Samples.new(column) }
    ["armed", "let go"].zip(gaps).map do |what, samples|
      Row.new(key: "gap-#{what.tr(" ", "-")}", what: "the longest time that a process of one thread does nothing else while " \
                                                  "#{ARMED_METHODS} methods are #{what}", unit: :ms, requirement: 20,
              rbprobe: samples, rbtrace: "not compared", notes: "CPU time of that thread between two turns of a loop")
    end
  end

  measurement :listing do
    LISTED.map do |what, (count, are)|
      samples = Samples.new(Array.new(amount(:repetitions)) { listing_gap(what, count) })
      Row.new(key: "gap-listed-#{what}", what: "the longest time that a process of one thread does nothing else while its " \
                                              "modules are listed, where it has #{count} #{are}", unit: :ms,
              requirement: 20, rbprobe: samples, rbtrace: "not compared", notes: "for a pattern that means one method")
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

  def listing_gap(what, count)
    with(Target.new(RbprobeTool, "gap")) do |target|
      target.run("#{what}-build", count)
      RbprobeTool.attach(target, SELECTOR).stop
      target.run("gap", 0)
      RbprobeTool.attach(target, "Benc*#traced").stop
      target.run("gap", 0).first / 1e6
    end
  end
end
