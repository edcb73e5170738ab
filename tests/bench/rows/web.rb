# A Sinatra application on Puma, with the 50 methods traced that its requests call most, and with those that they spend most
# of their time in, callees included. Which these are, a firehose tells in a process of its own.
require_relative "../web"

class Measurements
  HOTTEST = 50
  HOT_BY = { calls: "most called", time: "most time-consuming" }.freeze

  measurement :web do
    raise NotMeasured, WebServer.missing if WebServer.missing

    hot = HOT_BY.flat_map do |by, how|
      web_rows(by, "/orders/17", "Sinatra on Puma, 2 ms of database, its #{HOTTEST} #{how} methods traced", 0.97)
    end
    hot + web_rows(:calls, "/computed/17",
                   "the same without a database, its #{HOTTEST} #{HOT_BY[:calls]} methods traced", nil)
  end

  # [what, command, tool]: what is decided and counted in the process: the same methods, and next to nothing to send.
  ANSWERS = [
    ["`trace --slow 10`", ["trace", "--slow", "10"], RbprobeTool],
    ["`stat`", ["stat"], RbprobeTool],
    ["`stat`, if its callbacks did nothing but read the clock", ["stat"], CLOCK_ONLY],
    ["`stat`, if its callbacks did nothing but add the times up", ["stat"], SUMS_ONLY]
  ].freeze

  measurement :web_answers do
    raise NotMeasured, WebServer.missing if WebServer.missing

    rows = HOT_BY.flat_map do |by, how|
      selectors = hottest(by)
      web_answer_rows(by, "Sinatra on Puma, 2 ms of database, its #{HOTTEST} #{how} methods under ", by == :calls ? 0.93 : 0.98,
                      "#{@calls_a_request[by].round} calls a request",
                      ANSWERS.map { |what, command, tool| [what, [*command, *selectors], tool] })
    end
    rows + web_answer_rows(:limited, "the same, all methods under ", 0.8, "what takes too much is let go meanwhile",
                           [["`trace -f --max-overhead 20`", ["trace", "-f", "--max-overhead", "20"], RbprobeTool]])
  end

  private

  # Two rows for each way: requests a second, and the server's own CPU time for one. Only what the machine does besides makes the
  # first fewer and the second more, so of all rounds the best quarter counts.
  def web_answer_rows(key, where, requirement, notes, ways)
    control, *columns = web_answer_rounds(ways)
    ways.zip(columns).flat_map do |(what, _, tool), column|
      [Row.new(key: "web-#{key}-#{what.delete("^a-z0-9")}-rate", what: where + what, unit: :requests_per_s, relative: true,
               requirement: tool == RbprobeTool ? requirement : nil, untraced: web_best(control, 0, -1),
               rbprobe: web_best(column, 0, -1), notes: "#{notes}; the best quarter of #{control.size} rounds, in turn"),
       Row.new(key: "web-#{key}-#{what.delete("^a-z0-9")}-cpu", what: "#{where}#{what}: the server's CPU time for a request",
               unit: :us, relative: true, untraced: web_best(control, 2, 1), rbprobe: web_best(column, 2, 1))]
    end
  end

  def web_best(rounds, column, order)
    Samples.new(rounds.map { |round| round[column] }.min_by((rounds.size + 3) / 4) { |value| value * order })
  end

  # Of a server without, and of one for each way, what each round was.
  def web_answer_rounds(ways)
    with(WebServer.new(nil), *ways.map { |_, _, tool| WebServer.new(tool) }) do |*servers|
      servers.each { |server| server.load(1, "/orders/17") }
      clients = ways.zip(servers.drop(1)).map { |(_, command, _), server| RbprobeTool.attach_by(server, *command) }
      rounds = Array.new(amount(:web_answer_rounds)) { servers.map { |server| server.load(1, "/orders/17") } }
      clients.each do |client|
        client.stop
        raise NotMeasured, "#{$1} calls lost" if client.rest[/(\d+) lost/, 1].to_i > 0
      end
      rounds.transpose
    ensure
      clients&.each(&:kill)
    end
  end

  def web_rows(by, path, what, requirement)
    values = each_tool do |tool|
      selectors = hottest(by)
      rounds = Array.new(amount(:web_processes)) { web_pairs(tool, selectors, path) }.flatten(1)
      rounds.transpose.map { |column| Samples.new(column) }
    end
    column = ->(i) { samples_or_text(values) { |columns| columns[i] } }
    untraced = values["rbprobe"].is_a?(Array) ? values["rbprobe"].first(2) : [nil, nil]
    [Row.new(key: "web-#{path[/\w+/]}-#{by}-rate", what: what, unit: :requests_per_s, requirement: requirement, relative: true,
             untraced: untraced[0], rbprobe: column.(3)["rbprobe"], rbtrace: column.(3)["rbtrace"],
             notes: "8 connections, #{amount(:web_s)} s each in turn; #{@calls_a_request[by].round} traced calls a request"),
     Row.new(key: "web-#{path[/\w+/]}-#{by}-p99", what: "the same: 99th percentile of a request's time", unit: :ms,
             untraced: untraced[1], rbprobe: column.(4)["rbprobe"], rbtrace: column.(4)["rbtrace"])]
  end

  # [requests/s, p99 and CPU time of a request without, the same with], again and again
  def web_pairs(tool, selectors, path)
    with(WebServer.new(tool), WebServer.new(nil)) do |subject, control|
      [subject, control].each { |server| server.load(1, path) }
      client = tool.attach(subject, *selectors, output: output)
      pairs = Array.new(amount(:web_rounds)) { control.load(amount(:web_s), path) + subject.load(amount(:web_s), path) }
      client.stop
      lost = tool == RbprobeTool ? Integer(client.rest[/(\d+) lost/, 1] || 0) : 0
      raise NotMeasured, "#{lost} calls lost" if lost > 0

      pairs
    ensure
      client&.kill
    end
  end

  # Methods that are traced without the global hook.
  def hottest(by)
    names = hot_methods
    hottest = names.sort_by { |_, numbers| -numbers[by] }.first(HOTTEST)
    (@calls_a_request ||= {})[by] = hottest.sum { |_, numbers| numbers[:calls] } / @requests
    hottest.map(&:first)
  end

  # { "Class#method" => { calls:, time: } }
  def hot_methods
    @hot_methods ||= with(WebServer.new(RbprobeTool)) do |server|
      server.load(1, "/orders/17")
      client = RbprobeTool.attach(server, "-f", "--max-overhead=0", "--format=json", "--overflow=block", output: output)
      rate, = server.load(1, "/orders/17", connections: 1)
      client.stop
      found = Hash.new { |hash, name| hash[name] = { calls: 0.0, time: 0.0 } }
      File.foreach(output) { |line| hot_method(line, found) }
      @requests = found["Orders#call"][:calls].nonzero? || rate
      hottest = HOT_BY.keys.flat_map { |by| found.sort_by { |_, numbers| -numbers[by] }.first(200).map(&:first) }.uniq
      engines = RbprobeTool.engines(server, hottest)
      found.slice(*engines.reject { |_, engine| %w[hook none].include?(engine) }.keys)
    end
    raise NotMeasured, "a firehose showed no method" if @hot_methods.empty?

    @hot_methods
  end

  def hot_method(line, found)
    name = line[/"method":"([^"]+)"/, 1]
    return unless name&.match?(/\A[A-Z]\w*(::[A-Z]\w*)*[#.]\w+[?!=]?\z/)

    found[name][:calls] += 1
    found[name][:time] += line[/"duration_ns":(\d+)/, 1].to_i
  end
end
