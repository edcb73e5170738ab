# rbprobe backtrace where the VM runs no job: C code has the GVL and does not come back. The process goes on as if nothing
# had been.

require_relative "helper"

class StuckTest < LiveTest
  # For attaching, before it is looked at from outside. The handler must have had a processor by then.
  SECONDS = [Processes::PATIENCE, 1].max.to_s

  # Not every Ruby lets the name of a method be looked up in a signal handler.
  C_METHOD = /(?:hold|pow|\(method written in C\))/.freeze

  # Where the thread that has the GVL is, innermost. Ruby 2.7 tells of no methods written in C.
  def own
    Processes.target_ruby?(">= 3.0") ? "   in #{C_METHOD}\n" : ""
  end

  # Who has the GVL can be told from outside while no other thread runs. One that waits for it wakes ten times a second, and
  # takes a moment for that on a busy machine: then somebody looks again.
  def holder_in
    result = nil
    wait_until("one thread alone is seen running") { (result = yield).stdout.match?(/which has the GVL|"running":true/) }
    result
  end

  def backtrace(target, *options)
    rbprobe("bt", "-p", target.pid.to_s, "--timeout", SECONDS, *options).tap do |result|
      assert_exit 0, result
      # The child that looks at native frames has bounds that a sanitizer does not fit into.
      stderr = Processes::TARGET_ENV.empty? ? result.stderr : result.stderr.sub(/^[^\n]*: some frames are missing[^\n]*\n/, "")
      assert_match(/\A[^\n]*did not come to a (?:safe point|point where it could start) within [\d.]+ s[^\n]*\n\z/, stderr)
    end
  end

  test "a C extension that does not give the GVL back, and then does" do
    path = compile_extension("holder")
    target = start("threads")
    target.run("waiting_threads")
    target.run("require '#{path}/holder.so'")
    target.run_in_background("Holder.hold('#{path}/release', false)")
    wait_until_it_computes(target.pid)
    result = holder_in { backtrace(target) }
    assert_match(/^the VM has not reached a safe point for [\d.]+ s; it is inside hold in holder\.so/, result.stdout)
    assert_match(/^thread #{target.pid}, which has the GVL\n#{own}   console:1 in .*\n(   .*\n)*   .*console\.rb:\d+ in console$/,
                 result.stdout)
    assert_match(/^thread \d+ "popper", without the GVL\n(   .*\n)*   .*threads\.rb:\d+ in .*waiting_threads$/, result.stdout)
    assert_match(/^native thread #{target.pid} ".*", running, .*\n(   native: .*\n)*   native: hold_the_gvl in holder\.so\n/,
                 result.stdout)
    assert_operator result.stdout.scan(/^native thread /).size, :>, 9
    object = holder_in { backtrace(target, "--format", "json") }.objects.find { |found| found["type"] == "stuck" }
    assert_match(/\Ahold in holder\.so/, object["inside"])
    assert_match(C_METHOD, object["frames"].first["label"]) if Processes.target_ruby?(">= 3.0")
    assert_equal "console", object["frames"].find { |frame| frame["path"] }["path"]
    File.write("#{path}/release", "")
    assert_equal "1", target.answer
    assert_match(/"popper", sleeping in /, rbprobe("bt", "-p", target.pid.to_s).stdout)
  end

  test "one that sleeps with the GVL" do
    path = compile_extension("holder")
    target = start("threads")
    target.run("require '#{path}/holder.so'")
    target.run_in_background("Holder.hold('#{path}/release', true)")
    wait_until("it holds the GVL") do
      rbprobe("bt", "-p", target.pid.to_s, "--timeout", SECONDS).stdout.include?("hold_the_gvl in holder.so")
    end
    result = rbprobe("bt", "-p", target.pid.to_s, "--timeout", SECONDS)
    assert_match(/^native thread #{target.pid} .*\n(   native: .*\n)*   native: hold_the_gvl in holder\.so\n/, result.stdout)
    File.write("#{path}/release", "")
    assert_equal "1", target.answer
  end

  def backtrace_of_spin(leaf:)
    path = compile_extension("holder")
    target = start("threads")
    target.run("require '#{path}/holder.so'")
    target.run_in_background("Holder.spin(#{leaf})")
    wait_until_it_computes(target.pid)
    [target, holder_in { backtrace(target) }]
  end

  test "a function without unwind information: no frame is invented" do
    target, result = backtrace_of_spin(leaf: false)
    unknown = /native: \(frames that cannot be told\)/
    assert_match(/^   native: spin_without_a_frame in holder\.so\n   #{unknown}\n   native: spin in holder\.so\n/, result.stdout)
    refute_match(/6ee2a59a7f27722f/, result.stdout)
    abandon(target)
  end

  test "a function without unwind information that calls none: its callers are all there" do
    target, result = backtrace_of_spin(leaf: true)
    unknown = /(?:   native: \(frames that cannot be told\)\n)?/
    assert_match(/^   native: spin_as_a_leaf in holder\.so\n#{unknown}   native: spin in holder\.so\n/, result.stdout)
    # musl has no unwind tables.
    begins = Processes.musl? ? /.* in (?:libc\.so|ld-musl-\S+)\n   native: \.\.\.$/ : /_start in ruby/
    assert_match(/^   native: spin in holder\.so\n(   native: (?!\(frames).*\n)*   native: #{begins}/, result.stdout)
    abandon(target)
  end

  test "plain Ruby that runs for minutes without looking for interrupts" do
    target = start("threads")
    target.run_in_background("3.pow(7**60000, 11**60000)")
    wait_until_it_computes(target.pid)
    # libgmp's assembly is where it mostly is; not all of that can be unwound.
    unwound = /^   native: .* in (?:lib)?ruby/
    result = nil
    5.times { break if unwound.match?((result = holder_in { backtrace(target) }).stdout) }
    assert_match(/^the VM has not reached a safe point for [\d.]+ s; it is inside ./, result.stdout)
    assert_match(/^thread #{target.pid}, which has the GVL\n#{own}   console:1 in /, result.stdout)
    assert_match(unwound, result.stdout)
    wait_until_it_computes(target.pid)
    assert target.alive?
    assert_equal "", target.stderr
    abandon(target)
  end

  test "a process that is stuck and never loaded the extension" do
    only_where_loading_is_possible
    target = start("threads", load: false)
    target.run("waiting_threads")
    target.run_in_background("def stuck(depth)\n depth == 0 ? 3.pow(7**60000, 11**60000) : stuck(depth - 1)\nend\nstuck(2)")
    wait_until_it_computes(target.pid)
    result = holder_in { backtrace(target) }
    assert_match(/^the VM has not reached a safe point for /, result.stdout)
    assert_match(/^thread #{target.pid}, which has the GVL\n#{own}(   console:2 in .*stuck\n){3}   console:4 in /, result.stdout)
    assert_match(/^thread \d+ "popper", without the GVL\n(   .*\n)*   .*threads\.rb:\d+ in .*waiting_threads$/, result.stdout)
    assert_match(/^native thread #{target.pid} .*, running/, result.stdout)
    objects = holder_in { backtrace(target, "--format", "json") }.objects
    threads = objects.select { |object| object["type"] == "stuck_thread" }
    # The process does not stand still for longer on a slow machine.
    more = objects.find { |object| object["type"] == "stuck" }.fetch("more_threads")
    more ? assert_includes(1..8, threads.size) : assert_equal(9, threads.size)
    assert_equal threads.size, threads.map { |thread| thread["native_id"] }.compact.uniq.size
    wait_until_it_computes(target.pid)
    assert_equal "", target.stderr
    abandon(target)
  end

  test "another thread than the main one, in a process that never loaded the extension" do
    only_where_loading_is_possible
    target = start("threads", load: false)
    target.run_in_background("Thread.new { 3.pow(7**60000, 11**60000) }.join")
    wait_until_it_computes(target.pid)
    result = holder_in { backtrace(target) }
    assert_match(/^thread (?!#{target.pid})\d+, which has the GVL\n#{own}   console:1 in block in /, result.stdout)
    assert_match(/^thread #{target.pid} ".*", without the GVL\n(   .*\n)*   .*console\.rb:\d+ in console$/, result.stdout)
    abandon(target)
  end

  test "it goes on as if nothing had been, and the extension starts when it can" do
    only_where_loading_is_possible
    path = compile_extension("holder")
    target = start("threads", load: false)
    target.run("require '#{path}/holder.so'")
    target.run_in_background("Holder.hold('#{path}/release', false)")
    wait_until_it_computes(target.pid)
    assert_match(/^thread #{target.pid}, which has the GVL$/, holder_in { backtrace(target) }.stdout)
    File.write("#{path}/release", "")
    assert_equal "1", target.answer
    assert_attachable(target)
    wait_until("the queue is gone") { Leftovers.queues_of([target]).empty? }
  end

  test "native frames beside Ruby's" do
    target = start("threads")
    target.run("waiting_threads")
    result = rbprobe("bt", "-p", target.pid.to_s, "--full")
    assert_exit 0, result
    assert_match(/^thread .*main, .*\n(   .*\n)*   .* in <main>\n   native: .* in libc[-.]/, result.stdout)
    assert_equal "3", target.run("1 + 2")
    native = rbprobe("bt", "-p", target.pid.to_s, "--full", "--format", "json").objects.select do |object|
      object["type"] == "native"
    end
    # A thread of ours may just be ending: it is told of, and may have no frames any more.
    there = Dir.children("/proc/#{target.pid}/task").map(&:to_i)
    assert_empty there - native.map { |object| object["native_id"] }
    native.select! { |object| there.include?(object["native_id"]) }
    assert(native.all? { |object| object["frames"].any? { |frame| frame["module"] } }, native.inspect)
  end

  # The client has to open the place where the process sees its files and itself by other numbers.
  test "a process in a container" do
    only_root
    target = start("threads", wrapper: %w[unshare -m -p -i -f --mount-proc])
    pids = Dir.children("/proc").grep(/\A\d+\z/)
    inside = target.adopt(pids.find { |pid| Processes.status_of(pid, "PPid") == target.pid.to_s })
    target.run("waiting_threads")
    result = rbprobe("bt", "-p", inside.to_s, "--full")
    assert_exit 0, result
    # It calls its main thread 1.
    assert_match(/^thread (1 )?main, .*\n(   .*\n)*   .* in <main>\n/, result.stdout)
    assert_match(/^   native: .* in libc[-.]/, result.stdout)
    target.run_in_background("3.pow(7**60000, 11**60000)")
    wait_until_it_computes(inside)
    result = holder_in { rbprobe("bt", "-p", inside.to_s, "--timeout", SECONDS) }
    assert_exit 0, result
    assert_match(/^thread 1, which has the GVL\n#{own}/, result.stdout)
    assert_match(/^native thread 1 .*, running/, result.stdout)
  end

  test "a process that a debugger holds" do
    target = start("threads")
    tracer = trace_by_strace(target)
    result = rbprobe("bt", "-p", target.pid.to_s, "--full")
    assert_exit 0, result
    assert_match(/main, (sleeping )?in .*gets/, result.stdout)
    assert_match(/no native frames: process #{target.pid} is being traced by strace \(process #{tracer}\)/, result.stderr)
  end
end
