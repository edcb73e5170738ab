# Numbers with their spread.

# Several measurements of the same thing.
class Samples
  attr_reader :values

  def initialize(values)
    raise ArgumentError, "nothing was measured" if values.empty?

    @values = values.map(&:to_f)
  end

  def median
    sorted = values.sort
    middle = sorted.size / 2
    sorted.size.odd? ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
  end

  def min
    values.min
  end

  def max
    values.max
  end

  def to_h
    { median: median, min: min, max: max, count: values.size }
  end
end

def median(values)
  Samples.new(values).median
end
