# What `rbprobe export --to svg` and `--to html` look like: a browser opens them, clicks, and its screen is compared, pixel by
# pixel, with what the page or the SVG says that is there.

require_relative "helper"
require_relative "browser"
require_relative "png"

class ExportScreenTest < LiveTest
  WIDTH = 900
  HEIGHT = 420

  include InBrowser

  def setup
    super
    browser(width: WIDTH, height: HEIGHT)
  end

  def value(expression)
    @browser.value(expression)
  end

  def record
    target = start("shop")
    client = launch("record", "-v", "--yes", "-p", target.pid.to_s, "-o", file_of("rec"), "--args", "--return", "Shop#")
    client.wait_until_armed
    target.run("$shop.sell_all([:tea, :cup]); $shop.try(:cup); 3.times { $shop.price(:tea) }")
    assert_exit 0, client.stop
    file_of("rec")
  end

  def profile(*options)
    target = start("profiled")
    target.run("go")
    assert_exit 0, rbprobe("profile", "-p", target.pid.to_s, "--duration", "1", "-q", "-o", file_of("prof"), *options)
    file_of("prof")
  end

  def export(file, format)
    assert_exit 0, rbprobe("export", "-q", file, "--to", format, "-o", file_of("shown.#{format}"))
    file_of("shown.#{format}")
  end

  # What is on the screen, when it is drawn.
  # What was asked for is drawn, and what frames there are is known.
  def wait_until_drawn
    value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
  end

  def screen
    wait_until_drawn
    @browser.screenshot(file_of("screen.png"))
    Png.new(File.binread(file_of("screen.png")))
  end

  def assert_color(expected, shown, what)
    expected = expected.scan(/\h\h/).map(&:hex) if expected.start_with?("#")
    expected = expected[/\((.*)\)/, 1].split(",").map(&:to_i) if expected.is_a?(String)
    assert expected.zip(shown).all? { |one, other| (one - other).abs <= 2 }, "#{what}: #{shown} instead of #{expected}"
  end

  # --- SVG

  # [name, fill, left, top, width, right end of its text] of each box.
  BOXES = <<~JS.freeze
    [...document.querySelectorAll('g')].map((g) => {
      const rect = g.querySelector('rect'), text = g.querySelector('text'), box = rect.getBoundingClientRect();
      return [g.querySelector('title').textContent, getComputedStyle(rect).fill, box.left, box.top, box.width,
        text ? text.getBoundingClientRect().right : null];
    })
  JS

  def open_svg(path)
    @browser.size(1200, HEIGHT)
    @browser.go(path)
    @browser.wait("document.documentElement?.tagName === 'svg' && document.querySelectorAll('g').length > 1")
    assert_equal [0, 0], value("[document.querySelectorAll('parsererror').length, document.querySelectorAll('script').length]")
    value(BOXES)
  end

  # Each box that is wide enough is on the screen in its colour, to the left of its text, and its text does not leave it.
  def assert_drawn(boxes)
    shown = screen
    wide = boxes.select { |_, _, _, _, width, _| width > 6 }
    refute_empty wide
    wide.each do |name, fill, left, top, width, text_right|
      assert_color fill, shown.at((left + 2).floor, (top + 7).floor), name
      assert_operator text_right, :<=, left + width, name if text_right
    end
    shown
  end

  test "the SVG of a recording: its text, and each box in its colour" do
    boxes = open_svg(export(record, "svg"))
    names = boxes.map { |name, *| name[/\A\S+/] }
    assert_empty %w[all Shop#sell_all Shop#sell Shop#price Shop#try Shop#refuse] - names
    assert_match(/\Arbprobe: wall time, [\d.]+ s of all threads\z/, value("document.querySelector('text').textContent"))
    shown = assert_drawn(boxes)
    assert_operator shown.colors(bottom: 150).size, :>, 20
    # Nothing but paper below the last row.
    lowest = boxes.map { |_, _, _, top, *| top }.max
    assert_equal 1, shown.colors(top: (lowest + 18).ceil, bottom: (lowest + 24).floor, right: 1000).size
  end

  test "the SVG of a profile, and of objects" do
    boxes = open_svg(export(profile, "svg"))
    assert(boxes.any? { |name, *| name.start_with?("Work#add ") }, boxes.map(&:first).inspect)
    assert_drawn(boxes)
    boxes = open_svg(export(objects, "svg"))
    assert(boxes.any? { |name, *| name.start_with?("Made (") }, boxes.map(&:first).inspect)
    assert_drawn(boxes)
  end

  # Each object that the process makes.
  def objects(*options)
    target = start("profiled")
    client = launch("profile", "-p", target.pid.to_s, "--duration", "60", "--alloc", "--every", "1", "-o", file_of("prof"),
                    *options)
    wait_until("it looks") { thread_names_of(target.pid).include?("rbprobe-profile") }
    target.run("make(300)")
    assert_exit 0, client.stop
    file_of("prof")
  end

  # --- The page

  def open_page(path, view = nil)
    @browser.open(path, view)
    assert_equal "yes", value("document.documentElement.dataset.ready"), @browser.messages.inspect
    @browser.wait("document.querySelector('#panel-flame canvas').dataset.frames > 1") unless view
  end

  # [name, colour, left, top, width] of the frames of the flame graph that are drawn.
  FRAMES = <<~JS.freeze
    (() => {
      const context = document.createElement('canvas').getContext('2d'), box = app.flame.canvas.getBoundingClientRect();
      return app.flame.rows.flat().map(([one, x, size]) => {
        context.fillStyle = one.name < 0 ? themed('--all') : colorOf(app.flame.title(one));
        return [app.flame.title(one), context.fillStyle, box.left + x, box.top + one.depth * 20, size];
      });
    })()
  JS

  def assert_flame_drawn
    wait_until_drawn
    frames = value(FRAMES)
    shown = screen
    frames.select { |_, _, _, top, size| size > 8 && top + 20 < shown.height }.each do |name, color, left, top, _|
      assert_color color, shown.at((left + 2).floor, (top + 10).floor), name
    end
    frames
  end

  # Each text that a canvas gets ends where its box does: [text, what it is wider by] of those that do not.
  def texts_too_wide(draw)
    value(<<~JS)
      (() => {
        const prototype = CanvasRenderingContext2D.prototype, { fillRect, fillText } = prototype, found = [];
        let box = null;
        prototype.fillRect = function (x, y, width, height) {
          box = [x, width];
          return fillRect.call(this, x, y, width, height);
        };
        prototype.fillText = function (text, x, y) {
          const over = x + this.measureText(text).width - box[0] - box[1];
          if (this.font.includes('monospace') && over > 0) found.push([text, over]);
          return fillText.call(this, text, x, y);
        };
        #{draw};
        Object.assign(prototype, { fillRect, fillText });
        return found;
      })()
    JS
  end

  test "the page of a recording: what each view draws, and what a click does" do
    target = start("shop")
    target.run("class Shop; def a_name_that_has_no_room_in_any_frame_of_it#{"_at_all" * 20}; sleep 0.005; end; end; nil")
    client = launch("record", "-v", "--yes", "-p", target.pid.to_s, "-o", file_of("rec"), "--args", "--return", "Shop#")
    client.wait_until_armed
    target.run("$shop.sell_all([:tea, :cup]); $shop.try(:cup); $shop.a_name_that_has_no_room_in_any_frame_of_it#{"_at_all" * 20}")
    assert_exit 0, client.stop
    open_page(export(file_of("rec"), "html"))
    frames = assert_flame_drawn
    assert_empty texts_too_wide("app.flame.drawNow()")
    zoom_into(frames)
    look_at_timeline
    look_at_tables
    assert_empty @browser.messages
  end

  # A frame that is clicked takes all of the width, and the search paints it.
  def zoom_into(frames)
    name, _, left, top, width = frames.reject { |one, *| one == "all" }.max_by(&:last)
    @browser.click(left + width / 2, top + 10)
    zoomed = assert_flame_drawn_around(name)
    assert_in_delta frames.first.last, zoomed.last, 1
    @browser.press("/")
    @browser.type(name)
    found = value("(() => { const c = document.createElement('canvas').getContext('2d'); c.fillStyle = themed('--found'); " \
                  "return c.fillStyle; })()")
    assert_color found, screen.at((zoomed[2] + 2).floor, (zoomed[3] + 10).floor), "what was searched"
    @browser.press("Escape")
    @browser.click_on("#panel-flame .tools button")
    assert_flame_drawn
  end

  def assert_flame_drawn_around(name)
    assert_equal name, value("app.flame.title(app.flame.zoomed)")
    screen
    value(FRAMES).find { |one, *| one == name }
  end

  # The slowest call has its method's colour, also where a line of the grid passes: it passes below them.
  def look_at_timeline
    @browser.click_on("#tab-timeline")
    @browser.wait("document.querySelector('#panel-timeline canvas').dataset.drawn > 0")
    @browser.value("[...document.querySelectorAll('#panel-timeline .tools button')].at(-1).click()")
    shown = screen
    assert_empty texts_too_wide("app.timeline.drawNow()")
    left, top, color = value(<<~JS)
      (() => {
        const t = app.timeline, box = t.canvas.getBoundingClientRect(), c = document.createElement('canvas').getContext('2d');
        const at = t.find(app.model.about.slowest[0]), lane = t.lanes.find((one) => one.lane.rows[0]?.includes(at));
        c.fillStyle = colorOf(app.model.about.slowest[0].method);
        return [box.left + t.x(t.ticks().find((tick) => tick > t.calls.start[at])),
          box.top + lane.y + MAP + AXIS - t.scroll.scrollTop + HEAD + STRIP, c.fillStyle];
      })()
    JS
    # Between its frame and its text.
    assert_color color, shown.at(left.floor, top.floor + 2), "the call where the grid is"
  end

  # No cell's text leaves the cell, and there is text.
  def look_at_tables
    { "methods" => %w[Shop#sell_all Shop#price], "slowest" => ["Shop#sell_all", "=> "] }.each do |view, words|
      @browser.click_on("#tab-#{view}")
      text = value("document.getElementById('panel-#{view}').innerText")
      words.each { |word| assert_includes text, word }
      shown = screen
      assert_operator shown.colors(top: 120).size, :>, 10
      outside = value(<<~JS)
        [...document.querySelectorAll('#panel-#{view} td, #panel-#{view} th')].filter((cell) =>
          cell.scrollWidth > cell.clientWidth + 1).map((cell) => cell.innerText)
      JS
      assert_empty outside
      heads = value("[...document.querySelectorAll('#panel-#{view} th')].map((head) => head.innerText)")
      assert_equal heads.uniq, heads
    end
    @browser.click_on("#panel-slowest tbody tr", across: 0.1)
    assert_match(/\AShop#/, value("document.querySelector('#detail strong').innerText"))
    @browser.click_on("#detail .close")
    assert value("document.getElementById('detail').hidden")
  end

  test "the page of a profile: each frame in its colour, and a table whose columns have names of their own" do
    open_page(export(profile, "html"))
    frames = assert_flame_drawn
    assert_includes frames.map(&:first), "Work#add"
    assert_empty texts_too_wide("app.flame.drawNow()")
    @browser.click_on("#tab-methods")
    heads = value("[...document.querySelectorAll('#panel-methods th')].map((head) => head.innerText)")
    assert_equal ["Method", "Self", "Total", "Self %"], heads
    assert_operator screen.colors(top: 100).size, :>, 10
  end

  # name, and the cells of its row.
  def row_of(name)
    value("[...document.querySelectorAll('#panel-methods tbody tr')].map((row) => [...row.cells].map((cell) => cell.innerText))")
      .find { |cells| cells.first == name } or flunk "no row of #{name}"
  end

  def look_by(weight)
    @browser.click_on("#tab-flame")
    value("(() => { const s = document.getElementById('flame-weight'); s.value = '#{weight}'; " \
          "s.dispatchEvent(new Event('change')); })()")
  end

  test "the page of a profile of objects: their bytes and their number, by class and by who makes them" do
    report = rbprobe("report", "-q", objects, "--format", "json").stdout.lines.map { |line| JSON.parse(line) }
    bytes = report.find { |one| one["label"] == "LargeMade" }["self_bytes"]
    open_page(export(file_of("prof"), "html"))
    assert_includes assert_flame_drawn.map(&:first), "LargeMade (made)"
    assert_match(/\d objects? made/, value("document.getElementById('facts').innerText"))
    @browser.click_on("#tab-methods")
    assert_equal "Method or class", value("document.querySelector('#panel-methods th').innerText")
    assert_equal value("bytes(#{bytes})"), row_of("LargeMade (made)")[1]
    look_by("objects")
    assert_flame_drawn
    @browser.click_on("#tab-methods")
    made = %w[Made LargeMade].map { |name| row_of("#{name} (made)") }
    assert_equal [["300 objects"] * 2] * 2, made.map { |cells| cells[1, 2] }
    assert_operator row_of("Work#make")[1].delete(",").to_i, :>=, 300 # arrays
    assert_operator row_of("Work#make")[2].delete(",").to_i, :>=, 900
    @browser.click_on("#panel-methods tbody tr", across: 0.1)
    assert_match(/itself [\d,]+ objects/, value("document.getElementById('detail').innerText"))
    assert_empty @browser.messages
  end

  test "the page of a profile of the GVL: who waited, and who held it" do
    open_page(export(profile("--gvl"), "html"), "methods")
    weights = value("[...document.querySelectorAll('#flame-weight option')].map((one) => one.value)")
    assert_equal %w[waited held wall cpu], weights
    weights.each do |weight|
      total = rbprobe("export", "-q", file_of("prof"), "--to", "speedscope", *{ "held" => %w[--held], "wall" => %w[--wall],
                                                                                "cpu" => %w[--cpu] }[weight])
      look_by(weight)
      assert_equal JSON.parse(total.stdout)["profiles"][0]["endValue"], value("app.flame.root.total"), weight
    end
  end
end
