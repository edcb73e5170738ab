# `make demo`: what tests/demo starts, shows, writes and leaves behind.

require "open3"
require_relative "helper"
require_relative "browser"

class DemoTest < LiveTest
  test "the demo traces a shop, records it, writes its page, and leaves nothing behind" do
    only_where_loading_is_possible
    skip "no Puma for this Ruby" unless Processes::RUBY == ["ruby"] && system("command -v puma >/dev/null")
    page = "#{directory}/demo.html"
    scratch = directory
    environment = { "BUILD" => Processes::BUILD, "RUBY" => Processes::RUBY.first, "DEMO_SECONDS" => "2", "DEMO_PAGE" => page,
                    "TMPDIR" => scratch, "NO_COLOR" => "1" }
    shown, said, status = Open3.capture3(environment, "#{Processes::ROOT}/tests/demo", stdin_data: "")
    assert_predicate status, :success?, shown + said
    pid = shown[/^Puma has PID (\d+)/, 1] or flunk shown
    assert_match(/^ *#{pid} .*puma/, shown)
    assert_match(/^ *Sinatra::Base#call!\(self=.*Catalogue#\w+\(/m, shown)
    assert_match(/^The application goes on as before: \d+ lines in its log, PID #{pid} still S/, shown)
    refute_path_exists "/proc/#{pid}"
    assert_empty Dir.children(scratch)
    look_at(page) if Browser::PROGRAM
  end

  def look_at(page)
    browser = Browser.new(patience: 30 * ENV.fetch("RBPROBE_PATIENCE", "1").to_i)
    browser.open(page)
    browser.wait("document.querySelector('#panel-flame canvas').dataset.frames > 10")
    assert_equal 4, browser.value("document.querySelectorAll('[role=tab]').length")
    assert_includes browser.value("document.getElementById('panel-methods').textContent"), "Catalogue#"
    assert_empty browser.messages
  ensure
    browser&.close
  end
end
