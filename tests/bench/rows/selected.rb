# Whether a call costs more when many methods are selected: a class with so many methods, all of them traced, and a loop
# that calls one after the other.
class Measurements
  SELECTED = [1, 10, 100, 1_000, 10_000].freeze

  measurement :selected do
    SELECTED.flat_map do |number|
      how = { workload: "many-#{number}", selector: "Many#{number}#", prepare: ->(target) { target.run("many-build", number) } }
      loop_rows(key: "selected-#{number}", what: "loop of Ruby methods, #{number} selected", **how).first(1)
    end
  end
end
