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
    lines << "**The machine was busy with other things: times are longer than they would be.**" if @busy
    lines << ""
    lines << "| what | rbtrace | rbprobe | at least | |" << "|---|---|---|---|---|"
    @rows.each do |row|
      lines << "| #{row.what} | #{cell(row, row.rbtrace)} | #{cell(row, row.rbprobe)} | #{requirement(row)} | #{verdict(row)} |"
    end
    lines << ""
    @rows.each { |row| lines << "- #{row.what}: #{row.notes}." if row.notes }
    lines.push("", misses)
    lines.join("\n")
  end

  def json
    JSON.pretty_generate(machine: @machine, quick: @quick, busy: @busy, rows: @rows.map do |row|
      { key: row.key, what: row.what, unit: row.unit, at_least: row.requirement, met: row.met?,
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
    "#{median}#{suffix(row.unit)} (#{least}-#{most})"
  end

  def requirement(row)
    row.requirement ? number_text(row.unit, row.requirement) + suffix(row.unit) : ""
  end

  def verdict(row)
    case row.met?
    when true then "met"
    when false then "**missed**"
    else row.requirement ? "**not measured**" : ""
    end
  end

  def misses
    missed = @rows.select { |row| row.requirement && !row.met? }
    return "Everything that is required is met." if missed.empty?

    ["Missed or not measured:", *missed.map { |row| "- #{row.what}: #{cell(row, row.rbprobe)}, required #{requirement(row)}" }].join("\n")
  end

  def number_text(unit, number)
    case unit
    when :ratio then format("%.3f", number)
    when :ms then format("%.1f", number)
    when :mib then format("%.2f", number)
    else number.round.to_s.gsub(/(\d)(?=(\d{3})+\z)/, '\1 ')
    end
  end

  def suffix(unit)
    { ratio: "", ms: " ms", ns: " ns", mib: " MiB", events_per_s: " events/s" }.fetch(unit)
  end
end
