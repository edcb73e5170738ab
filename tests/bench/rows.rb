# The registry of measurements. Each is a block in a file of rows/, which returns rows; what is compared is measured
# alternately, within this run, on fresh processes. To add one: a file there, with
#
#     class Measurements
#       measurement :name do
#         [Row.new(key: "name", what: "what it is", unit: :ms, rbprobe: Samples.new([...]))]
#       end
#     end
#
# In the block: everything of measure.rb. Where something cannot be measured, a String that says why stands for the Samples.

require_relative "measure"

# One line of the table. untraced, rbtrace, rbprobe: Samples, or why there are none (nil: does not apply). requirement: what
# rbprobe has to reach, in the unit of the value; with relative: true, as a multiple of untraced. More is better for rates,
# less for everything else.
# noise: Samples of the same where nothing was traced; what is among them cannot be told from nothing.
Row = Struct.new(:key, :what, :unit, :requirement, :relative, :untraced, :noise, :rbprobe, :rbtrace, :notes,
                 keyword_init: true) do
  UNITS = { ratio: "", s: " s", ms: " ms", us: " µs", ns: " ns", mib: " MiB", bytes: " bytes", mb_per_s: " MB/s",
            events_per_s: " events/s", requests_per_s: " requests/s" }.freeze

  def rate?
    unit.to_s.end_with?("_per_s")
  end

  # What is compared with the requirement.
  def reached
    return nil unless rbprobe.is_a?(Samples) && (!relative || untraced.is_a?(Samples))

    relative ? multiple(rbprobe) : rbprobe.median
  end

  # Of untraced, pair by pair where there are as many of both.
  def multiple(samples)
    return samples.median / untraced.median unless samples.values.size == untraced.values.size

    median(samples.values.zip(untraced.values).map { |one, other| one / other })
  end

  def met?
    return nil unless requirement && reached

    within_noise? || (rate? ? reached >= requirement : reached <= requirement)
  end

  # Not better than required, but no worse than where nothing was traced.
  def within_noise?
    noise.is_a?(Samples) && reached > requirement && reached <= noise.max
  end
end

class Measurements < Measure
  @names = []
  class << self
    attr_reader :names

    def measurement(name, &block)
      raise ArgumentError, "there are two measurements called #{name}" if names.include?(name)

      names << name
      define_method(name, &block)
      public name
    end
  end

  def all
    self.class.names
  end
end

Dir["#{__dir__}/rows/*.rb"].sort.each { |path| require path }
