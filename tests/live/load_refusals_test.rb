# What cannot be loaded into, or may not be: each case is refused with its cause and its remedy, `rbprobe ps` says the same
# in two words, and the process goes on as if nothing had been.

require_relative "helper"

class LoadRefusalsTest < LiveTest
  SECCOMP = [RbConfig.ruby, File.expand_path("seccomp.rb", __dir__)].freeze

  def setup
    super
    only_where_loading_is_possible
  end

  def load(target, *options, **how)
    rbprobe("load", "-p", target.pid.to_s, *options, **how)
  end

  def refuses_to_load(message, target, **how)
    assert_refused 3, message, "load", "-p", target.pid.to_s, **how
    refute_includes File.read("/proc/#{target.pid}/maps"), "rbprobe.so"
    assert_equal "3", target.run("1 + 2")
  end

  # The ATTACHABLE column.
  def shown_as(pid, **how)
    rbprobe("ps", **how).stdout[/^ *#{pid} +\S+ +\S+ +\S+ +(.*?) +\d{4}-/, 1]
  end

  # --- Permission

  test "root without CAP_SYS_PTRACE" do
    only_root_with_a_nobody
    target = start("console", load: false)
    refuses_to_load(/this root has no CAP_SYS_PTRACE.*--cap-add SYS_PTRACE/, target,
                    command: ["setpriv", "--bounding-set=-sys_ptrace"])
  end

  test "no_new_privs: sudo is no remedy" do
    only_root_with_a_nobody
    target = start("console", load: false)
    refuses_to_load(/belongs to user root \(0\); run rbprobe as that user or as root \(not by sudo from this shell/, target,
                    command: [*NOBODY, "--no-new-privs"])
  end

  test "a process that is one's own but has dropped its privileges" do
    only_root_with_a_nobody
    target = start("console", load: false)
    target.run("Process::Sys.setregid(65534, 65534); Process::Sys.setreuid(65534, 65534)")
    refuses_to_load(/process #{target.pid} is yours but may not be traced.*as root/, target, command: NOBODY)
    assert_exit 0, load(target)
  end

  test "a debugger is named, and rbprobe ps shows that the process has one" do
    target = start("console", load: false)
    strace = trace_by_strace(target)
    refuses_to_load(/traced by strace \(process #{strace}\) already/, target)
    assert_equal "no: being traced", shown_as(target.pid)
  end

  # --- Seccomp: of the process

  def confined(action, calls, **options)
    start("console", load: false, wrapper: [*SECCOMP, action, calls, "--"], **options)
  end

  test "a filter that would kill for what rbprobe does" do
    skip "needs root, to read filters" unless Process.uid.zero?
    { "memfd_create" => "memfd_create", "getpgrp,msgget" => "msgget" }.each do |calls, named|
      target = confined("kill", calls)
      refuses_to_load(/process #{target.pid} runs under a seccomp filter that would kill it for #{named}/, target)
    end
  end

  test "a filter that forbids what the extension needs" do
    skip "needs root, to read filters" unless Process.uid.zero?
    target = confined("refuse", "msgget")
    refuses_to_load(/seccomp filter that forbids it msgget, which the extension needs/, target)
  end

  test "a filter that has nothing against it" do
    skip "needs root, to read filters" unless Process.uid.zero?
    assert_attachable(confined("kill", "getpgrp"))
  end

  test "a filter that forbids files in memory: the file's path does" do
    skip "needs root, to read filters" unless Process.uid.zero?
    skip "the file is not visible in a chroot" if Processes::RUBY.first == "chroot"
    target = confined("refuse", "memfd_create")
    tracer = trace(target, "Integer#+")
    tracer.stop
    refute_includes tracer.stderr, "from memory"
    assert_includes tracer.stderr, "loaded the extension"
  end

  test "a filter that forbids files in memory, where the file is not visible" do
    skip "needs root, to read filters" unless Process.uid.zero?
    skip "hiding a file from a chroot is another matter" if Processes::RUBY.first == "chroot"
    hidden = ["unshare", "-m", "sh", "-c", "mount -t tmpfs none '#{BUILD}/tracee'; exec \"$@\"", "sh"]
    target = start("console", load: false, wrapper: [*hidden, *SECCOMP, "refuse", "memfd_create", "--"])
    refuses_to_load(/does not see that file, and a seccomp filter forbids it a file in memory; install rbprobe/, target)
  end

  test "filters that may not be read: refused, but where rbprobe runs under as many" do
    only_root_with_a_nobody
    target = start("console", load: false, user: 65_534, wrapper: [*SECCOMP, "kill", "getpgrp", "--"])
    refuses_to_load(/runs under a seccomp filter that rbprobe may not read.*as root/, target, command: NOBODY)
    refuses_to_load(/forbids it msgget/, target, command: [*NOBODY, *SECCOMP, "refuse", "msgget", "--"])
    refuses_to_load(/would kill it for memfd_create/, target, command: [*NOBODY, *SECCOMP, "kill", "memfd_create", "--"])
    assert_exit 0, load(target, command: [*NOBODY, *SECCOMP, "kill", "getpgrp", "--"])
  end

  # --- Seccomp: of rbprobe

  test "rbprobe itself runs under a filter that has something against ptrace" do
    target = start("console", load: false)
    refuses_to_load(/rbprobe runs under a seccomp filter.*that forbids ptrace/, target,
                    command: [*SECCOMP, "refuse", "ptrace", "--"])
    refuses_to_load(/rbprobe runs under a seccomp filter.*that kills for ptrace/, target,
                    command: [*SECCOMP, "kill", "ptrace", "--"])
  end

  # --- Programs

  # What makes a program a Ruby, for those who look.
  RUBY_IN_A_PROGRAM = <<~C
    #include <dlfcn.h>
    #include <unistd.h>
    const int ruby_api_version[3] = {3, 1, 0};
    const char ruby_version[] = "3.1.2";
    void ruby_init(void) {}
    void ruby_run_node(void) {}
    void rb_eval_string(void) {}
  C

  def compile(name, code, *flags)
    path = "#{@site ||= directory}/#{name}"
    File.write("#{path}.c", code)
    system("gcc", "-o", path, "#{path}.c", *flags, exception: true)
    path
  end

  # Yields the PID of a program that is not a test's own Ruby.
  def running(*command)
    reader, writer = IO.pipe
    pid = spawn(*command, out: writer)
    writer.close
    reader.read(1)
    yield pid
    assert_nil Process.wait(pid, Process::WNOHANG), "it goes on"
  ensure
    Process.kill(:KILL, pid)
    Process.wait(pid)
  end

  test "a program that is linked statically" do
    program = compile("static", "#{RUBY_IN_A_PROGRAM} int main(void) { write(1, \"r\", 1); for (;;) pause(); }", "-static")
    running(program) do |pid|
      assert_refused 3, /process #{pid} is linked statically/, "load", "-p", pid.to_s
      assert_equal "no: static", shown_as(pid)
    end
  end

  test "a program with the C library musl, for which no extension is built" do
    library = compile("ld-musl-x86_64.so.1", "int musl;", "-shared", "-fPIC")
    program = compile("musl",
                      "#{RUBY_IN_A_PROGRAM.sub("{3, 1, 0}", "{3, 0, 0}")} int main(void) { " \
                      "dlopen(\"#{library}\", RTLD_NOW); write(1, \"r\", 1); for (;;) pause(); }", "-rdynamic", "-ldl")
    running(program) do |pid|
      assert_refused 3, /process #{pid} runs Ruby 3\.1\.2 with the C library musl, for which no extension is built.*; run: make/,
                     "load", "-p", pid.to_s
      assert_equal "no: not built for musl", shown_as(pid)
    end
  end

  test "a Ruby for which no extension was built: the command that builds it" do
    program = compile("foreign",
                      "#{RUBY_IN_A_PROGRAM.sub("{3, 1, 0}", "{3, 0, 0}")} int main(void) { write(1, \"r\", 1); " \
                      "for (;;) pause(); }", "-rdynamic")
    running(program) do |pid|
      assert_refused 3, /process #{pid} runs Ruby 3\.1\.2, for which no extension is built in .*; run: make RUBY=/,
                     "load", "-p", pid.to_s
      assert_equal "no: ABI not built", shown_as(pid)
    end
  end

  # --- Moments

  test "a process that is stopped is shown as such" do
    target = start("console", load: false)
    target.signal(:STOP)
    wait_until("it is stopped") { Processes.status_of(target.pid, "State").start_with?("T") }
    assert_refused 3, /is stopped.*kill -CONT #{target.pid}/, "load", "-p", target.pid.to_s
    assert_equal "stopped", shown_as(target.pid)
    target.signal(:CONT)
    assert_equal "3", target.run("1 + 2")
  end

  test "a process that may have no more descriptors is refused with that reason" do
    target = start("console", load: false)
    target.run("Process.setrlimit(:NOFILE, 3); nil")
    assert_refused 3, /could not load .*: Too many open files \(its limit of descriptors is reached\)$/, "load",
                   "-p", target.pid.to_s
    assert_equal "3", target.run("1 + 2")
  end

  test "a process that has been started this moment is waited for" do
    15.times do |i|
      pid = start_beside(*Processes::RUBY, "-e", "sleep")
      sleep i * 0.001
      # Until it is Ruby at all; chroot and setpriv come first.
      wait_until("it is Ruby") { Processes.comm_of(pid).start_with?("ruby") }
      result = rbprobe("eval", "-p", pid.to_s, "--timeout", "10", "1 + 1")
      assert_exit 0, result
      assert_equal "2\n", result.stdout
      end_beside(pid)
    end
  end

  test "a process that is killed at any moment of loading" do
    said = Array.new(40) do |i|
      target = start("console", load: false)
      tracer = launch("load", "-p", target.pid.to_s)
      sleep i * 0.0002
      target.signal(:KILL)
      result = tracer.wait
      assert_includes [0, 3], result.status
      target.wait
      result.stderr
    end
    refute_empty said.grep(/ended|has the PID/)
    said.each { |text| assert_match(/\A(rbprobe: .*\n)?\z/, text) }
  end
end
