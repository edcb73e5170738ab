# rbprobe record --rotate: each file can be read by itself. And the line of progress that a terminal gets.

require_relative "helper"
require "pty"

class RecordRotateTest < LiveTest
  def file_of(suffix = "")
    "#{@directory ||= directory}/calls.rec#{suffix}"
  end

  # Records with files of a few KiB until there are so many; values that do not pack.
  def record_files(count, target, *arguments, size: "2K")
    client = launch("record", "-v", "--yes", "-p", target.pid.to_s, "-o", file_of, "--max-size", size, "--rotate", count.to_s,
                    *arguments)
    client.wait_until_armed
    yield
    client.stop.tap { |result| assert_exit 0, result }
  end

  def replay(file, *arguments)
    rbprobe("replay", *arguments, file).tap { |result| assert_exit 0, result }
  end

  BUSY = "$busy = true; Thread.new { $shop.price(rand.to_s.to_sym) while $busy }; nil"

  def wait_for_rotations
    first = wait_until("there is a second file") { inode(".1") }
    wait_until("it is another one") { ![nil, first].include?(inode(".1")) }
  end

  # nil: there is none, or none for a moment, between the renamings.
  def inode(suffix)
    File.stat(file_of(suffix)).ino
  rescue Errno::ENOENT
    nil
  end

  test "the newest files are kept, and each can be read by itself" do
    target = start("shop")
    result = record_files(3, target, "Shop#price(item)") do
      target.run(BUSY)
      wait_until("there is a third file") { File.exist?(file_of(".2")) }
      wait_for_rotations
    end
    assert_match(/calls\.rec has .* \(what was before is in \S+calls\.rec\.1 to \.2\); /, result.stderr)
    assert_equal ["", ".1", ".2"].map { |suffix| file_of(suffix) }, Dir.glob(file_of("*")).sort
    [".1", ".2"].each do |suffix| # the newest may have only just begun
      assert_match(/^Shop#price\(item=:"?0\.\d+"?\) /, replay(file_of(suffix)).stdout, suffix)
    end
    assert_match(/ended: it goes on in the next file$/, replay(file_of(".1")).stderr)
    assert_match(/ended: it goes on in the next file$/, replay(file_of(".2"), "--info").stdout)
    assert_match(/^rbprobe: \d+ calls?, \d+ lost, .* ended: interrupted\n\z/, replay(file_of).stderr)
  end

  test "threads that make no calls have their names in each file of a timeline" do
    target = start("shop")
    target.run("%w[packs mails bills].each { |name| Thread.new { loop { sleep 0.01; 50.times { name.hash } } }.name = name }; 1")
    record_files(2, target, "--timeline", "Shop#price(item)", size: "8K") do
      # Slowly, so that each file has all threads at work.
      target.run("Thread.new { $shop.price(rand.to_s.to_sym) while sleep(0.001) }; nil")
      wait_for_rotations
      wait_for_rotations
    end
    file = "#{@directory}/timeline.json"
    assert_exit 0, rbprobe("export", file_of(".1"), "--to", "chrome", "-o", file)
    names = JSON.parse(File.read(file))["traceEvents"].select { |event| event["name"] == "thread_name" }
    assert_empty %w[packs mails bills].reject { |name| names.any? { |event| event["args"]["name"].include?(name) } }, names
  end

  test "a call that was open when the next file began has its start there, with its values" do
    target = start("shop")
    files = [file_of, file_of(".1")]
    target.run("class Shop; def day(name, queue); queue.pop; end; end; $open = Queue.new; nil")
    record_files(2, target, "--overflow", "block", "--args", "Shop#day", "Shop#price") do
      target.run("$day = Thread.new { $shop.day('monday', $open) }; #{BUSY}")
      wait_for_rotations
      target.run("$busy = false; $shop.price(:drained); nil")
      wait_until("all calls are written") { files.any? { |file| rbprobe("replay", file).stdout.include?(":drained") } }
      target.run("$open << 1; $day.join; nil")
    end
    day = files.flat_map { |file| replay(file, "--format", "json").events("call") }
               .find { |call| call["method"] == "Shop#day" && call["duration_ns"] }
    refute_nil day, "it began in a file that is gone, and ended in one that is there"
    assert_match(/monday/, day.to_s)
  end

  test "a process that has refused is in no later file" do
    refuses = start("shop")
    target = start("shop")
    refuses.run("Rbprobe.allow = [:backtrace]; nil")
    client = launch("record", "-v", "--yes", "-p", "#{refuses.pid},#{target.pid}", "-o", file_of, "--max-size", "2K",
                    "--rotate", "2", "Shop#price(item)")
    client.wait_for(/^rbprobe: process #{refuses.pid}: the application does not allow/)
    client.wait_for(/^rbprobe: process #{target.pid}: tracing \d/)
    target.run(BUSY)
    wait_for_rotations
    assert_exit 1, client.stop
    assert_equal [target.pid.to_s], replay(file_of(".1"), "--info").stdout.scan(/^process (\d+):/).flatten
  end

  test "a terminal has a line of progress" do
    target = start("shop")
    PTY.open do |terminal, their_end|
      client = start_beside({"TERM" => "xterm"}, Processes::RBPROBE, "record", "-p", target.pid.to_s, "-o", file_of, "Shop#price",
                            out: their_end)
      their_end.close
      text = +""
      wait_until("it says how far it is") do
        target.run("$shop.price(:tea)")
        read = terminal.read_nonblock(1000, exception: false)
        text << read if read.is_a?(String)
        text.match?(/\r\e\[Krecording: \d+\.\d s, [1-9]\d* events, /)
      end
      Process.kill(:INT, client)
      begin
        text << terminal.readpartial(1000) until text.include?("shows it")
      rescue Errno::EIO
        flunk "it ended without a word: #{text}"
      end
      assert_match(/\r\e\[Krbprobe: \d+ calls?, 0 lost/, text)
    end
    assert_match(/^Shop#price <\d/, replay(file_of).stdout)
  end

  test "what --rotate needs" do
    assert_refused 2, /--rotate needs --max-size/, "record", "-p", "1", "-o", file_of, "--rotate", "3", "x"
    rotate = %w[--rotate 3 --max-size 1M x]
    assert_refused 2, /one file of all processes/, "record", "-p", "1", "-o", file_of("%p"), *rotate
    assert_refused 2, /cannot append/, "record", "-p", "1", "-a", "-o", file_of, *rotate
    assert_refused 2, %r{--rotate renames files, and /dev/null is none},
                   "record", "-p", $$.to_s, "-o", "/dev/null", *rotate
  end
end
