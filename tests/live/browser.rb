# A headless Chromium, spoken to over two pipes by its DevTools protocol: opens a page, evaluates, clicks, presses keys. It has no
# network: whatever a page asks for but itself fails, and is kept in `requests`.

require "fileutils"
require "io/nonblock"
require "io/wait"
require "json"
require "tmpdir"

class Browser
  PROGRAM = ENV["PATH"].split(":").map { |path| "#{path}/chromium" }.find { |path| File.executable?(path) }

  attr_reader :requests, :messages

  def initialize(width: 1280, height: 800, patience: 30)
    @patience = patience
    @directory = Dir.mktmpdir("rbprobe-browser")
    read, @to = IO.pipe
    @from, write = IO.pipe
    [read, write].each { |pipe| pipe.nonblock = false } # Chromium takes EAGAIN for the end.
    @pid = spawn({ "HOME" => @directory }, PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                 "--user-data-dir=#{@directory}", "--window-size=#{width},#{height}", "--hide-scrollbars", "--no-first-run",
                 "--host-resolver-rules=MAP * ~NOTFOUND", "about:blank",
                 3 => read, 4 => write, in: File::NULL, out: File::NULL, err: File::NULL, pgroup: true)
    [read, write].each(&:close)
    @count = 0
    @buffer = +""
    @requests = []
    @messages = []
    attach
    size(width, height)
  end

  def close
    Process.kill("KILL", -@pid)
    Process.wait(@pid)
    [@to, @from].each(&:close)
    FileUtils.rm_rf(@directory)
  end

  def size(width, height)
    ask("Emulation.setDeviceMetricsOverride", width: width, height: height, deviceScaleFactor: 1, mobile: false)
  end

  def dark
    ask("Emulation.setEmulatedMedia", features: [{ name: "prefers-color-scheme", value: "dark" }])
  end

  # Waits until the page says that it is ready; seconds that it took.
  def open(path, view = nil)
    began = now
    ask("Page.navigate", url: "about:blank")
    @requests.clear
    ask("Page.navigate", url: "file://#{path}#{view && "##{view}"}")
    wait("document.documentElement?.dataset.ready")
    now - began
  end

  # Without waiting: a page that is not ours says nothing of being ready.
  def go(address)
    ask("Page.navigate", url: "about:blank")
    ask("Page.navigate", url: "file://#{address}")
  end

  # The value of an expression of JavaScript.
  def value(expression)
    result = ask("Runtime.evaluate", expression: expression, returnByValue: true, awaitPromise: true)
    raise "#{expression}: #{result["exceptionDetails"]}" if result["exceptionDetails"]

    result.dig("result", "value")
  end

  def wait(expression)
    deadline = now + @patience
    until (found = value(expression))
      raise "not in #{@patience} s: #{expression}; #{@messages.inspect}" if now > deadline

      sleep 0.02
    end
    found
  end

  def click(horizontal, vertical, count: 1)
    { "mousePressed" => 1, "mouseReleased" => 0 }.each do |type, buttons|
      ask("Input.dispatchMouseEvent", type: type, x: horizontal, y: vertical, button: "left", buttons: buttons,
                                      clickCount: count)
    end
  end

  # In its middle, unless shares of its width and height are given.
  def click_on(selector, across: 0.5, down: 0.5)
    box = value("(() => { const b = document.querySelector(#{selector.to_json}).getBoundingClientRect(); " \
                "return [b.left, b.top, b.width, b.height]; })()")
    click(box[0] + box[2] * across, box[1] + box[3] * down)
  end

  def press(key, code = nil)
    text = key.size == 1 ? { text: key } : {}
    ask("Input.dispatchKeyEvent", type: "keyDown", key: key, code: code || key, **text)
    ask("Input.dispatchKeyEvent", type: "keyUp", key: key, code: code || key)
  end

  def type(text)
    ask("Input.insertText", text: text)
  end

  def screenshot(path)
    File.binwrite(path, ask("Page.captureScreenshot", format: "png")["data"].unpack1("m"))
  end

  private

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  def attach
    target = ask("Target.getTargets")["targetInfos"].find { |info| info["type"] == "page" }
    @session = ask("Target.attachToTarget", targetId: target["targetId"], flatten: true)["sessionId"]
    %w[Page Runtime Network Log].each { |domain| ask("#{domain}.enable") }
  end

  def ask(method, **parameters)
    id = @count += 1
    message = { id: id, method: method, params: parameters }
    message[:sessionId] = @session if @session
    @to.write("#{message.to_json}\0")
    loop do
      answer = receive
      next note(answer) unless answer["id"] == id
      raise "#{method}: #{answer["error"]}" if answer["error"]

      return answer["result"]
    end
  end

  def note(event)
    parameters = event["params"]
    case event["method"]
    when "Network.requestWillBeSent" then @requests << parameters.dig("request", "url")
    when "Runtime.exceptionThrown" then @messages << parameters["exceptionDetails"].to_s
    when "Log.entryAdded" then @messages << parameters.dig("entry", "text")
    when "Page.javascriptDialogOpening" then @messages << "dialog: #{parameters["message"]}"
    end
  end

  def receive
    until (size = @buffer.index("\0"))
      raise "Chromium says nothing" unless @from.wait_readable(@patience)

      @buffer << @from.readpartial(1 << 20)
    end
    JSON.parse(@buffer.slice!(0..size).chomp("\0"))
  end
end

# A live test with a browser, and files that it opens.
module InBrowser
  def setup
    super
    skip "needs chromium" unless Browser::PROGRAM
  end

  def teardown
    @browser&.close
    super
  end

  def file_of(name)
    "#{@directory ||= directory}/#{name}"
  end

  def browser(**size)
    @browser ||= Browser.new(patience: 30 * ENV.fetch("RBPROBE_PATIENCE", "1").to_i, **size)
  end
end
