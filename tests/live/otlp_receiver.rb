# A small receiver of OTLP over HTTP, and a reader of what comes: protobuf's wire format by the published numbers of the
# fields, and nothing of rbprobe's own.

require "socket"

class OtlpReceiver
  Request = Struct.new(:path, :headers, :body)

  attr_reader :requests

  # answers: for each request [status, headers, body]; the last one goes on.
  def initialize(answers = [[200, {}, ""]], port: 0)
    @answers = answers
    @requests = []
    @lock = Mutex.new
    @server = TCPServer.new("127.0.0.1", port)
    @thread = Thread.new { serve }
  end

  def port
    @server.addr[1]
  end

  def url
    "http://127.0.0.1:#{port}"
  end

  def close
    @thread.kill
    @thread.join
    @server.close
  end

  def count
    @lock.synchronize { @requests.size }
  end

  # From now on no request is answered, until release.
  def hold
    @held = Queue.new
  end

  def release
    @held.close
  end

  # All spans so far, as {name:, trace:, span:, parent:, attributes:, ...}, each with its :resource.
  def spans
    taken.select { |request| request.path.end_with?("/v1/traces") }.flat_map { |request| Otlp.spans(request.body) }
  end

  # The metrics of the last request, by name: [{attributes:, value: or count:, sum:, buckets:, bounds:}].
  def metrics
    Otlp.metrics(taken.reverse.find { |request| request.path.end_with?("/v1/metrics") }&.body.to_s)
  end

  def taken
    @lock.synchronize { @requests.select { |request| request.headers["answered"].to_i / 100 == 2 } }
  end

  private

  def serve
    loop { Thread.new(@server.accept) { |socket| converse(socket) } }
  end

  # Until the client goes.
  def converse(socket)
    while (line = socket.gets)
      headers = {}
      while (header = socket.gets.to_s.chomp) && !header.empty?
        name, value = header.split(": ", 2)
        headers[name.downcase] = value
      end
      body = socket.read(headers["content-length"].to_i)
      answer(socket, Request.new(line.split[1], headers, body))
    end
  rescue SystemCallError, IOError
    nil
  ensure
    socket.close
  end

  def answer(socket, request)
    status, headers, body = @lock.synchronize do
      @requests << request
      @answers.size > 1 ? @answers.shift : @answers.first
    end
    @held&.pop
    request.headers["answered"] = status.to_s
    socket.write("HTTP/1.1 #{status} X\r\nContent-Length: #{body.bytesize}\r\n",
                 headers.map { |name, value| "#{name}: #{value}\r\n" }.join, "\r\n", body)
  end
end

module Otlp
  module_function

  # {number => [values]}: an Integer, or bytes.
  def fields(bytes)
    found = Hash.new { |hash, number| hash[number] = [] }
    at = 0
    while at < bytes.bytesize
      key, at = varint(bytes, at)
      value, at = value_at(bytes, at, key & 7)
      found[key >> 3] << value
    end
    found
  end

  def value_at(bytes, at, type)
    case type
    when 0 then varint(bytes, at)
    when 1 then [bytes.byteslice(at, 8).unpack1("Q<"), at + 8]
    when 5 then [bytes.byteslice(at, 4).unpack1("L<"), at + 4]
    when 2
      size, at = varint(bytes, at)
      raise "cut short" if at + size > bytes.bytesize

      [bytes.byteslice(at, size), at + size]
    else raise "wire type #{type}"
    end
  end

  def varint(bytes, at)
    number = shift = 0
    loop do
      byte = bytes.getbyte(at) or raise "cut short"
      at += 1
      number |= (byte & 127) << shift
      shift += 7
      return [number, at] if byte < 128
    end
  end

  def text(bytes)
    bytes.to_s.dup.force_encoding(Encoding::UTF_8).tap { |text| raise "no UTF-8: #{text.inspect}" unless text.valid_encoding? }
  end

  def real(number)
    [number].pack("Q<").unpack1("E")
  end

  def attributes(list)
    list.to_h do |bytes|
      pair = fields(bytes)
      value = fields(pair[2].first)
      [text(pair[1].first), value[1].any? ? text(value[1].first) : value[3].first]
    end
  end

  def spans(request)
    fields(request)[1].flat_map do |resource_spans|
      resource_spans = fields(resource_spans)
      resource = attributes(fields(resource_spans[1].first)[1])
      resource_spans[2].flat_map { |scope_spans| fields(scope_spans)[2].map { |bytes| span(fields(bytes), resource) } }
    end
  end

  # How many a request has, without reading them.
  def span_count(request)
    fields(request)[1].sum { |of| fields(of)[2].sum { |scope| fields(scope)[2].size } }
  end

  def span(field, resource)
    status = field[15].any? ? fields(field[15].first) : nil
    {
      resource: resource, trace: field[1].first.unpack1("H*"), span: field[2].first.unpack1("H*"),
      parent: field[4].first&.unpack1("H*"), name: text(field[5].first), kind: field[6].first,
      start: field[7].first, end: field[8].first, attributes: attributes(field[9]),
      events: field[11].map { |bytes| event(fields(bytes)) },
      links: field[13].map { |bytes| fields(bytes).then { |link| [link[1].first.unpack1("H*"), link[2].first.unpack1("H*")] } },
      status: status && [status[3].first, text(status[2].first)]
    }
  end

  def event(field)
    { time: field[1].first, name: text(field[2].first), attributes: attributes(field[3]) }
  end

  def metrics(request)
    fields(request)[1].each_with_object({}) do |resource_metrics, found|
      resource_metrics = fields(resource_metrics)
      resource = attributes(fields(resource_metrics[1].first)[1])
      resource_metrics[2].flat_map { |scope| fields(scope)[2] }.each do |bytes|
        metric = fields(bytes)
        (found[text(metric[1].first)] ||= []).concat(points(metric).map { |point| point.merge(resource: resource) })
      end
    end
  end

  def points(metric)
    kind = [5, 7, 9, 10].find { |number| metric[number].any? }
    data = fields(metric[kind].first)
    data[1].map do |bytes|
      case kind
      when 9 then histogram(fields(bytes), data[2].first)
      when 10 then exponential(fields(bytes))
      else number(fields(bytes), data)
      end
    end
  end

  def number(point, data)
    { attributes: attributes(point[7]), from: point[2].first, to: point[3].first, temporality: data[2].first,
      monotonic: data[3].first == 1, value: point[4].any? ? real(point[4].first) : point[6].first }
  end

  def exponential(point)
    buckets = fields(point[8].first)
    { attributes: attributes(point[1]), count: point[4].first, sum: real(point[5].first), scale: zigzag(point[6].first.to_i),
      offset: zigzag(buckets[1].first.to_i), buckets: varints(buckets[2].first), min: real(point[12].first),
      max: real(point[13].first) }
  end

  def zigzag(number)
    number.even? ? number / 2 : -(number / 2) - 1
  end

  def varints(bytes)
    at = 0
    [].tap do |found|
      while at < bytes.bytesize
        number, at = varint(bytes, at)
        found << number
      end
    end
  end

  def histogram(point, temporality)
    { attributes: attributes(point[9]), from: point[2].first, to: point[3].first, temporality: temporality,
      count: point[4].first, sum: real(point[5].first), buckets: point[6].join.unpack("Q<*"),
      bounds: point[7].join.unpack("E*"), min: real(point[11].first), max: real(point[12].first) }
  end
end
