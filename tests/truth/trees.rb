# Calls as lines, each a call with its outcome, indented by two spaces under its caller's:
#
#     Shop#sell(item=:tea) => 3
#       Shop#price(item=:tea) ! Shop::Gone: no tea
#
# What rbprobe prints is brought into this form, and the truth is written in it. Names lose the module that all cases are in.

require "json"

module Trees
  INDENT = "  "
  TIME = / <\d+\.\d{6}>\z/
  HEADER = /\A\[thread \d+(?: "(?<name>.*?)")?(?:, fiber (?<fiber>\d+)(?: of .*)?)?\]\z/

  module_function

  # { thread name => [tree of its first fiber, of its second, ...] }; a tree is an Array of lines.
  def from_text(text)
    fibers = {}
    fiber = fibers[[nil, nil]] = Parser.new
    text.each_line(chomp: true) do |line|
      if (header = HEADER.match(line))
        fiber = fibers[[header[:name], header[:fiber]]] ||= Parser.new
      else
        fiber.add(line)
      end
    end
    by_thread(fibers.to_h { |key, parser| [key, parser.lines] })
  end

  # The text format's lines of one fiber.
  class Parser
    def initialize
      @lines = [] # of calls in the order of their starts
      @open = []
    end

    def add(line)
      depth = line[/\A */].size / 3
      name = line[/\A *([^\s(]+)/, 1]
      ended = line.match?(TIME)
      said = line.strip.sub(TIME, "")
      if ended && @open.size == depth + 1 && !said.start_with?("#{name}(")
        call = @open.pop
        raise "the end of #{name} comes after the start of #{call}" unless call.split(/[\s(]/, 2).first == name

        call << said.delete_prefix(name)
      else
        raise "at depth #{depth}, with #{@open.size} calls open: #{line}" unless @open.size == depth

        call = +said
        @lines << [depth, call]
        @open << call unless ended
      end
    end

    def lines
      @lines.map { |depth, said| "#{INDENT * depth}#{Trees.short(said)}" }
    end
  end

  def from_json(text)
    calls = text.each_line.map { |line| JSON.parse(line) }.select { |object| object["type"] == "call" }
    fibers = calls.group_by { |call| call.values_at("thread_name", "fiber") }
    by_thread(fibers.transform_values { |own| lines_of(own) })
  end

  # A call is written when it ends, after all those inside it.
  def lines_of(calls)
    inside = Hash.new { |hash, depth| hash[depth] = [] }
    calls.each do |call|
      depth = call["depth"]
      inside[depth] << ["#{INDENT * depth}#{line_of(call)}", *inside.delete(depth + 1)]
    end
    raise "calls without a caller" if inside.keys.any?(&:positive?)

    inside[0].flatten
  end

  def line_of(call)
    values = call["values"] ? "(#{call["values"].map { |label, value| "#{label}=#{value}" }.join(", ")})" : ""
    short("#{call["method"]}#{values}#{outcome_of(call)}")
  end

  def outcome_of(call)
    retries = call["retries"] ? " (retried #{call["retries"]} time#{"s" if call["retries"] > 1})" : ""
    how = case call["ended"]
          when "returned" then " => #{call["result"]}"
          when "raised" then " ! #{call["exception"].values_at("class", "message").reject(&:empty?).join(": ")}"
          when "open" then ""
          else " ~ #{call["ended"] == "unknown" ? "ended" : call["ended"]}"
          end
    how + retries
  end

  # Where a block was written is left out.
  def short(line)
    line.gsub("Case::", "").gsub(/#<Proc \S+:\d+(?: \(lambda\))?>/, "#<Proc>")
  end

  def by_thread(fibers)
    fibers.each_with_object({}) do |((thread, fiber), lines), trees|
      (trees[thread] ||= []) << lines unless lines.empty?
    end
  end

  # Without the calls of those methods: what they called stands in their place.
  def without(lines, &left_out)
    outer = [] # depths of the calls around
    lines.map { |line|
      depth = line[/\A */].size / INDENT.size
      outer.pop while outer.any? && outer.last >= depth
      if left_out.call(line[/[^\s(]+/])
        outer << depth
        next
      end
      line.delete_prefix(INDENT * outer.size)
    }.compact
  end
end
