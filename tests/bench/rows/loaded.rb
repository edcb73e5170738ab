# What the extension costs a process that nobody is attached to.
class Measurements
  measurement :loaded do
    values = each_tool do |tool|
      Samples.new(Array.new(amount(:pairs_of_processes)) do |i|
        order = i.even? ? [tool, nil] : [nil, tool]
        with(*order.map { |one| Target.new(one) }) do |*targets|
          with_extension, without = i.even? ? targets : targets.reverse
          targets.each { |target| target.run("mixed", CALLS) }
          ratio(with_extension, without, "mixed")
        end
      end)
    end
    [Row.new(key: "loaded", what: "extension loaded, nothing attached, against without it", unit: :ratio, requirement: 1.01,
             rbprobe: values["rbprobe"], rbtrace: values["rbtrace"],
             notes: "#{amount(:pairs_of_processes)} pairs of processes, a Ruby and a C call an iteration")]
  end
end
