# The results for people (a markdown table) and for programs (JSON).

require "json"
require_relative "rows"

class Report
  def initialize(rows, machine, quick:, busy:)
    @rows = rows
    @busy = busy
    @machine = machine
    @quick = quick
  end

  def markdown
    lines = [@machine.map { |key, value| "#{key}: #{value}" }.join("  \n"), ""]
    lines << "Medians (least and most), #{@quick ? "a quick run" : "a full run"}."
    lines << "After against before: untraced is a process that nobody traced in between." if @rows.any?(&:noise)
    lines << "**The machine was busy with other things: times are longer than they would be.**" if @busy
    lines << ""
    lines << "| what | untraced | rbtrace | rbprobe | to reach | |" << "|---|---|---|---|---|---|"
    @rows.each do |row|
      lines << "| #{row.what} | #{cell(row, row.noise || row.untraced)} | #{cell(row, row.rbtrace)} " \
               "| #{cell(row, row.rbprobe)} | #{requirement(row)} | #{verdict(row)} |"
    end
    lines << ""
    @rows.each { |row| lines << "- #{row.what}: #{row.notes}." if row.notes }
    lines.push("", misses)
    lines.join("\n")
  end

  def json
    JSON.pretty_generate(machine: @machine, quick: @quick, busy: @busy, rows: @rows.map do |row|
      { key: row.key, what: row.what, unit: row.unit, to_reach: row.requirement, relative: !!row.relative,
        reached: row.reached, met: row.met?, untraced: plain(row.untraced), noise: plain(row.noise),
        rbprobe: plain(row.rbprobe), rbtrace: plain(row.rbtrace), notes: row.notes }
    end)
  end

  # Rows of ours without numbers.
  def unmeasured
    @rows.reject { |row| row.rbprobe.is_a?(Samples) }
  end

  private

  def plain(value)
    value.is_a?(Samples) ? value.to_h : { missing: value }
  end

  def cell(row, value)
    return value.to_s unless value.is_a?(Samples)

    median, least, most = [value.median, value.min, value.max].map { |number| number_text(row.unit, number) }
    multiple = ", **#{multiple_text(row.multiple(value))}**" if row.untraced.is_a?(Samples) && !value.equal?(row.untraced)
    "#{median}#{UNITS.fetch(row.unit)} (#{least}-#{most})#{multiple}"
  end

  def multiple_text(number)
    format(number < 1.5 ? "%.3fx" : "%.1fx", number)
  end

  def requirement(row)
    return "" unless row.requirement

    row.relative ? "#{row.requirement}x" : number_text(row.unit, row.requirement) + UNITS.fetch(row.unit)
  end

  def verdict(row)
    case row.met?
    when true then row.within_noise? ? "met, within the noise" : "met"
    when false then "**missed**"
    else row.requirement ? "**not measured**" : ""
    end
  end

  def misses
    missed = @rows.select { |row| row.requirement && !row.met? }
    return "Everything that is required is met." if missed.empty?

    ["Missed or not measured:",
     *missed.map { |row| "- #{row.what}: #{cell(row, row.rbprobe)}, required #{requirement(row)}" }].join("\n")
  end

  def number_text(unit, number)
    case unit
    when :ratio then format("%.3f", number)
    when :s, :ms, :us then format("%.1f", number)
    when :mib, :mb_per_s, :bytes then format("%.2f", number)
    else number.round.to_s.gsub(/(\d)(?=(\d{3})+\z)/, '\1 ')
    end
  end
end
