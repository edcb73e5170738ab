# Plots of the results, as SVG without any library: bars of slowdowns, and a line of throughput against the number of
# selected methods.

class Plot
  WIDTH = 900
  MARGIN = { left: 330, right: 110, top: 60, bottom: 50 }.freeze
  COLORS = { "untraced" => "#777777", "rbprobe" => "#1b7837", "rbtrace" => "#b2182b" }.freeze

  def self.write_all(rows, directory)
    File.write("#{directory}/bench-slowdown.svg", slowdowns(rows)) if rows.any? { |row| slowdown?(row) }
    File.write("#{directory}/bench-selected.svg", selected(rows)) if rows.any? { |row| row.key.start_with?("selected-") }
  end

  def self.slowdown?(row)
    row.unit == :ns && row.untraced.is_a?(Samples) && row.rbprobe.is_a?(Samples)
  end

  # One bar a tool, on a logarithmic scale: 1 is the untraced loop.
  def self.slowdowns(rows)
    bars = rows.select { |row| slowdown?(row) }.flat_map do |row|
      %w[rbprobe rbtrace].map { |tool| [row.what.delete("`"), tool, row[tool]] }.select { |_, _, value| value.is_a?(Samples) }
                         .map { |what, tool, value| [what, tool, row.multiple(value)] }
    end
    height = MARGIN[:top] + MARGIN[:bottom] + bars.size * 20
    new(height: height).bars("Slowdown: how many times longer it takes (untraced = 1)", bars)
  end

  def self.selected(rows)
    points = rows.select { |row| row.key.start_with?("selected-") }.map { |row| [Integer(row.key[/\d+/]), row] }
    lines = %w[untraced rbprobe rbtrace].to_h do |tool|
      [tool, points.select { |_, row| row[tool].is_a?(Samples) }.map { |number, row| [number, 1000.0 / row[tool].median] }]
    end
    new(height: 420).lines("Throughput against the number of selected methods, million calls a second",
                           lines.reject { |_, line| line.empty? })
  end

  def initialize(height:)
    @height = height
    @parts = []
  end

  def bars(title, bars)
    most = 10**Math.log10([bars.map(&:last).max, 10].max).ceil
    x = ->(value) { MARGIN[:left] + Math.log10([value, 1].max) / Math.log10(most) * plot_width }
    powers_up_to(most).each { |tick| vertical(x.(tick), tick) }
    bars.each_with_index do |(what, tool, value), i|
      y = MARGIN[:top] + i * 20
      text(MARGIN[:left] - 8, y + 13, what, anchor: "end") unless i > 0 && bars[i - 1][0] == what
      width = (x.(value) - MARGIN[:left]).round(1)
      @parts << %(<rect x="#{MARGIN[:left]}" y="#{y + 2}" width="#{width}" height="15" fill="#{COLORS[tool]}"/>)
      text(x.(value) + 5, y + 13, "#{tool} #{format(value < 10 ? "%.2f" : "%.0f", value)}")
    end
    document(title)
  end

  def lines(title, lines)
    values = lines.values.flatten(1)
    numbers = values.map(&:first).uniq.sort
    range = Math.log10(values.map(&:last).min).floor..Math.log10(values.map(&:last).max).ceil
    x = ->(number) { MARGIN[:left] + Math.log10(number) / Math.log10([numbers.max, 10].max) * plot_width }
    y = ->(value) { @height - MARGIN[:bottom] - (Math.log10(value) - range.min) / [range.max - range.min, 1].max * plot_height }
    numbers.each { |number| vertical(x.(number), number) }
    range.each { |power| horizontal(y.(10.0**power), format("%g", 10.0**power)) }
    lines.each do |tool, points|
      path = points.map { |number, value| "#{x.(number).round(1)},#{y.(value).round(1)}" }
      @parts << %(<polyline points="#{path.join(" ")}" fill="none" stroke="#{COLORS[tool]}" stroke-width="2"/>)
      points.each do |number, value|
        @parts << %(<circle cx="#{x.(number).round(1)}" cy="#{y.(value).round(1)}" r="3" fill="#{COLORS[tool]}"/>)
      end
      text(x.(points.last[0]) + 8, y.(points.last[1]) + 4, tool, color: COLORS[tool])
    end
    document(title)
  end

  private

  def plot_width
    WIDTH - MARGIN[:left] - MARGIN[:right]
  end

  def plot_height
    @height - MARGIN[:top] - MARGIN[:bottom]
  end

  def powers_up_to(most)
    (0..Math.log10(most).round).map { |power| 10**power }
  end

  def line(x1, y1, x2, y2)
    x1, y1, x2, y2 = [x1, y1, x2, y2].map { |number| number.round(1) }
    @parts << %(<line x1="#{x1}" y1="#{y1}" x2="#{x2}" y2="#{y2}" stroke="#cccccc"/>)
  end

  def vertical(x, label)
    line(x, MARGIN[:top] - 8, x, @height - MARGIN[:bottom])
    text(x, @height - MARGIN[:bottom] + 18, label.to_s, anchor: "middle")
  end

  def horizontal(y, label)
    line(MARGIN[:left], y, WIDTH - MARGIN[:right], y)
    text(MARGIN[:left] - 8, y + 4, label, anchor: "end")
  end

  def text(x, y, string, anchor: "start", color: "#222222")
    escaped = string.gsub("&", "&amp;").gsub("<", "&lt;")
    @parts << %(<text x="#{x.round(1)}" y="#{y.round(1)}" text-anchor="#{anchor}" fill="#{color}">#{escaped}</text>)
  end

  def document(title)
    text(20, 28, title)
    <<~SVG
      <svg xmlns="http://www.w3.org/2000/svg" width="#{WIDTH}" height="#{@height}" font-family="sans-serif" font-size="12">
      <rect width="100%" height="100%" fill="white"/>
      #{@parts.join("\n")}
      </svg>
    SVG
  end
end
