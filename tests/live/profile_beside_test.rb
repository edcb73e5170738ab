# `rbprobe profile` beside other work of rbprobe's in the same process: a profile shows the application, and nothing of that.

require_relative "helper"

class ProfileBesideTest < LiveTest
  # Of our jobs: the scratch module's methods, what calls Ruby's own methods, and what holds interrupts back.
  OWN = /#<Module|\(rbprobe\)|handle_interrupt|bind_call|InstructionSequence|Thread\.list|singleton_class\?|method_defined\?/

  # Two threads that compute, so that one of them gets the GVL while the other does our work; and many methods to be armed.
  def computing
    start("profiled").tap do |target|
      target.run('300.times { |k| Object.const_set("Many#{k}", Class.new { 30.times { |i| class_eval "def m#{i}; end" } }) }; 1')
      target.run("go; $more = Thread.new { Work.new.busy }.tap { |thread| thread.name = 'more' }; 1")
    end
  end

  # Several commands whose jobs take a while.
  def work_in(target)
    pid = target.pid.to_s
    2.times do
      trace(target, "Many*#m1*", "--timeout", "60").stop
      assert_exit 0, rbprobe("methods", "-p", pid, "Many*#")
      assert_exit 0, rbprobe("backtrace", "-p", pid)
    end
    4.times { assert_equal "45\n", rbprobe("eval", "-p", pid, "sum = 0; 10.times { |i| sum += i }; sum").stdout }
  end

  def labels_beside(target, *arguments)
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "120", "--format", "json", *arguments)
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    work_in(target)
    result = tracer.stop
    assert_exit 0, result
    refute_match(/a profile that is none/, result.stderr)
    objects = result.stdout.lines.map { |line| JSON.parse(line) }
    objects.select { |object| object["type"] == "stack" }.flat_map { |stack| stack["frames"].map { |frame| frame["label"] } }
           .uniq.tap { |labels| assert(labels.any? { |label| label.include?("Work#") }, labels.inspect) }
  end

  test "a profile has no frames of work that rbprobe does meanwhile" do
    assert_empty labels_beside(computing, "--rate", "1000").grep(OWN)
  end

  test "nor has one of who waits for the GVL" do
    assert_empty labels_beside(computing, "--rate", "1000", "--gvl").grep(OWN)
  end

  test "nor has one with native frames" do
    target = computing
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "120", "--format", "json", "--native", "--rate", "200")
    wait_until("it samples") { Processes.threads_of(tracer.pid) > 1 }
    2.times { trace(target, "Many*#m1*", "--timeout", "60").tap { sleep 0.5 }.stop } # the GC marks what is armed
    result = tracer.stop
    assert_exit 0, result
    stacks = result.stdout.lines.map { |line| JSON.parse(line) }.select { |object| object["type"] == "stack" }
    labels = stacks.map { |stack| stack["frames"].map { |frame| frame["label"] } }
    assert(labels.flatten.any? { |label| label.include?("Work#") }, labels.inspect)
    assert_empty labels.flatten.grep(/rbprobe/)
    # Samples whose native frames cannot be told have Ruby's alone, whosever they are, and are counted.
    with_natives = labels.select { |one| one.any? { |label| label.match?(/ \((lib|ld-)/) } }
    assert_empty with_natives.flatten.grep(/handle_interrupt|#<Module/)
  end

  test "nor has one of objects that are made" do
    target = computing
    target.run("$makes = Thread.new { Work.new.make(10) while $going }; 1")
    assert_empty labels_beside(target, "--alloc").grep(OWN)
  end

  # What the thread that looks at threads takes is no sign that the application does anything.
  test "a process that does nothing is left alone, also beside a timeline of one that does not tell what it does" do
    skip "this Ruby tells what its threads do" unless Processes.target_ruby?("< 3.2")
    target = start("profiled")
    recorder = launch("record", "-v", "-p", target.pid.to_s, "--timeline", "-o", "#{directory}/calls.rec", "Work#")
    recorder.wait_until_armed
    result = rbprobe("profile", "-p", target.pid.to_s, "--duration", "4", "--format", "json")
    assert_exit 0, result
    assert_exit 0, recorder.stop
    process = result.stdout.lines.map { |line| JSON.parse(line) }.find { |object| object["type"] == "process" }
    assert_operator process["woken"], :<, 30, process.inspect
  end

  # Whatever else is sampled of threads of ours: they come, and have a name a moment later.
  test "threads of rbprobe's are none of the application's" do
    target = computing
    tracer = launch("profile", "-p", target.pid.to_s, "--duration", "120", "--format", "json", "--rate", "1000")
    wait_until("it samples") { thread_names_of(target.pid).include?("rbprobe-profile") }
    20.times { assert_equal "1\n", rbprobe("eval", "-p", target.pid.to_s, "1").stdout }
    result = tracer.stop
    assert_exit 0, result
    refute_match(/a profile that is none/, result.stderr)
    threads = result.stdout.lines.map { |line| JSON.parse(line) }.select { |object| object["type"] == "thread" }
    assert_equal 4, threads.size, threads.inspect
  end
end
