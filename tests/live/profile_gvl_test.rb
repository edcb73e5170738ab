# `rbprobe profile --gvl`: who waits for the GVL, and who has it meanwhile.

require_relative "helper"
require_relative "profiled"

class ProfileGvlTest < LiveTest
  include Profiled

  # A method in C, tens of milliseconds at a time, that looks for no interrupt.
  HOLDS = 'require "json"; $list = Array.new(20_000) { |i| { "a" => i, "b" => "x#{i}" } }; ' \
          '$holds = Thread.new { loop { JSON.generate($list) } }.tap { |thread| thread.name = "holds" }; '.freeze

  test "who waits for the GVL is told, and who has it meanwhile" do
    target = start("profiled")
    target.run("go; $waits = Thread.new { Work.new.busy }.tap { |thread| thread.name = 'waits' }; 1")
    # It, too, has to wait for the GVL until it sleeps.
    target.run("sleep 0.01 until $threads[1].status == 'sleep'; 1")
    found = objects(target, "--gvl")
    computes, waits = named(found, "computes"), named(found, "waits")
    pair = found.fetch("gvl").find { |one| one.values_at("thread", "held_by") == [waits, computes].map { |one| one["thread"] } }
    assert_operator pair["waited"], :>, 0.1
    [computes, waits].each do |thread|
      assert_operator thread["gvl_waited"], :>, 0.1
      assert_operator thread["gvl_waited"], :<, 1.2 * thread["wall"]
    end
    assert_operator named(found, "sleeps")["gvl_waited"], :<, 0.2
    text = profile(target, "--gvl").stdout
    assert_match(/^ +WAITED +TOTAL +HELD  METHOD\n(?: .*\n)*? .*Work#(add|busy)/, text)
    assert_match(/^ +HELD +TOTAL +WAITED  METHOD\n(?: .*\n)*? .*Work#(add|busy)/, text)
    assert_match(/^ +\d+\.\d{3}s  waits for computes$/, text)
    by_events = Gem::Version.new(target.run("RUBY_VERSION").undump) >= Gem::Version.new("3.2")
    assert_equal by_events, found["process"][0]["gvl_by_events"]
    assert_equal by_events, text !~ /by samples, as Ruby before 3.2/
    file = "#{directory}/profile"
    assert_exit 0, profile(target, "--gvl", "-o", file)
    [[], ["--held"], ["--wall"]].each do |options|
      assert_match(/Work#busy(;.*)? \d+$/, rbprobe("export", file, "--to", "collapsed", *options).stdout)
    end
  end

  # Samples are late there: waking a thread that sleeps does not bring them, and it would wait as well.
  test "a thread that sleeps waits for no GVL, whoever has it, also in a timeline beside" do
    target = start("profiled")
    target.run("#{HOLDS} 1")
    target.run_in_background("sleep")
    found = objects(target, "--gvl", "--duration", "2")
    main = found["thread"].find { |thread| thread["main"] }
    assert_operator main["gvl_waited"], :<, 0.1 * main["wall"], found["gvl"].inspect
    file = "#{directory}/calls.rec"
    recorder = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", file, "Work#busy").wait_until_armed
    profile(target, "--duration", "2")
    assert_exit 0, recorder.stop
    threads = rbprobe("report", "--timeline", "--format", "json", file).stdout.lines.map { |line| JSON.parse(line) }
    main = threads.find { |thread| thread["thread"] == target.pid } or flunk threads.inspect
    # 3.2 does not say in what a thread does without the GVL.
    assert_operator main["waiting_ns"], :<, 0.1 * main.values_at("sleeping_ns", "blocked_ns").sum, threads.inspect
  end

  test "one that comes out of a sleep meanwhile is seen to wait, and for whom" do
    target = start("profiled")
    target.run("#{HOLDS} $comes = Thread.new { loop { sleep 0.01 } }.tap { |thread| thread.name = 'comes' }; 1")
    found = objects(target, "--gvl", "--duration", "2")
    comes, holds = named(found, "comes"), named(found, "holds")
    assert_operator comes["gvl_waited"], :>, 0.3 * comes["wall"], found["gvl"].inspect
    pair = found["gvl"].find { |one| one.values_at("thread", "held_by") == [comes, holds].map { |one| one["thread"] } }
    assert_operator pair["waited"], :>, 0.7 * comes["gvl_waited"], found["gvl"].inspect
  end
end
