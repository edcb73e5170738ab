# Runs a command under a seccomp filter that has something against some system calls:
#
#     ruby seccomp.rb kill|refuse CALL[,CALL...] -- COMMAND...

require "fiddle"

module Seccomp
  CALLS = {
    "x86_64" => { "memfd_create" => 319, "msgget" => 68, "ptrace" => 101, "getpgrp" => 111 },
    "aarch64" => { "memfd_create" => 279, "msgget" => 186, "ptrace" => 117, "getpgrp" => 155 }, # getpgid, by which libc has it
  }.fetch(RUBY_PLATFORM[/\A\w+/])
  ACTIONS = { "kill" => 0x80000000, "refuse" => 0x00050001 }.freeze # SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ERRNO | EPERM
  ALLOW = 0x7fff0000
  LOAD_NUMBER = 0x20
  JUMP_IF_EQUAL = 0x15
  RETURN = 0x06
  PR_SET_NO_NEW_PRIVS = 38
  PR_SET_SECCOMP = 22
  MODE_FILTER = 2

  module_function

  def program(action, calls)
    steps = [[LOAD_NUMBER, 0, 0, 0]]
    calls.each { |call| steps << [JUMP_IF_EQUAL, 0, 1, CALLS.fetch(call)] << [RETURN, 0, 0, ACTIONS.fetch(action)] }
    (steps << [RETURN, 0, 0, ALLOW]).map { |step| step.pack("SCCL") }
  end

  def install(action, calls)
    prctl = Fiddle::Function.new(Fiddle.dlopen(nil)["prctl"], [Fiddle::TYPE_INT] + [Fiddle::TYPE_LONG] * 4, Fiddle::TYPE_INT)
    steps = program(action, calls)
    code = Fiddle::Pointer[steps.join]
    filter = Fiddle::Pointer[[steps.size, code.to_i].pack("Sx6Q")]
    # Who has CAP_SYS_ADMIN need not give up what sudo gives.
    prctl.call(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) unless Process.uid.zero?
    raise "no filter: errno #{Fiddle.last_error}" unless prctl.call(PR_SET_SECCOMP, MODE_FILTER, filter.to_i, 0, 0).zero?
  end
end

if $PROGRAM_NAME == __FILE__
  action, calls, separator, *command = ARGV
  raise "usage: seccomp.rb kill|refuse CALLS -- COMMAND" unless separator == "--"

  Seccomp.install(action, calls.split(","))
  exec(*command)
end
