# System V message queues, for tests that put one in rbprobe's way. Ruby has no call for them; libc has.

require "fiddle"

module Ipc
  LIBC = Fiddle.dlopen(nil)
  MSGGET = Fiddle::Function.new(LIBC["msgget"], [Fiddle::TYPE_INT, Fiddle::TYPE_INT], Fiddle::TYPE_INT)
  MSGCTL = Fiddle::Function.new(LIBC["msgctl"], [Fiddle::TYPE_INT, Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP], Fiddle::TYPE_INT)
  MSGSND = Fiddle::Function.new(LIBC["msgsnd"], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_INT],
                                Fiddle::TYPE_INT)
  MSGRCV = Fiddle::Function.new(LIBC["msgrcv"], [Fiddle::TYPE_INT, Fiddle::TYPE_VOIDP, Fiddle::TYPE_SIZE_T, Fiddle::TYPE_LONG,
                                                 Fiddle::TYPE_INT], Fiddle::TYPE_SSIZE_T)
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

  def send(id, bytes)
    raise "msgsnd: errno #{Fiddle.last_error}" if MSGSND.call(id, [1, bytes].pack("l!a*"), bytes.bytesize, 0).negative?
  end

  def receive(id)
    size = MSGRCV.call(id, "\0" * 128, 64, 0, 0)
    raise "msgrcv: errno #{Fiddle.last_error}" if size.negative?
  end

  # So that the kernel names this process as the last receiver.
  def stamp(id)
    send(id, "")
    receive(id)
  end
end

# As a program: makes the queue of the key that is named, as whoever runs it, and prints its id. Then it does what else is said:
# stamps it, sends a message, stays until the end of its input.
if $PROGRAM_NAME == __FILE__
  id = Ipc.create(Integer(ARGV[0]))
  Ipc.stamp(id) if ARGV.include?("stamp")
  Ipc.send(id, "later") if ARGV.include?("send")
  puts id
  $stdout.flush
  $stdin.read if ARGV.include?("stay")
end
