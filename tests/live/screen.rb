# What a terminal shows: enough of one for programs that draw with ncurses (TERM=xterm).

module Processes
  class Screen
    attr_reader :rows, :columns, :alternate

    def initialize(rows, columns)
      @saved = nil
      @alternate = false
      @pending = "".b
      resize(rows, columns)
    end

    def resize(rows, columns)
      @rows = rows
      @columns = columns
      @cells = Array.new(rows) { blank }
      @row = @column = @top = 0
      @bottom = rows - 1
      @last = " "
    end

    # Lines without the blanks at their ends.
    def lines
      @cells.map { |line| line.join.rstrip }
    end

    def text
      lines.join("\n")
    end

    # bytes: what was written, a part of a character or sequence at its end perhaps.
    def write(bytes)
      @pending << bytes
      text = @pending.dup.force_encoding(Encoding::UTF_8)
      text = text.byteslice(0, text.bytesize - 1) until text.valid_encoding?
      cut = @pending.byteslice(text.bytesize, @pending.bytesize)
      until text.empty?
        size = step(text)
        break if size.zero?

        text = text[size..]
      end
      @pending = text.b + cut
    end

    private

    def blank
      Array.new(@columns, " ")
    end

    # How many characters it took; 0: more must come.
    def step(text)
      case text
      when /\A\e\[([?>]?)([\d;]*)([a-zA-Z@`])/
        control(Regexp.last_match(1), Regexp.last_match(2).split(";").map(&:to_i), Regexp.last_match(3))
        Regexp.last_match(0).size
      when /\A\e[()][0-9A-Z]/ then 3
      when /\A\e[78=>cM]/
        scroll_down if text[1] == "M"
        2
      when /\A\e/ then text.size > 40 ? raise("unknown sequence #{text[0, 40].inspect}") : 0
      else
        character(text[0])
        1
      end
    end

    def character(char)
      case char
      when "\r" then @column = 0
      when "\n" then line_feed
      when "\b" then @column -= 1 if @column.positive?
      when "\a", "\x0e", "\x0f" then nil
      when "\t" then @column = [(@column / 8 + 1) * 8, @columns - 1].min
      else put(char)
      end
    end

    def put(char)
      if @column == @columns
        @column = 0
        line_feed
      end
      @cells[@row].insert(@column, " ") && @cells[@row].pop if @inserting
      @cells[@row][@column] = char
      @column += 1
      @last = char
    end

    def line_feed
      if @row == @bottom
        @cells.delete_at(@top)
        @cells.insert(@bottom, blank)
      else
        @row += 1
      end
    end

    def scroll_down
      return @row -= 1 if @row > @top

      @cells.delete_at(@bottom)
      @cells.insert(@top, blank)
    end

    def control(mark, numbers, name)
      return switch(numbers, name) if mark == "?"
      return if mark == ">"

      count = [numbers.first.to_i, 1].max
      case name
      when "H", "f" then move(numbers.first.to_i - 1, numbers[1].to_i - 1)
      when "A" then move(@row - count, @column)
      when "B" then move(@row + count, @column)
      when "C" then move(@row, @column + count)
      when "D" then move(@row, @column - count)
      when "G", "`" then move(@row, count - 1)
      when "d" then move(count - 1, @column)
      when "r" then region(numbers)
      when "b" then count.times { put(@last) }
      when "h", "l" then @inserting = name == "h" if numbers.include?(4)
      when "m", "t", "n", "c" then nil
      else erase(name, numbers.first.to_i, count)
      end
    end

    def move(row, column)
      @row = row.clamp(0, @rows - 1)
      @column = column.clamp(0, @columns - 1)
    end

    def region(numbers)
      @top = [numbers.first.to_i, 1].max - 1
      @bottom = (numbers[1] || @rows) - 1
      move(0, 0)
    end

    def switch(numbers, name)
      return unless numbers.include?(1049)

      @alternate = name == "h"
      if @alternate
        @saved = @cells
        @cells = Array.new(@rows) { blank }
      elsif @saved
        @cells = @saved
      end
    end

    def erase(name, which, count)
      line = @cells[@row]
      case name
      when "K" then erase_in_line(which)
      when "J" then erase_in_screen(which)
      when "X" then line.fill(" ", @column, [count, @columns - @column].min)
      when "P" then count.times { line.delete_at(@column) && line.push(" ") }
      when "@" then count.times { line.insert(@column, " ") && line.pop }
      when "L" then count.times { @cells.insert(@row, blank) && @cells.delete_at(@bottom + 1) }
      when "M" then count.times { @cells.delete_at(@row) && @cells.insert(@bottom, blank) }
      when "S" then count.times { @cells.delete_at(@top) && @cells.insert(@bottom, blank) }
      when "T" then count.times { @cells.delete_at(@bottom) && @cells.insert(@top, blank) }
      else raise "unknown control sequence #{name}"
      end
    end

    def erase_in_line(which)
      from = which.zero? ? @column : 0
      to = which == 1 ? @column : @columns - 1
      @cells[@row].fill(" ", from..to)
    end

    def erase_in_screen(which)
      erase_in_line(which)
      rows = which.zero? ? (@row + 1...@rows) : which == 1 ? (0...@row) : (0...@rows)
      rows.each { |row| @cells[row] = blank }
    end
  end
end

# For tests of what draws on the whole terminal; needs terminal.rb.
module OnScreen
  # Starts it; its screen is what #screen has.
  def draw(*arguments, rows: 24, columns: 100, **options)
    @terminal = Processes::Terminal.new(arguments.map(&:to_s), rows: rows, columns: columns, **options)
    @tracers << @terminal
    @settings = @terminal.settings_before
    @screen = Processes::Screen.new(rows, columns)
    @drawn = 0
    @terminal
  end

  def screen
    bytes = @terminal.bytes
    @screen.write(bytes.byteslice(@drawn, bytes.bytesize))
    @drawn = bytes.bytesize
    @screen.text
  end

  def await(pattern)
    wait_until(-> { "the screen has #{pattern.inspect}:\n#{screen}" }) { screen[pattern] }
  end

  def type(keys)
    @terminal.type(keys)
  end

  # It is over, and the terminal is as it was.
  def assert_left(status = 0)
    assert_includes Array(status), @terminal.wait, @terminal.text
    screen
    refute @screen.alternate, "the terminal still shows the other screen"
    assert_equal @settings, @terminal.settings_after
  end
end
