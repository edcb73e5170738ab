# A Sinatra application on Puma, with the 50 methods traced that its requests call most. Which these are, a firehose tells in a process of its own.
require_relative "../web"

class Measurements
  HOTTEST = 50

  measurement :web do
    raise NotMeasured, WebServer.missing if WebServer.missing

    values = each_tool do |tool|
      selectors = hottest(tool)
      rounds = Array.new(amount(:web_processes)) { web_pairs(tool, selectors) }.flatten(1)
      [*rounds.transpose.map { |column| Samples.new(column) }, selectors.size]
    end
    column = ->(i) { samples_or_text(values) { |columns| columns[i] } }
    untraced = values["rbprobe"].is_a?(Array) ? values["rbprobe"].first(2) : [nil, nil]
    notes = "8 connections, #{amount(:web_s)} s each in turn; #{values.map { |tool, v| "#{tool}: #{v.is_a?(Array) ? v.last : "no"} methods" }.join(", ")}"
    [Row.new(key: "web-rate", what: "Sinatra on Puma, its #{HOTTEST} hottest methods traced", unit: :requests_per_s, requirement: 0.97, relative: true,
             untraced: untraced[0], rbprobe: column.(2)["rbprobe"], rbtrace: column.(2)["rbtrace"], notes: notes),
     Row.new(key: "web-p99", what: "the same: 99th percentile of a request's time", unit: :ms,
             untraced: untraced[1], rbprobe: column.(3)["rbprobe"], rbtrace: column.(3)["rbtrace"])]
  end

  private

  # [requests/s and p99 without, the same with], again and again
  def web_pairs(tool, selectors)
    with(WebServer.new(tool), WebServer.new(nil)) do |subject, control|
      [subject, control].each { |server| server.load(1) }
      client = tool.attach(subject, *selectors, output: output)
      pairs = Array.new(amount(:web_rounds)) { control.load(amount(:web_s)) + subject.load(amount(:web_s)) }
      client.stop
      if tool == RbprobeTool
        lost = Integer(client.rest[/(\d+) lost/, 1])
        raise NotMeasured, "#{lost} calls lost" if lost > 0
      end
      pairs
    ensure
      client&.kill
    end
  end

  # Methods that are traced without the global hook; rbtrace gets what rbprobe found.
  def hottest(tool)
    @hottest ||= with(WebServer.new(RbprobeTool)) do |server|
      server.load(1)
      client = RbprobeTool.attach(server, "-f", "--format=json", "--overflow=block", output: output)
      server.load(1, connections: 1)
      client.stop
      calls = Hash.new(0)
      File.foreach(output) { |line| (name = line[/"method":"([^"]+)"/, 1]) && !line.include?('"class":"#<') && calls[name] += 1 }
      names = calls.sort_by { |_, count| -count }.map(&:first).select { |name| name.match?(/\A[A-Z]\w*(::[A-Z]\w*)*[#.]\w+[?!=]?\z/) }
      cheap = RbprobeTool.engines(server, names.first(300)).reject { |_, engine| engine == "hook" || engine == "none" }
      cheap.keys.first(HOTTEST)
    end
    raise NotMeasured, "a firehose showed no method" if @hottest.empty?

    tool == RbtraceTool ? @hottest.first(90) : @hottest
  end
end
