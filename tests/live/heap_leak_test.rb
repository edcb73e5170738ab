# rbprobe heap leak: three dumps of a process that leaks in a known way; and nothing left of them, however it ends. The page for
# browsers.

require_relative "helper"

class HeapLeakTest < LiveTest
  # Waits between its rounds, so that each pause has some of them.
  LEAK = <<~'RUBY'
    module Shop
      class Session; def initialize(number); @number = "session #{number}"; end; end
      SESSIONS = {}
    end
    Thread.new do
      loop do
        20.times { Shop::SESSIONS[rand] = Shop::Session.new(rand) }
        2000.times { |i| "temporary #{i}" }
        sleep 0.02
      end
    end
  RUBY
  MADE_AT = LEAK.lines.index { |line| line.include?("Session.new") } + 1

  TEMPORARY_AT = LEAK.lines.index { |line| line.include?("temporary") } + 1

  def leaking
    target = start("console")
    target.run("eval(#{LEAK.inspect}, TOPLEVEL_BINDING, \"leak.rb\", 1); 1")
    target
  end

  # Where the dumps go: whatever is left is found there.
  def leak(target, *options)
    @place = directory
    launch("heap", "leak", "-p", target.pid.to_s, "--interval=0.7", *options, env: { "TMPDIR" => @place })
  end

  def assert_nothing_left(target)
    assert_empty Dir.children(@place)
    wait_until("the copy is gone") { copies_of(target.pid).empty? }
  end

  def copies_of(parent)
    Dir.glob("/proc/[0-9]*/status").select do |path|
      status = File.read(path)
      status[/^Name:\t(.*)/, 1] == "rbprobe-dump" && status[/^PPid:\t(\d+)/, 1].to_i == parent
    rescue SystemCallError
      false
    end
  end

  test "what leaks, where it was allocated, and who holds it" do
    target = leaking
    result = leak(target, "--allocations", "--format=json").wait
    assert_exit 0, result
    assert_nothing_left target
    assert_equal 3, result.stderr.scan(/^rbprobe: dump \d of 3: [\d,]+ lines/).size, result.stderr
    found = JSON.parse(result.stdout)
    assert_equal ["dump 1", "dump 2", "dump 3"], found["dumps"].map { |dump| dump["file"] }
    sessions = found["leaks"]["rows"].find { |row| row["class"] == "Shop::Session" && row["site"] == "leak.rb:#{MADE_AT}" }
    assert sessions, found["leaks"]["rows"].map { |row| row.values_at("class", "site") }.inspect
    assert_operator sessions["live"]["objects"], :>=, 20
    assert_equal ["Shop::Session", "Hash", "module Shop", "class Object"],
                 sessions["paths"].first["steps"].first(4).map { |step| step["class"] }
    assert_operator sessions["retained_bytes"], :>, sessions["live"]["bytes"]
    # Others have the places of these by now.
    assert_empty(found["leaks"]["rows"].select { |row| row["site"] == "leak.rb:#{TEMPORARY_AT}" && row["live"]["objects"] > 2 })
    assert_equal "nil", target.run("ObjectSpace.allocation_generation(Object.new)")
    # What recording makes in a process that has never recorded is not the application's leak.
    assert_equal 1, result.stderr.scan("records where it allocates objects").size
    assert_empty(found["leaks"]["rows"].select { |row| ["Class", "(IMEMO ment)"].include?(row["class"]) })
    assert_attachable target
  end

  test "without allocation sites it says how to have them" do
    target = leaking
    result = leak(target).wait
    assert_exit 0, result
    assert_match(/not recorded; with --allocations it is/, result.stderr)
    assert_match(/^--- Shop::Session  -\n\n  \d+ objects, \d+ bytes, retain \d+\n     root /, result.stdout)
    assert_nothing_left target
  end

  test "an interrupt, in a pause, leaves nothing" do
    target = leaking
    tracer = leak(target, "--interval=60").wait_for(/dump 1 of 3/)
    tracer.signal(:INT)
    result = tracer.wait
    assert_exit 1, result
    assert_match(/^rbprobe: interrupted; no dump was kept$/, result.stderr)
    assert_equal "", result.stdout
    assert_nothing_left target
    assert_attachable target
  end

  test "the disk of TMPDIR is full: the directory is named" do
    only_root
    target = leaking
    site = directory
    full = ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1m none '#{site}' || exit 9; exec \"$@\"", "sh"]
    only_where_namespaces_are_allowed(full)
    target.run("BULK = Array.new(200_000) { |i| \"number \#{i} \#{rand}\" }; 1")
    result = rbprobe("heap", "leak", "-p", target.pid.to_s, env: { "TMPDIR" => site }, command: full)
    assert_exit 1, result
    assert_match(/^rbprobe: cannot write to #{site} \(TMPDIR names another directory\): No space left on device; nothing /,
                 result.stderr)
    assert_attachable target
  end

  test "a client that is killed leaves nothing" do
    target = leaking
    tracer = leak(target, "--interval=60").wait_for(/dump 1 of 3/)
    tracer.signal(:KILL)
    tracer.wait
    assert_nothing_left target
    assert_attachable target
  end

  test "a process that ends in a pause is reported" do
    target = leaking
    tracer = leak(target, "--interval=60").wait_for(/dump 1 of 3/)
    # One that is killed while it ends a session cannot take its queue away.
    wait_until("the first session is over") { Leftovers.queues_of([target]).empty? }
    target.signal(:KILL)
    result = tracer.wait
    assert_exit 1, result
    assert_match(/^rbprobe: process #{target.pid} has ended before it was dumped three times$/, result.stderr)
    assert_empty Dir.children(@place)
  end

  # A master whose two workers leak, each into a Hash of its own.
  def with_workers
    target = start("console")
    leaking = "eval(#{LEAK.inspect}, TOPLEVEL_BINDING, 'leak.rb', 1); sleep"
    workers = target.run("Array.new(2) { fork { #{leaking} } }").scan(/\d+/).map { |pid| target.adopt(pid.to_i) }
    yield target, workers
  ensure
    workers&.each { |pid| kill_without_session(target, pid) }
  end

  # One that is killed while it ends a session cannot take its queue away.
  def kill_without_session(target, pid)
    wait_until("no session is under way") { Leftovers.queues_of([target]).empty? }
    Process.kill(:KILL, pid)
  rescue Errno::ESRCH
    nil
  end

  test "--children: a report of each worker, at the same time" do
    with_workers do |target, workers|
      result = leak(target, "--children", "--allocations", "--format=json").wait
      assert_exit 0, result
      assert_nothing_left target
      said = result.stderr.lines
      workers.each do |pid|
        assert_equal [1, 2, 3], result.stderr.scan(/^rbprobe: process #{pid}, dump (\d) of 3: /).flatten.map(&:to_i)
      end
      # None has all of its dumps before the other has begun.
      assert_equal workers.sort, said.grep(/dump [12] of 3/)[0, 3].map { |line| line[/process (\d+)/, 1].to_i }.uniq.sort
      found = result.stdout.lines.map { |line| JSON.parse(line) }
      assert_equal workers.map { |pid| ["heap_leak", pid] }.sort, found.map { |report| report.values_at("type", "pid") }.sort
      found.each do |report|
        sessions = report["leaks"]["rows"].find { |row| row["class"] == "Shop::Session" && row["site"] == "leak.rb:#{MADE_AT}" }
        assert_operator sessions["live"]["objects"], :>=, 20
      end
    end
  end

  test "--children: a worker that starts in the place of one that ended is watched, too, and of many that do only so many" do
    with_workers do |target, workers|
      leaking = "eval(#{LEAK.inspect}, TOPLEVEL_BINDING, 'leak.rb', 1); sleep"
      tracer = leak(target, "--children", "--interval=3", "--format=json")
      workers.each { |pid| tracer.wait_for(/process #{pid}, dump 1 of 3/) }
      kill_without_session(target, workers[0])
      more = target.run("Array.new(4) { fork { #{leaking} } }").scan(/\d+/).map { |pid| target.adopt(pid.to_i) }
      workers.concat(more)
      result = tracer.wait
      joined = result.stderr.scan(/^rbprobe: worker (\d+) joined$/).flatten.map(&:to_i)
      assert_equal 2, joined.size, result.stderr
      assert_empty joined - more
      found = result.stdout.lines.map { |line| JSON.parse(line) }
      assert_equal [workers[1], *joined].sort, found.map { |report| report["pid"] }.sort
      assert_match(/^rbprobe: process #{workers[0]} .*(ended|gone|killed|went away)/, result.stderr)
      assert_empty Dir.children(@place)
    end
  end

  test "several processes: text under headings, a file for each, and one of them ends" do
    with_workers do |target, workers|
      text = leak(target, "--children").wait
      assert_equal workers.sort, text.stdout.scan(/^process (\d+):$/).flatten.map(&:to_i).sort
      assert_equal 2, text.stdout.scan(/^--- Shop::Session  -$/).size
      pages = directory
      result = leak(target, "--children", "--format=html", "-o", "#{pages}/%p.html").wait
      assert_exit 0, result
      assert_equal workers.map { |pid| "#{pid}.html" }.sort, Dir.children(pages).sort
      workers.each { |pid| assert_includes File.read("#{pages}/#{pid}.html"), %("type":"heap_leak","pid":#{pid},) }
      tracer = leak(target, "--children", "--interval=2").wait_for(/process #{workers[0]}, dump 1 of 3/)
      kill_without_session(target, workers[0])
      result = tracer.wait
      # In the pause, or when it was just to be dumped again.
      assert_includes [1, 3, 4], result.status
      assert_match(/^rbprobe: process #{workers[0]} .*(ended|gone|killed)/, result.stderr)
      assert_equal [workers[1]], result.stdout.scan(/^process (\d+):$/).flatten.map(&:to_i)
      assert_empty Dir.children(@place)
    end
  end

  test "an interrupt ends the runs of all processes, and leaves nothing" do
    with_workers do |target, workers|
      tracer = leak(target, "--children", "--interval=60")
      workers.each { |pid| tracer.wait_for(/process #{pid}, dump 1 of 3/) }
      tracer.signal(:INT)
      result = tracer.wait
      assert_exit 1, result
      assert_equal 2, result.stderr.scan(/^rbprobe: interrupted; no dump was kept$/).size
      assert_empty Dir.children(@place)
      workers.each { |pid| wait_until("its copy is gone") { copies_of(pid).empty? } }
    end
  end

  test "wrong usage" do
    assert_refused 2, /a file each: -o 'leak-%p.html'/, "heap", "leak", "-p", "1,2", "--format=html"
    assert_refused 2, /a file each: -o 'leak-%p.txt'/, "heap", "leak", "-p", "1,2", "-o", "leak.txt"
    assert_refused 2, /heap leak needs -p PID/, "heap", "leak"
    assert_refused 2, /--interval/, "heap", "leak", "-p", "1", "--interval", "x"
    nowhere = "#{directory}/none"
    target = leaking
    result = rbprobe("heap", "leak", "-p", target.pid.to_s, env: { "TMPDIR" => nowhere })
    assert_exit 1, result
    assert_match(/cannot make a file for the dump in #{nowhere}: No such file/, result.stderr)
  end

  # --- The page

  HOSTILE = "</script><script>alert(1)</script><!-- & \\u2028 \\\" '".freeze

  def hostile_dump
    path = "#{directory}/hostile.json"
    File.write(path, <<~LINES)
      {"type":"ROOT", "root":"#{HOSTILE}", "references":["0x10"]}
      {"address":"0x10", "type":"CLASS", "class":"0x10", "name":"#{HOSTILE}", "references":["0x20"], "memsize":100}
      {"address":"0x20", "type":"STRING", "class":"0x10", "bytesize":9, "value":"#{HOSTILE}", "file":"#{HOSTILE}", "line":3,
    LINES
    File.write(path, File.read(path).chomp + " \"memsize\":40}\n")
    path
  end

  test "the page has the report, loads nothing, and text of the process stays text" do
    dump = hostile_dump
    file = "#{directory}/report.html"
    result = rbprobe("heap", "report", "--format=html", "-o", file, "--retainers=0x20", dump)
    assert_exit 0, result
    assert_equal ["", ""], [result.stdout, result.stderr]
    page = File.read(file)
    assert_equal 2, page.scan(/<script/).size
    assert_equal 2, page.scan(%r{</script>}).size
    refute_includes page, "<!--"
    assert_empty page.scan(%r{(?:https?:)?//[a-z]|src=|href=|@import|url\(}i)
    assert_includes page, "default-src 'none'"
    data = JSON.parse(page[%r{<script type='application/json' id='data'>\n(.*?)</script>}m, 1])
    plain = JSON.parse(%("#{HOSTILE}"))
    assert_equal ["class #{plain}", plain], data["dominators"]["classes"].map { |row| row["class"] }
    assert_equal "root #{plain}", data["retainers"]["paths"].first["steps"].last["class"]
    asked = rbprobe("heap", "report", "--format=json", "--dominators", "--top=200", "--retainers=0x20", dump).stdout
    data["dominators"]["classes"].each { |row| assert row.delete("held") }
    assert_equal JSON.parse(asked), data
  end
end
