# One operation that waits: blocking.rb NAME main|thread DIRECTORY. Says "ready" before it begins, and afterwards in a line
# of JSON what it returned or raised, and whether it waited as long as it had to. Those that another process ends wait until
# there is a file "release" in the directory.
#
# blocking.rb NAME other DIRECTORY is that other process: it holds the lock, has the other end, ...

require "json"
require "fileutils"

$stdout.sync = true
PROGRAM = File.expand_path(__FILE__) # before the directory is another

# Seconds that an operation takes which ends by itself; more than all that is done to the process meanwhile.
SECONDS = Float(ENV.fetch("BLOCKING_SECONDS", "1.5"))
MILLISECONDS = (SECONDS * 1000).to_i

# run: returns what is to be compared. before: makes what it needs; then `other` is started, with `prepare`, and `release` later.
Operation = Struct.new(:run, :before, :prepare, :release, :timed, :early, keyword_init: true)
OPERATIONS = {}

def operation(name, before: nil, prepare: nil, release: nil, &run)
  OPERATIONS[name] = Operation.new(run: run, before: before, prepare: prepare, release: release, timed: release.nil?)
end

def fifo
  File.mkfifo("fifo") unless File.exist?("fifo")
end

FIFO = -> { fifo }
# The release of who reads from the FIFO, and of who writes to it. What has an end open sees no end of file.
WRITE = -> { File.open("fifo", "w") { |file| file.write("data\n") } }
DRAIN = -> { IO.popen(["timeout", "3", "cat", "fifo"]) { |cat| $drained = cat.read.size } }

# The FIFO, both ends, and blocking: a pipe as it is inherited.
def both_ends(nonblock: false)
  fifo
  File.open("fifo", "r+").tap do |file|
    file.sync = true
    require "io/nonblock"
    file.nonblock = nonblock
  end
end

def fill(file)
  file.nonblock = true
  4.downto(0) { |power| file.write_nonblock("x" * 10**power) while true rescue nil }
  file.nonblock = false
end

def later(&block)
  Thread.new { sleep SECONDS; block.call }
end

# --- Ruby's own

operation("open", before: FIFO, release: WRITE) { File.open("fifo").class }
operation("open for writing", before: FIFO, release: -> { File.open("fifo").read }) { File.open("fifo", "w").class }
operation("sysopen", before: FIFO, release: WRITE) { IO.sysopen("fifo").class }
operation("reopen", before: FIFO, release: WRITE) { File.open("/dev/null").reopen("fifo").class }
operation("File.read", before: FIFO, release: WRITE) { File.read("fifo") }
operation("IO.readlines", before: FIFO, release: WRITE) { IO.readlines("fifo") }
operation("IO.copy_stream", before: FIFO, release: WRITE) { IO.copy_stream("fifo", "copy") }
HOLD_FLOCK = -> { ($held = File.open("lock", "w")).flock(File::LOCK_EX) }
LET_GO = -> { $held.close }
operation("flock", prepare: HOLD_FLOCK, release: LET_GO) { File.open("lock", "w").flock(File::LOCK_EX) }
operation("File.open and flock", prepare: HOLD_FLOCK, release: LET_GO) do
  File.open("lock", "w") { |file| file.flock(File::LOCK_SH) }
end
WRITE_LOCK = [1, 0, 0, 0, 0, 0].pack("s!s!x4q!q!i!x4")
SETLKW = 7
operation("fcntl F_SETLKW", prepare: -> { ($held = File.open("lock", "w")).fcntl(SETLKW, WRITE_LOCK) }, release: LET_GO) do
  File.open("lock", "w").fcntl(SETLKW, WRITE_LOCK)
end

operation("sysread", before: FIFO, release: WRITE) { both_ends.sysread(10) }
operation("sysread, non-blocking", before: FIFO, release: WRITE) { both_ends(nonblock: true).sysread(10) }
operation("readpartial", before: FIFO, release: WRITE) { both_ends.readpartial(10) }
operation("read", before: FIFO, release: WRITE) { both_ends.read(5) }
operation("gets", before: FIFO, release: WRITE) { both_ends.gets }
operation("getc", before: FIFO, release: WRITE) { both_ends.getc }
operation("each_line", before: FIFO, release: WRITE) { both_ends.each_line { |line| break line } }
operation("wait_readable", before: FIFO, release: WRITE) { require "io/wait"; both_ends.wait_readable.class }
operation("wait_readable with a timeout") { require "io/wait"; both_ends.wait_readable(SECONDS) }
operation("read_nonblock after select", before: FIFO, release: WRITE) do
  both_ends.then { |file| IO.select([file]) && file.read_nonblock(10) }
end
operation("write", release: DRAIN) { both_ends.write("x" * 300_000) }
operation("syswrite", release: DRAIN) { both_ends.syswrite("x" * 300_000) }
operation("syswrite to a full pipe", release: DRAIN) { both_ends.tap { |file| fill(file) }.syswrite("x" * 100) }
operation("write to a full pipe", release: DRAIN) { both_ends.tap { |file| fill(file) }.write("x" * 100) }
operation("IO.select", before: FIFO, release: WRITE) { IO.select([both_ends]).map(&:size) }
operation("IO.select with a timeout") { IO.select([both_ends], nil, nil, SECONDS) }
operation("IO.select of nothing") { IO.select(nil, nil, nil, SECONDS) }

SERVER = -> { require "socket"; $server = UNIXServer.new("socket") }
CONNECT = -> { require "socket"; $peer = UNIXSocket.new("socket") }
operation("UNIXServer#accept", before: SERVER, release: CONNECT) { $server.accept.class }
LISTEN = lambda do
  require "socket"
  $server = TCPServer.new("127.0.0.1", 0)
  File.write("port", $server.addr[1].to_s)
end
TCP_CONNECT = -> { require "socket"; $peer = TCPSocket.new("127.0.0.1", File.read("port").to_i) }
operation("TCPServer#accept", before: LISTEN, release: TCP_CONNECT) { $server.accept.class }
SEND = -> { $peer.write("data\n") }
READ_ALL = -> { $peer.read }
operation("recv", before: SERVER, prepare: CONNECT, release: SEND) { $server.accept.recv(10) }
operation("recvmsg", before: SERVER, prepare: CONNECT, release: SEND) { $server.accept.recvmsg(10)[0] }
operation("gets from a socket", before: SERVER, prepare: CONNECT, release: SEND) { $server.accept.gets }
operation("sysread from a socket", before: SERVER, prepare: CONNECT, release: SEND) do
  require "io/nonblock"
  $server.accept.tap { |socket| socket.nonblock = false }.sysread(10)
end
operation("send", before: SERVER, prepare: CONNECT, release: READ_ALL) do
  require "io/nonblock"
  socket = $server.accept.tap { |accepted| accepted.nonblock = false }
  socket.send("x" * 2_000_000, 0).tap { socket.close }
end
operation("write to a socket", before: SERVER, prepare: CONNECT, release: READ_ALL) do
  $server.accept.then { |socket| socket.write("x" * 2_000_000).tap { socket.close } }
end
BIND_UDP = lambda do
  require "socket"
  $server = UDPSocket.new
  $server.bind("127.0.0.1", 0)
  File.write("port", $server.addr[1].to_s)
end
SEND_UDP = -> { require "socket"; UDPSocket.new.send("data", 0, "127.0.0.1", File.read("port").to_i) }
operation("UDPSocket#recvfrom", before: BIND_UDP, release: SEND_UDP) { $server.recvfrom(10)[0] }

def fill_backlog(family, address)
  $filling = []
  20.times do
    $filling << Socket.new(family, :STREAM).tap { |socket| socket.connect_nonblock(address) }
  rescue IO::WaitWritable, Errno::EAGAIN
    break
  end
end

# By a socket that blocks, which is not Ruby's default everywhere.
def connect_waiting(family, address)
  require "io/nonblock"
  socket = Socket.new(family, :STREAM).tap { |made| made.nonblock = false }
  [socket.connect(address), socket.write("data"), socket.remote_address.afamily]
end

# Who does not listen much, and accepts late.
def listen_to(family, address)
  $server = Socket.new(family, :STREAM).tap { |socket| socket.bind(address) && socket.listen(0) }
end

ACCEPT_ALL = -> { require "timeout"; Timeout.timeout(6) { loop { ($accepted ||= []) << $server.accept } } rescue nil }
operation("connect to a UNIX socket", prepare: -> { require "socket"; listen_to(:UNIX, Addrinfo.unix("socket")) },
          release: ACCEPT_ALL) do
  require "socket"
  fill_backlog(:UNIX, Addrinfo.unix("socket"))
  connect_waiting(:UNIX, Addrinfo.unix("socket"))
end
LISTEN_TCP = lambda do
  require "socket"
  listen_to(:INET, Addrinfo.tcp("127.0.0.1", 0))
  File.write("port", $server.local_address.ip_port.to_s)
end
operation("TCP connect", prepare: LISTEN_TCP, release: ACCEPT_ALL) do
  require "socket"
  fill_backlog(:INET, Addrinfo.tcp("127.0.0.1", File.read("port").to_i))
  connect_waiting(:INET, Addrinfo.tcp("127.0.0.1", File.read("port").to_i))
end

operation("TCPSocket.open", prepare: LISTEN_TCP, release: ACCEPT_ALL) do
  require "socket"
  fill_backlog(:INET, Addrinfo.tcp("127.0.0.1", File.read("port").to_i))
  TCPSocket.open("127.0.0.1", File.read("port").to_i).then { |socket| [socket.write("data"), socket.peeraddr[0]] }
end

operation("sleep") { sleep(SECONDS).class }
operation("sleep for ever") { main = Thread.current; later { main.wakeup }; sleep.class }
operation("Thread.stop") { main = Thread.current; later { main.wakeup }; Thread.stop }
operation("Queue#pop") { Queue.new.tap { |queue| later { queue << 1 } }.pop }
operation("SizedQueue#push") { SizedQueue.new(1).tap { |queue| queue << 1; later { queue.pop } }.push(2).class }
def locked_elsewhere(lock)
  taken = Queue.new
  Thread.new { lock.synchronize { taken << 1; sleep SECONDS } }
  taken.pop
  lock
end
operation("Mutex#lock") { locked_elsewhere(Mutex.new).lock.class }
operation("Mutex#sleep") { Mutex.new.tap(&:lock).sleep(SECONDS).class }
operation("Monitor#synchronize") { require "monitor"; locked_elsewhere(Monitor.new).synchronize { 1 } }
operation("ConditionVariable#wait") do
  (m = Mutex.new).synchronize { ConditionVariable.new.tap { |v| later { m.synchronize { v.signal } } }.wait(m).class }
end
operation("ConditionVariable#wait with a timeout") do
  (m = Mutex.new).synchronize { ConditionVariable.new.wait(m, SECONDS).class }
end
operation("Thread#join") { later {}.join.class }
operation("Thread#join with a timeout") { Thread.new { sleep }.join(SECONDS) }
operation("Thread#value") { later { 1 }.value }
operation("Process.wait") { Process.wait(spawn("sleep", SECONDS.to_s)); $?.exitstatus }
operation("Process.waitpid") { Process.waitpid(spawn("sleep", SECONDS.to_s)); $?.exitstatus }
operation("backticks") { `sleep #{SECONDS}; echo data` }
operation("system") { system("sleep", SECONDS.to_s) }
operation("IO.popen.read") { IO.popen("sleep #{SECONDS}; echo data", &:read) }
operation("Timeout") { require "timeout"; Timeout.timeout(SECONDS) { sleep } }
operation("fork and wait") { Process.wait(fork { sleep SECONDS; exit!(3) }); $?.exitstatus }

# Raw: a read waits for five bytes, or for a time.
def terminal(**how)
  $master, terminal = PTY.open
  terminal.tap { how.empty? || terminal.raw!(**how) }
end

# A chroot may have none.
def terminals?
  require "pty"
  require "io/console"
  PTY.open.each(&:close)
rescue StandardError
  false
end

if terminals?
  operation("gets from a terminal") { terminal.tap { later { $master.puts "data" } }.gets }
  operation("readpartial of a terminal that waits for more") do
    file = terminal(min: 5)
    $master.write("ab")
    later { $master.write("cde") }
    file.readpartial(10)
  end
  operation("readpartial of a terminal with a timeout") { terminal(min: 0, time: (SECONDS * 10).ceil).readpartial(10) }
end

# Since Ruby 3.2.
if IO.method_defined?(:timeout=)
  operation("read with a timeout") { both_ends.tap { |file| file.timeout = SECONDS }.read(1) }
  operation("write with a timeout") do
    both_ends.tap { |file| fill(file); file.timeout = SECONDS }.write("x" * 100)
  end
  operation("recv with a timeout", before: LISTEN, prepare: TCP_CONNECT) do
    $server.accept.tap { |socket| socket.timeout = SECONDS }.recv(10)
  end
end
READ_CALL = { "x86_64" => 0, "aarch64" => 63, "riscv64" => 63 }[RUBY_PLATFORM[/\A\w+?(?=-)/]]
if READ_CALL
  operation("Kernel#syscall", before: FIFO, release: WRITE) { syscall(READ_CALL, both_ends.fileno, +" " * 10, 10) }
end

# --- C's, called by an extension

module C
  module_function

  def region?
    ENV["BLOCKING_REGION"]
  end

  def address(name)
    @libraries ||= [Fiddle.dlopen(nil), *%w[libc.so.6 libpthread.so.0].map { |library| Fiddle.dlopen(library) }]
    @libraries.each { |library| return library[name.to_s] rescue Fiddle::DLError }
    raise "no #{name}"
  end

  # [result, errno or nil]
  def call(name, *arguments)
    if region?
      require ENV["BLOCKING_REGION"]
      result, error = Region.call(address(name), *arguments.map { |argument| argument.nil? ? 0 : argument.to_i })
    else
      result = Fiddle::Function.new(address(name), [Fiddle::TYPE_LONG] * arguments.size,
                                    Fiddle::TYPE_INT).call(*arguments.map(&:to_i))
      error = Fiddle.last_error
    end
    [result, result == -1 ? Errno.constants.find { |constant| Errno.const_get(constant)::Errno == error } : nil]
  end

  # Memory with that in it, for as long as the process lives.
  def memory(bytes)
    ($memory ||= []) << (pointer = Fiddle::Pointer.malloc(bytes.bytesize))
    pointer[0, bytes.bytesize] = bytes
    pointer.to_i
  end

  def timespec(seconds = SECONDS)
    memory([seconds.to_i, ((seconds % 1) * 1e9).to_i].pack("q!q!"))
  end

  def timeval
    memory([SECONDS.to_i, ((SECONDS % 1) * 1e6).to_i].pack("q!q!"))
  end

  def wall_clock
    timespec(Process.clock_gettime(Process::CLOCK_REALTIME) + SECONDS)
  end
end

def path(name)
  C.memory("#{name}\0")
end

READABLE = 1
def poll_set(file)
  C.memory([file.fileno, READABLE, 0].pack("iss"))
end

def descriptor_set(file)
  C.memory(Array.new(16) { |i| file.fileno / 64 == i ? 1 << file.fileno % 64 : 0 }.pack("Q*"))
end

operation("C usleep") { C.call(:usleep, (SECONDS * 1e6).to_i) }
operation("C sleep") { C.call(:sleep, SECONDS.ceil) }
operation("C nanosleep") { C.call(:nanosleep, C.timespec, 0) }
operation("C nanosleep with the rest") { C.call(:nanosleep, C.timespec, C.timespec(0)) }
operation("C clock_nanosleep") { C.call(:clock_nanosleep, 1, 0, C.timespec, 0) }
operation("C clock_nanosleep until") { C.call(:clock_nanosleep, 0, 1, C.wall_clock, 0) }
operation("C poll") { C.call(:poll, 0, 0, MILLISECONDS) }
operation("C poll for a file", release: WRITE) { C.call(:poll, poll_set($file = both_ends), 1, -1) }
operation("C ppoll") { C.call(:ppoll, 0, 0, C.timespec, 0) }
operation("C select") { C.call(:select, 0, 0, 0, 0, C.timeval) }
operation("C select for a file", release: WRITE) { C.call(:select, 100, descriptor_set($file = both_ends), 0, 0, 0) }
operation("C pselect") { C.call(:pselect, 0, 0, 0, 0, C.timespec, 0) }
def epoll(file = nil)
  descriptor = C.call(:epoll_create1, 0)[0]
  C.call(:epoll_ctl, descriptor, 1, file.fileno, C.memory([READABLE, 0, 0].pack("L3"))) if file
  descriptor
end
EPOLL_EVENTS = -> { C.memory("\0" * 16) }
operation("C epoll_wait") { C.call(:epoll_wait, epoll, EPOLL_EVENTS.call, 1, MILLISECONDS) }
operation("C epoll_wait for a file", release: WRITE) { C.call(:epoll_wait, epoll($file = both_ends), EPOLL_EVENTS.call, 1, -1) }
operation("C epoll_pwait") { C.call(:epoll_pwait, epoll, EPOLL_EVENTS.call, 1, MILLISECONDS, 0) }
SEMAPHORE = -> { File.write("id", ($id = C.call(:semget, 0, 1, 0o600)[0]).to_s) }
REMOVE_SEMAPHORE = -> { C.call(:semctl, $id, 0, 0) if $id }
def semaphore_operation(by)
  C.memory([0, by, 0].pack("SsS"))
end
operation("C semop", before: SEMAPHORE, release: -> { C.call(:semop, File.read("id").to_i, semaphore_operation(1), 1) }) do
  C.call(:semop, $id, semaphore_operation(-1), 1).tap { REMOVE_SEMAPHORE.call }
end
operation("C semtimedop", before: SEMAPHORE) do
  C.call(:semtimedop, $id, semaphore_operation(-1), 1, C.timespec).tap { REMOVE_SEMAPHORE.call }
end
MESSAGE = -> { C.memory([1].pack("q!") + "x" * 4000) }
MESSAGES = -> { File.write("id", ($id = C.call(:msgget, 0, 0o600)[0]).to_s) }
REMOVE_MESSAGES = -> { C.call(:msgctl, $id, 0, 0) }
NO_WAIT = 0o4000
operation("C msgrcv", before: MESSAGES, release: -> { C.call(:msgsnd, File.read("id").to_i, MESSAGE.call, 10, 0) }) do
  C.call(:msgrcv, $id, MESSAGE.call, 4000, 0, 0).tap { REMOVE_MESSAGES.call }
end
operation("C msgsnd", before: MESSAGES, release: -> { C.call(:msgrcv, File.read("id").to_i, MESSAGE.call, 4000, 0, 0) }) do
  message = MESSAGE.call
  nil while C.call(:msgsnd, $id, message, 4000, NO_WAIT)[0].zero?
  C.call(:msgsnd, $id, message, 4000, 0).tap { REMOVE_MESSAGES.call }
end
def posix_semaphore
  C.memory("\0" * 64).tap { |semaphore| C.call(:sem_init, semaphore, 0, 0) }
end
operation("C sem_wait") do
  posix_semaphore.then { |semaphore| later { C.call(:sem_post, semaphore) }; C.call(:sem_wait, semaphore) }
end
operation("C sem_timedwait") { C.call(:sem_timedwait, posix_semaphore, C.wall_clock) }
operation("C flock", prepare: HOLD_FLOCK, release: LET_GO) { C.call(:flock, ($file = File.open("lock", "w")).fileno, 2) }
operation("C fcntl F_SETLKW", prepare: -> { ($held = File.open("lock", "w")).fcntl(SETLKW, WRITE_LOCK) }, release: LET_GO) do
  C.call(:fcntl, ($file = File.open("lock", "w")).fileno, SETLKW, C.memory(WRITE_LOCK))
end
operation("C open", before: FIFO, release: WRITE) do
  C.call(:open, path("fifo"), 0).then { |descriptor, error| [descriptor > 2, error] }
end
operation("C read", release: WRITE) { C.call(:read, ($file = both_ends).fileno, C.memory("\0" * 10), 10) }
operation("C write", release: DRAIN) { C.call(:write, ($file = both_ends).fileno, C.memory("x" * 300_000), 300_000) }
def accepted
  require "io/nonblock"
  ($socket = $server.accept).tap { |socket| socket.nonblock = false }.fileno
end
operation("C accept", before: SERVER, release: CONNECT) do
  require "io/nonblock"
  $server.nonblock = false
  C.call(:accept, $server.fileno, 0, 0).then { |descriptor, error| [descriptor > 2, error] }
end
operation("C recv", before: SERVER, prepare: CONNECT, release: SEND) { C.call(:recv, accepted, C.memory("\0" * 10), 10, 0) }
WAIT_ALL = 0x100
operation("C recv of all", before: SERVER, prepare: -> { CONNECT.call; SEND.call }, release: SEND) do
  C.call(:recv, accepted, C.memory("\0" * 10), 10, WAIT_ALL)
end
operation("C recvmmsg", before: BIND_UDP, prepare: SEND_UDP, release: -> { 2.times { SEND_UDP.call } }) do
  require "io/nonblock"
  $server.nonblock = false
  buffers = Array.new(3) { C.memory([C.memory("\0" * 10), 10].pack("QQ")) }
  C.call(:recvmmsg, $server.fileno, C.memory(buffers.map { |at| [0, 0, at, 1, 0, 0, 0, 0].pack("Q8") }.join), 3, 0, 0)
end
operation("C recv with a timeout", before: SERVER, prepare: CONNECT) do
  descriptor = accepted
  C.call(:setsockopt, descriptor, 1, 20, C.timeval, 16)
  C.call(:recv, descriptor, C.memory("\0" * 10), 10, 0)
end
operation("C send", before: SERVER, prepare: CONNECT, release: READ_ALL) do
  C.call(:send, accepted, C.memory("x" * 2_000_000), 2_000_000, 0).tap { $socket.close }
end
operation("C wait4") { C.call(:wait4, spawn("sleep", SECONDS.to_s), 0, 0, 0).then { |pid, error| [pid > 0, error] } }
operation("C waitid") { C.call(:waitid, 1, spawn("sleep", SECONDS.to_s), C.memory("\0" * 128), 4) }
def signal_set(signal)
  C.memory([1 << (signal - 1)].pack("Q") + "\0" * 120).tap { |set| C.call(:pthread_sigmask, 0, set, 0) }
end
OUR_SIGNAL = 40
TGKILL = RUBY_PLATFORM.start_with?("x86_64") ? 234 : 131 # musl has no function for it
# To that native thread alone: all others would be killed by it.
def send_later(signal)
  thread = C.call(:gettid)[0]
  later { Process.respond_to?(:kill) && C.call(:syscall, TGKILL, Process.pid, thread, signal) }
end
operation("C sigtimedwait") { C.call(:sigtimedwait, signal_set(OUR_SIGNAL), 0, C.timespec) }
operation("C sigwaitinfo") { signal_set(OUR_SIGNAL).then { |set| send_later(OUR_SIGNAL); C.call(:sigwaitinfo, set, 0) } }
VIRTUAL_ALARM = 26 # for which Ruby has a handler that does nothing
operation("C pause") { send_later(VIRTUAL_ALARM); C.call(:pause) }
def condition
  [C.memory("\0" * 64), C.memory("\0" * 64)].tap { |_, mutex| C.call(:pthread_mutex_lock, mutex) }
end
operation("C pthread_cond_timedwait") { C.call(:pthread_cond_timedwait, *condition, C.wall_clock) }
if RUBY_PLATFORM.start_with?("x86_64")
  operation("C io_getevents") do
    context = C.memory("\0" * 8)
    C.call(:syscall, 206, 1, context)
    C.call(:syscall, 208, Fiddle::Pointer.new(context)[0, 8].unpack1("q"), 1, 1, C.memory("\0" * 64), C.timespec)
  end
  operation("C futex") { C.call(:syscall, 202, C.memory("\0" * 8), 0, 0, C.timespec, 0, 0) }
end

# --- The program

def report(operation)
  began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  value = begin
    operation.run.call.inspect
  rescue Exception => e # rubocop:disable Lint/RescueException
    "#{e.class}: #{e.message}"
  end
  waited = Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
  early = operation.timed ? waited < SECONDS - 0.02 : !File.exist?("release")
  puts JSON.generate("value" => value, "early" => early)
end

def other(operation)
  operation.prepare&.call
  puts "go"
  sleep 0.01 until File.exist?("release")
  operation.release&.call
  $stdin.read
end

def main(name, role, directory)
  Dir.chdir(directory)
  operation = OPERATIONS.fetch(name)
  require "fiddle" if name.start_with?("C ")
  return other(operation) if role == "other"

  operation.before&.call
  if operation.prepare || operation.release
    $other = IO.popen([{ "RUBYOPT" => nil }, RbConfig.ruby, PROGRAM, name, "other", directory], "r+")
    $other.gets
  end
  puts "ready"
  role == "thread" ? Thread.new { report(operation) }.join : report(operation)
  $other&.close
end

# Without Fiddle, which Ruby 4.0 does not bring, C functions cannot be called.
def names
  require "fiddle"
  OPERATIONS.keys
rescue LoadError
  OPERATIONS.keys.grep_v(/\AC /)
end

if $PROGRAM_NAME == __FILE__
  ARGV == ["--list"] ? puts(names) : main(*ARGV)
end
