# RBPROBE_DEBUG: lines of both sides, by domain; and none where none were asked for.

require_relative "helper"

class DebugTest < LiveTest
  def debug(domains, *arguments)
    rbprobe(*arguments, env: { "RBPROBE_DEBUG" => domains })
  end

  # The texts of a domain's lines, without what begins all of them.
  def lines(result, domain, pid, from: "")
    result.stderr.scan(/^rbprobe: debug #{domain}: #{from}process #{pid}: (.*)$/).flatten
  end

  def lines_of_process(result, domain, pid)
    lines(result, domain, pid, from: "from ")
  end

  def domains_seen(result)
    result.stderr.scan(/^rbprobe: debug (\w+):/).flatten.uniq.sort
  end

  test "a trace: why each method has its engine, what was left out, what came later, how the session ended" do
    target = start("shop")
    target.run("class Shop; attr_reader :till; end; nil")
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "Shop#", "String#upcase",
                    env: { "RBPROBE_DEBUG" => "select,engine,session,queue" }).wait_until_armed
    target.run("class Shop; def added_later; end; end; nil")
    result = tracer.stop
    engines = lines_of_process(result, "engine", target.pid)
    assert_includes engines, "Shop#price: engine target of --engine auto"
    assert_includes engines, "String#upcase: engine patch of --engine auto; others do not: not written in Ruby"
    # On 2.7 calls of attributes give no events.
    assert_match(/\AShop#till: left out: (it is an attribute that no selector names exactly|no engine can observe it)/,
                 engines.grep(/Shop#till: left/).join)
    assert_match(/\AShop#price: armed by engine target, ref \d+, 0 expressions\z/, engines.grep(/Shop#price: armed/).join)
    selected = lines_of_process(result, "select", target.pid)
    assert_includes selected, "selector 1, String#upcase: methods armed: 1"
    assert_includes selected, "Shop#added_later: added now; selector 0 may mean it"
    session = lines_of_process(result, "session", target.pid)
    assert_match(/\Aattached in slot 0/, session.first)
    assert_match(/\Aover: the writer sends what is left/, session.last)
    assert_includes lines_of_process(result, "queue", target.pid), "removing the queue, as no session is left"
    assert_match(/\Aits queue is \d+\z/, lines(result, "queue", target.pid).grep(/its queue/).join)
    assert_equal %w[engine queue select session], domains_seen(result)
  end

  test "a load: the thread, the stop, dlopen, the start" do
    only_where_loading_is_possible
    target = start("console", load: false)
    result = debug("load", "load", "-p", target.pid.to_s)
    assert_exit 0, result
    steps = lines(result, "load", target.pid)
    assert_match(/\Atracing thread \d+ \(.*\): done\z/, steps.first)
    assert_equal ["rbprobe_start returned 0"], steps.grep(/rbprobe_start/)
    assert_match(/\Astopped thread \d+ in \w+, restartable, where dlopen may be called\z/, steps.grep(/\Astopped/).last)
    assert_match(/\Adlopen of the file: handle 0x\h+\z/, steps.grep(/dlopen of/).join)
    assert_match(/\Alet go of it after .* ms, result 0/, steps.last)
    assert_equal %w[load], domains_seen(result)
  end

  test "a load that fails: what dlopen said, and that the process was let go of" do
    only_where_loading_is_possible
    target = start("console", load: false, env: { "LD_BIND_NOW" => "1" })
    target.run("Process.setrlimit(:AS, 1); nil")
    result = debug("load", "load", "-p", target.pid.to_s)
    assert_exit 3, result
    assert_match(/\Adlopen of the file: handle 0x0: /, lines(result, "load", target.pid).grep(/dlopen of/).join)
    assert_match(/result -\d+/, lines(result, "load", target.pid).last)
  end

  test "an evaluation that takes too long: how it was cancelled" do
    target = start("console")
    result = debug("eval,request", "eval", "-p", target.pid.to_s, "--timeout", "2", "sleep 100")
    assert_exit 1, result
    evaluation = lines_of_process(result, "eval", target.pid)
    assert_includes evaluation, "evaluation 1: its thread has started"
    assert_includes evaluation, "evaluation 1: cancelling, attempt 1: an exception is raised in its thread"
    assert_includes lines_of_process(result, "request", target.pid), "command 2: cancelling eval: its time is over"
  end

  test "an attach: what the process is, the rings, the queue, the greeting" do
    target = start("console")
    result = debug("attach,queue", "eval", "-p", target.pid.to_s, "1 + 1")
    attached = lines(result, "attach", target.pid)
    assert_match(/\ARuby ABI \d+\.\d+\.\d+\S*, user \d+, state \w, .*extension mapped, bell thread \d+/, attached.first)
    assert_includes attached, "ringing: SIGURG to its bell thread"
    assert_match(/\Ait greets: Ruby /, attached.grep(/greets/).join)
    assert_match(/\Acommand 2 is in queue \d+, \d+ bytes\z/, lines(result, "queue", target.pid).grep(/command 2/).join)
  end

  test "without it there are none, and of two clients only the one that asked gets them" do
    target = start("shop")
    curious = launch("trace", "-v", "-p", target.pid.to_s, "Shop#price", env: { "RBPROBE_DEBUG" => "all" }).wait_until_armed
    plain = trace(target, "Shop#price").stop
    refute_match(/debug/, plain.stderr)
    refute_match(/plain|slot 1/, lines_of_process(curious.stop, "session", target.pid).join("\n"))
  end

  test "help lists the domains, an unknown one is wrong usage" do
    help = debug("help", "ps")
    assert_exit 0, help
    assert_match(/^  load +\S.*\n.*^  eval +\S/m, help.stdout)
    assert_equal "", help.stderr
    assert_refused 2, /\Arbprobe: RBPROBE_DEBUG: there is no domain "lod"; RBPROBE_DEBUG=help lists them\n\z/, "ps",
                   env: { "RBPROBE_DEBUG" => "load,lod" }
    assert_exit 0, debug("", "--version")
  end
end
