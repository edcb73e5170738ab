# rbprobe export --to html: a page that a browser shows without a network, whatever the process has called its methods.

require_relative "helper"
require_relative "browser"

class ExportHtmlTest < LiveTest
  include InBrowser

  def record(target, code, *arguments)
    client = launch("record", "-v", "--yes", "-p", target.pid.to_s, "-o", file_of("rec"), *arguments).wait_until_armed
    target.run(code)
    assert_exit 0, client.stop
  end

  def export(*options, file: file_of("rec"), view: nil)
    assert_exit 0, rbprobe("export", "-q", file, "--to", "html", "-o", file_of("page.html"), *options)
    browser.open(file_of("page.html"), view)
    assert_equal "yes", browser.value("document.documentElement.dataset.ready"), browser.messages.inspect
  end

  def text(selector)
    browser.value("[...document.querySelectorAll(#{selector.to_json})].map((one) => one.innerText)")
  end

  # Nothing but itself was asked for, and nothing was refused, which would be said.
  def assert_quiet
    assert_equal ["file://#{file_of("page.html")}"], browser.requests
    assert_empty browser.messages
  end

  CODE = "$shop.sell_all([:tea, :cup]); $shop.try(:cup); 3.times { $shop.price(:tea) }".freeze

  test "flame graph, timeline, methods and slowest calls of a recording" do
    record(start("shop"), CODE, "--args", "--return", "--raise", "Shop#")
    export
    assert_match(/process \d+.*Ruby .*10 calls/m, text("#facts").first)
    assert_equal ["Flame graph", "Timeline", "Methods", "Slowest calls", "?"], text("#tabs button")
    zoom_flame
    sort_methods
    look_at_slowest
    assert_quiet
  end

  # The first row below "all" is an outermost call: its left end is that of the longest one.
  def zoom_flame
    browser.wait("document.querySelector('#panel-flame canvas').dataset.frames > 3")
    box = browser.value("(() => { const b = document.querySelector('#panel-flame canvas').getBoundingClientRect(); " \
                        "return [b.left, b.top]; })()")
    browser.click(box[0] + 5, box[1] + 30)
    assert_match(/\Aall\n? › \n?Shop#\w+\z/, text(".path").first)
    assert_match(/\AShop#\w+/, text("#detail strong").first)
    browser.press("Escape")
    assert_equal "all", text(".path").first
    browser.press("ArrowDown")
    browser.press("Enter")
    assert_match(/ › /, text(".path").first)
    browser.click_on("#panel-flame .tools button")
    assert_equal "all", text(".path").first
  end

  def sort_methods
    browser.press("3")
    assert_equal %w[Shop#price Shop#refuse Shop#sell Shop#sell_all Shop#try], text("#panel-methods td:first-child").sort
    browser.click_on("#panel-methods th:nth-child(4) button")
    assert_equal %w[5 2 1 1 1], text("#panel-methods td:nth-child(4)")
    browser.press("/")
    browser.type("PRICE")
    assert_equal ["Shop#price"], text("#panel-methods td:first-child")
    assert_match(/\A1 method, [\d.]+ % of the time\z/, text("#found").first)
    browser.press("Escape")
    assert_equal 5, text("#panel-methods td:first-child").size
  end

  def look_at_slowest
    browser.press("4")
    assert_equal 10, text("#panel-slowest tbody tr").size
    row = text("#panel-slowest tbody tr").index { |line| line.include?("Shop#refuse") }
    browser.click_on("#panel-slowest tbody tr:nth-child(#{row + 1})", across: 0.1)
    assert_match(/RuntimeError|ArgumentError|!/, text("#detail dl").first)
    browser.click_on("#detail .head button")
    assert_equal ["Timeline"], text("[aria-selected=true]")
    shown = browser.wait("document.querySelector('#panel-timeline canvas').dataset.drawn > 0 && " \
                         "{ ...document.querySelector('#panel-timeline canvas').dataset }")
    browser.click_on("#panel-timeline .tools button:nth-child(2)")
    browser.wait("(({ from, to }) => to - from > #{shown["to"].to_f - shown["from"].to_f})" \
                 "(document.querySelector('#panel-timeline canvas').dataset)")
  end

  HOSTILE = ["</script><script>document.title='taken'</script>", "<img src=x onerror=document.title='taken'>", "\"';alert(1)//",
             "\u202Eevil", "</SCRIPT\n>", "<!--<script>", "\e[31mred", "\u0000\u2028", "]]>&lt;", "\xff\xfe\xc3(",
             "`${document.title='taken'}`", "\\u003c/script>"].freeze

  test "no name or value of the process does anything but show" do
    target = start("shop")
    target.run("$names = #{HOSTILE.inspect}.map { |name| name.valid_encoding? ? name : name.b }")
    target.run("$names << ('</script>' + 'x' * 1_000_000); nil")
    target.run("class Shop; $names.each { |name| define_method(name) { |value| [name, value] } }; end; nil")
    code = "Thread.new { Thread.current.name = #{HOSTILE.first.inspect}; $names.each { |name| " \
           "$shop.public_send(name, name) }; begin; raise #{HOSTILE.first.inspect}; rescue; end }.join"
    idle = "Thread.new { Thread.current.name = %q(#{HOSTILE[1]}); sleep 0.01 }.join"
    timeline = target_ruby?(">= 3.2") ? ["--timeline"] : []
    record(target, "#{code}; #{idle}", "--args", "--return", "--raise", *timeline, "Shop#")
    assert_exports_are_whole
    export(view: "slowest")
    assert_equal "rbprobe: rec", browser.value("document.title")
    shown = text("#panel-slowest td.name")
    assert_includes shown, "Shop##{HOSTILE.first}"
    assert_includes shown, "Shop#\\xe2\\x80\\xaeevil"
    refute_match(/[\u202e\e\0]/, browser.value("document.body.innerText"))
    %w[flame timeline methods].each do |view|
      browser.value("document.getElementById('tab-#{view}').click()")
      browser.value("document.querySelectorAll('#panel-#{view} tbody tr').forEach((row) => row.click())")
    end
    assert_equal 0, browser.value("document.querySelectorAll('img, iframe, object, script[src]').length")
    assert_quiet
    # And if it did become HTML: the policy runs no script but the page's own.
    browser.value("document.body.insertAdjacentHTML('beforeend', \"<img src=x onerror=document.title='taken'>\")")
    browser.value("document.body.append(Object.assign(document.createElement('script'), { text: \"document.title='taken'\" }))")
    assert_equal "rbprobe: rec", browser.value("document.title")
    refused = browser.value("fetch('https://example.org/').then(() => 'sent', () => 'refused')")
    assert_equal "refused", refused
  end

  # What others read the same names from.
  def assert_exports_are_whole
    trace = rbprobe("export", "-q", file_of("rec"), "--to", "chrome").stdout
    assert_predicate trace.dup.force_encoding("UTF-8"), :valid_encoding?
    names = JSON.parse(trace)["traceEvents"].map { |event| event["name"] }
    assert_includes names, "Shop##{HOSTILE.first}"
    assert_includes names, "Shop##{HOSTILE[2]}"
    assert_exit 0, rbprobe("export", "-q", file_of("rec"), "--to", "perfetto", "-o", file_of("perfetto"))
    return unless system("command -v protoc >/dev/null")

    decoded = IO.popen(["protoc", "--decode_raw"], in: file_of("perfetto"), err: File::NULL, &:read)
    assert_predicate $?, :success?
    assert_match(/script/, decoded)
  end

  test "what threads did stands above their calls" do
    skip "needs Ruby 3.2 or newer" unless target_ruby?(">= 3.2")
    record(start("shop"), "3.times { $shop.price(:tea) }; sleep 0.05", "--timeline", "Shop#")
    export(view: "timeline")
    legend = text("#panel-timeline .legend")
    assert_includes legend, "runs"
    assert_includes legend, target_ruby?(">= 3.3") ? "sleeps" : "blocked"
    browser.wait("document.querySelector('#panel-timeline canvas').dataset.drawn > 0")
    assert_quiet
  end

  # A thread that computes in one of its calls, and one that sleeps in its own, and has to wait for the GVL then.
  WAITING = <<~RUBY.tr("\n", ";").freeze
    hog = Thread.new { Thread.current.name = "hog"; Hog.new.hold until $over }
    web = Thread.new { Thread.current.name = "<b>web"; 3.times { Web.new.request } }
    idle = Thread.new { Thread.current.name = "idle"; 5.times { sleep 0.01 } }
    [web, idle].each(&:join)
    $over = true
    hog.join
  RUBY

  test "a wait for the GVL says who held it, and a thread without calls has a lane" do
    skip "needs Ruby 3.2 or newer" unless target_ruby?(">= 3.2")
    target = start("shop")
    target.run("class Hog; def hold; x = 0; 2_000_000.times { |i| x += i }; x; end; end; " \
               "class Web; def request; 3.times { sleep 0.01 }; end; end; nil")
    record(target, WAITING, "--timeline", "Hog#", "Web#")
    export(view: "slowest")
    look_at_waiting_call
    hits = browser.value(<<~JS)
      (() => { const t = app.timeline; const result = [];
        for (const one of t.lanes) for (const span of one.spans)
          if (span.doing === 1 && one.title === "<b>web")
            result.push([span.duration, t.lines({ span, thread: one.lane.thread })]);
        return result.sort((a, b) => b[0] - a[0]); })()
    JS
    assert_equal "The thread waits for the GVL", hits[0][1][0]
    assert_match(/\Aheld by hog for .* in Hog#hold\z/, hits[0][1][2])
    titles = browser.value("app.timeline.lanes.filter((one) => !one.lane.calls && one.spans.length).map((one) => one.title)")
    refute_empty titles
    refute_includes titles, "hog"
    assert_quiet
  end

  def look_at_waiting_call
    assert_equal "Waited for the GVL", text("#panel-slowest th:nth-child(2)").first
    row = text("#panel-slowest tbody tr").index { |line| line.include?("Web#request") }
    browser.click_on("#panel-slowest tbody tr:nth-child(#{row + 1})", across: 0.1)
    assert_match(/waited for the GVL\n.*held by hog for .* in Hog#hold/, text("#detail dl").first)
  end

  test "what is not shown is said" do
    record(start("shop"), CODE, "Shop#")
    File.binwrite(file_of("short"), File.binread(file_of("rec"))[0..-20])
    export("--calls", "4", file: file_of("short"))
    said = browser.value("document.getElementById('warnings').textContent")
    assert_match(/The timeline has the longest 4 of 10 calls. None that is left out took longer than \d/, said)
    assert_match(/cut short|end/, said)
    assert_match(/2 notes/, said)
    browser.press("3")
    assert_equal 5, text("#panel-methods td:first-child").size
    browser.press("4")
    assert_match(/Arguments and results were not recorded/, text("#panel-slowest .note").first)
  end

  test "a profile has a flame graph and its methods, and both times" do
    file = file_of("prof")
    target = start("profiled")
    target.run("Thread.new { loop { 1000.times { [1].map { 2 } } } }; nil")
    assert_exit 0, rbprobe("profile", "-p", target.pid.to_s, "--duration", "1", "-q", "-o", file)
    export(file: file)
    assert_equal ["Flame graph", "Methods", "?"], text("#tabs button")
    assert_match(/\d+ samples at \d+ Hz/, text("#facts").first)
    browser.wait("document.querySelector('#panel-flame canvas').dataset.frames > 1")
    browser.value("(() => { const s = document.getElementById('flame-weight'); s.value = 'cpu'; " \
                  "s.dispatchEvent(new Event('change')); })()")
    browser.press("2")
    assert_operator text("#panel-methods td:first-child").size, :>, 0
    assert_quiet
  end

  test "wide and narrow, light and dark, nothing is wider than the window" do
    record(start("shop"), CODE, "--args", "--return", "Shop#")
    export
    [1280, 400].product(%w[flame timeline methods slowest]).each do |width, view|
      browser.size(width, 700)
      browser.value("document.getElementById('tab-#{view}').click()")
      assert_equal width, browser.value("document.documentElement.scrollWidth"), view
    end
    browser.dark
    assert_equal "rgb(22, 24, 28)", browser.value("getComputedStyle(document.body).backgroundColor")
  end
end
