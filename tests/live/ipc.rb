# System V message queues, for tests that put one in rbprobe's way. Ruby has no call for them; libc has.

require "fiddle"

module Ipc
  LIBC = Fiddle.dlopen(nil)
  MSGGET = Fiddle::Function.new(LIBC["msgget"], [Fiddle::TYPE_INT, Fiddle::TYPE_INT], Fiddle::TYPE_INT)
  MSGCTL = Fiddle::Function.new(LIBC["msgctl"], [Fiddle::TYPE_INT, Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT)
  IPC_CREAT = 0o1000
  IPC_EXCL = 0o2000
  IPC_RMID = 0

  module_function

  # Makes a queue of that key and returns its id.
  def create(key, mode = 0o600)
    id = MSGGET.call([key].pack("L").unpack1("l"), IPC_CREAT | IPC_EXCL | mode)
    raise "msgget: errno #{Fiddle.last_error}" if id.negative?

    id
  end

  def remove(id)
    MSGCTL.call(id, IPC_RMID, nil)
  end
end

# As a program: makes the queue of the key that is named, as whoever runs it, and prints its id.
puts Ipc.create(Integer(ARGV[0])) if $PROGRAM_NAME == __FILE__
