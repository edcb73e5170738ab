# A profile of a process that ends meanwhile.

require_relative "helper"

class ProfileEndedTest < LiveTest
  ENDS = {
    "exit" => [0, /has exited: what is shown ends there$/],
    "exit!" => [0, /left without its exit handlers .*: what is shown ends there$/],
    "exec 'true'" => [0, /(called exec|left without its exit handlers .*): what is shown ends there$/],
    "Process.kill(:KILL, $$)" => [4, /was killed by signal 9 \(Killed\): what is shown ends there$/],
  }.freeze

  # Answers come several times a second. Each attempt gives the process more time.
  def profile_of_one_that_ends(code, *options, stays: false)
    1.step(by: 1) do |tries|
      target = start("profiled")
      target.run("go")
      profiling = launch("profile", "-p", target.pid.to_s, "--duration", "60", *options)
      wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
      sleep tries / 2.0
      target.run_in_background(code)
      result = profiling.wait
      target.wait unless stays
      return result unless result.stdout.empty?
      assert_operator tries, :<, 10, "no answer came"
    end
  end

  ENDS.each do |code, (status, message)|
    [[], ["--alloc"]].each do |options|
      test "what came before is shown, and how it ended: #{[*options, code].join(" ")}" do
        result = profile_of_one_that_ends(code, *options)
        assert_exit status, result
        assert_match message, result.stderr
        assert_equal 1, result.stderr.lines.size, result.stderr
        assert_match(/^process \d+: /, result.stdout)
      end
    end
  end

  CLOSE = "(3..1024).each { |number| IO.for_fd(number).close rescue nil }"
  CLOSED = /\Arbprobe: process \d+ closed the connection without a word, though it still runs/.freeze

  test "an application that closes the connection has called no exec" do
    result = profile_of_one_that_ends(CLOSE, stays: true)
    assert_exit 4, result
    assert_match(/#{CLOSED}: what is shown ends there\n\z/, result.stderr)
    assert_match(/^process \d+: /, result.stdout)
  end

  test "one that closes it before the answer, too" do
    target = start("console")
    # It has greeted by then.
    code = "sleep 1; begin; #{CLOSE}; sleep; ensure; $closed = true; end"
    result = rbprobe("eval", "-p", target.pid.to_s, code)
    assert_exit 4, result
    assert_match(/#{CLOSED}\n\z/, result.stderr)
    # Until then it would close the next one's, too.
    wait_until("it has closed all") { target.run("$closed") == "true" }
    assert_attachable(target)
  end
end
