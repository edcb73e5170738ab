# --ps, --wait, --all and --children: processes that are named by what they run, and not by PID.

require_relative "helper"
require "pty"

class ChooseProcessesTest < LiveTest
  MASTER = <<~'RUBY'.freeze
    $0 = "master-#{$$}"
    Array.new(2) { |i| fork { $0 = "worker-#{Process.ppid} #{i}"; loop { "x".upcase; sleep 0.005 } } }
  RUBY

  def with_master
    target = start("console")
    children = target.run(MASTER).scan(/\d+/).map(&:to_i).each { |pid| target.adopt(pid) }
    children.each_with_index do |pid, i|
      wait_until("the worker has its name") { File.read("/proc/#{pid}/cmdline").start_with?("worker-#{target.pid} #{i}") }
    end
    yield target.pid, children
  ensure
    children&.each { |pid| Process.kill(:TERM, pid) }
    children&.each { |pid| wait_until("worker #{pid} has ended") { [nil, "Z"].include?(status_of(pid, "State")&.slice(0)) } }
  end

  test "--ps takes the process with that in its command line" do
    with_master do |master, children|
      assert_equal ["#{children[1]}\n", 0], rbprobe("eval", "--ps", "worker-#{master} 1", "$$").then { |r| [r.stdout, r.status] }
      assert_equal "#{children[0]}\n", rbprobe("eval", "--ps", "work?r-#{master}*0", "$$").stdout
      assert_includes rbprobe("bt", "--ps", "master-#{master}").stdout, "process #{master},"
    end
  end

  test "several are refused where nobody can be asked, and taken with --all" do
    with_master do |master, children|
      assert_refused 2, /\Arbprobe: 2 Ruby processes match "worker-#{master}", such as #{children.join(" and ")}; say which /,
                     "trace", "--ps", "worker-#{master}", "String#upcase"
      result = rbprobe("stat", "--ps", "worker-#{master}", "--all", "--duration", "0.2", "String#upcase")
      assert_exit 0, result
      children.each { |pid| assert_match(/^process #{pid}, .* [1-9]\d* calls? of 1 method/, result.stdout) }
    end
  end

  # As "puma" is in the command lines of Puma's master and of its workers.
  test "with --children a master is meant, and not the workers that match as well" do
    with_master do |master, children|
      assert_refused 2, /\Arbprobe: 3 Ruby processes match "er-#{master}", such as /, "eval", "--ps", "er-#{master}", "$$"
      [[], ["--all"]].each do |all|
        result = rbprobe("eval", "--ps", "er-#{master}", *all, "--children", "$$")
        assert_exit 0, result
        assert_equal children.map { |pid| "process #{pid}:\n#{pid}\n" }.join("\n"), result.stdout
        assert_equal "", result.stderr
      end
    end
  end

  test "a terminal is asked which one" do
    with_master do |master, children|
      PTY.spawn(Processes::RBPROBE, "eval", "--ps", "worker-#{master}", "$$") do |output, input, pid|
        said = +""
        said << output.readpartial(1000) until said.include?("Which one? [1-2]")
        assert_match(/^ *2\) +#{children[1]} +worker-#{master} 1\r?$/, said)
        input.puts "2"
        rest = begin output.read rescue Errno::EIO; "" end
        Process.wait(pid)
        assert_includes said + rest, children[1].to_s
      end
    end
  end

  # What a terminal shows when these answers have been given, one after each question, and the exit status.
  def answering(answers, *arguments)
    PTY.spawn(Processes::RBPROBE, *arguments) do |output, input, pid|
      said = +""
      answers.each.with_index(1) do |answer, asked|
        said << output.readpartial(1000) until said.scan("Which one?").size == asked
        input.write(answer)
      end
      begin
        loop { said << output.readpartial(1000) }
      rescue Errno::EIO
        return [said, Process.wait2(pid).last]
      end
    end
  end

  test "a wrong answer is no answer, an empty one or Ctrl-D takes none, and Ctrl-C ends it" do
    with_master do |master, children|
      wrong = ["7\n", "0\n", "-1\n", "2x\n", "#{"2" * 100}\n"]
      said, status = answering(wrong + ["2\n"], "eval", "--ps", "worker-#{master}", "$$")
      assert_equal 0, status.exitstatus, said
      assert_match(/^#{children[1]}\r?$/, said)
      ["\n", "\x04"].each do |none|
        said, status = answering([none], "eval", "--ps", "worker-#{master}", "$$")
        assert_equal 2, status.exitstatus, said
        assert_match(/^rbprobe: no process was chosen\r?$/, said)
      end
      assert_equal Signal.list["INT"], answering(["\x03"], "eval", "--ps", "worker-#{master}", "$$").last.termsig
    end
  end

  test "a number is code where the process is named otherwise" do
    with_master do |master, _|
      assert_equal "42\n", rbprobe("eval", "--ps", "master-#{master}", "42").stdout
    end
  end

  test "--children takes the workers in the place of the master" do
    with_master do |master, children|
      result = rbprobe("trace", "-p", master.to_s, "--children", "--count", "40", "String#upcase")
      assert_exit 0, result
      children.each { |pid| assert_match(/^#{pid}: String#upcase/, result.stdout) }
      assert_refused 3, /has no child processes that are Ruby\n\z/, "bt", "-p", children[0].to_s, "--children"
      assert_refused 3, /\Arbprobe: there is no process 4194304\n\z/, "stat", "-p", "4194304", "--children", "String#upcase"
    end
  end

  test "--wait takes the next one that starts" do
    only_where_loading_is_possible
    name = "later-#{$$}-#{rand(1 << 30)}"
    first = start("console", name)
    tracer = launch("eval", "--wait", name, "$$")
    wait_until("it waits") { tracer.stderr.include?("waiting for") }
    second = start("console", name, load: false)
    assert_exit 0, tracer.wait
    assert_equal "#{second.pid}\n", tracer.stdout
    refute_equal first.pid, second.pid
  end

  test "what contradicts itself, or finds nothing, is one line" do
    assert_refused 3, /\Arbprobe: no Ruby process has "nowhere-to-be" in its command line; /, "bt", "--ps", "nowhere-to-be"
    assert_refused 2, /\Arbprobe: --ps is for processes that run, --wait for one that starts later; /,
                   "bt", "--ps", "a", "--wait", "b"
    assert_refused 2, /\Arbprobe: --all means all that match --ps PATTERN\n\z/, "bt", "--all", "-p", "1"
    assert_refused 2, /\Arbprobe: --wait takes a part of a command line, not seconds; /, "bt", "--wait", "5"
    assert_refused 2, /\Arbprobe: --ps and --wait take a part of a command line/, "bt", "--ps", ""
  end
end
