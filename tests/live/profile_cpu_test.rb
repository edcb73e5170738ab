# `rbprobe profile --cpu` beside what a program measures itself. CPU clocks do not depend on how busy the machine is.

require_relative "helper"

class ProfileCpuTest < LiveTest
  PARTS = %w[work more wait].freeze
  RATE = 1000

  # What each thread says, and what the profile says, by part.
  def told_and_true(target, seconds)
    tracer = launch("profile", "-p", target.pid.to_s, "--cpu", "--rate", RATE.to_s, "--duration", "600", "--format", "json", "-q")
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    before = truth(target)
    wait_until("each thread has worked enough", 60 * PATIENCE) do
      truth(target).all? { |name, spent| PARTS.sum { |part| spent[part] - before[name][part] } > seconds * 1e9 }
    end
    after = truth(target)
    result = tracer.stop
    assert_exit 0, result
    found = result.stdout.lines.map { |line| JSON.parse(line) }.group_by { |object| object["type"] }
    after.to_h do |name, spent|
      [name, [told(found, name), PARTS.to_h { |part| [part, (spent[part] - before[name][part]) / 1e9] }]]
    end
  end

  def truth(target)
    JSON.parse(target.run("truth").undump)
  end

  def told(found, name)
    number = found["thread"].find { |thread| thread["name"] == name }.fetch("thread")
    stacks = found["stack"].select { |stack| stack["thread"] == number }
    PARTS.to_h do |part|
      of_part = stacks.select { |stack| stack["frames"].any? { |frame| frame["label"] == "Alternating##{part}" } }
      [part, of_part.sum { |stack| stack["cpu"] }]
    end
  end

  # Three points, and what chance may do with so many samples.
  def assert_parts(name, told, real)
    told_sum, real_sum = told.values.sum, real.values.sum
    assert_operator told_sum, :>, 0, name
    PARTS.each do |part|
      share = real[part] / real_sum
      chance = 3 * Math.sqrt(share * (1 - share) / (real_sum * RATE / 2))
      assert_in_delta share, told[part] / told_sum, 0.03 + chance, "#{part} of #{name}: #{told} and in truth #{real}"
    end
  end

  test "a thread that waits for two milliseconds at a time has its CPU time where it works" do
    target = start("profiled_cpu")
    target.run("one(0.002)")
    told_and_true(target, 1.5).each { |name, (told, real)| assert_parts(name, told, real) }
  end

  test "so do threads that sleep, pop, select, lock and wait for the GVL" do
    target = start("profiled_cpu")
    target.run("many(0.008)")
    told_and_true(target, 0.5).each { |name, (told, real)| assert_parts(name, told, real) }
  end
end
