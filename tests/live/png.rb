# A picture as browsers make it: PNG of eight bits a colour, not interlaced. Its pixels, by the published format.

require "zlib"

class Png
  attr_reader :width, :height

  def initialize(bytes)
    raise "no PNG" unless bytes.start_with?("\x89PNG\r\n\x1A\n".b)

    chunks = chunks_of(bytes)
    @width, @height, depth, kind, *, interlaced = chunks.assoc("IHDR").last.unpack("NNC5")
    @size = { 2 => 3, 6 => 4 }.fetch(kind)
    raise "not read: depth #{depth}, interlaced #{interlaced}" unless depth == 8 && interlaced.zero?

    @rows = unfilter(Zlib.inflate(chunks.select { |name, _| name == "IDAT" }.map(&:last).join))
  end

  # [red, green, blue], each from 0 to 255.
  def at(x, y)
    @rows[y][x * @size, 3]
  end

  # How often each colour is in a part of it.
  def colors(left: 0, top: 0, right: @width, bottom: @height)
    @rows[top...bottom].flat_map { |row| row[left * @size, (right - left) * @size].each_slice(@size).map { |one| one.first(3) } }
                       .tally
  end

  private

  def chunks_of(bytes)
    at = 8
    [].tap do |found|
      while at < bytes.bytesize
        size, name = bytes.byteslice(at, 8).unpack("Na4")
        found << [name, bytes.byteslice(at + 8, size)]
        at += size + 12
      end
    end
  end

  # Each row is what it differs by from its left or the row above it.
  def unfilter(bytes)
    length = @width * @size
    above = [0] * length
    Array.new(@height) do |y|
      filter, *row = bytes.byteslice(y * (length + 1), length + 1).bytes
      above = restore(filter, row, above)
    end
  end

  def restore(filter, row, above)
    return row if filter.zero?

    row.each_index do |i|
      left, corner = i < @size ? [0, 0] : [row[i - @size], above[i - @size]]
      row[i] = (row[i] + predicted(filter, left, above[i], corner)) & 255
    end
  end

  def predicted(filter, left, up, corner)
    case filter
    when 1 then left
    when 2 then up
    when 3 then (left + up) / 2
    when 4
      guess = left + up - corner
      [left, up, corner].min_by.with_index { |one, i| [(guess - one).abs, i] }
    else raise "filter #{filter}"
    end
  end
end
