# Root attaches to another user's process: what is made for that belongs to that user, and nobody else can reach it.

require_relative "helper"

class OwnershipTest < LiveTest
  OWNER = 65_534
  STRANGER = 65_533

  def as_stranger(*command)
    system("setpriv", "--reuid=#{STRANGER}", "--regid=#{STRANGER}", "--clear-groups", *command, out: File::NULL, err: File::NULL)
  end

  def queue_of(pid)
    File.readlines("/proc/sysvipc/msg").drop(1).map(&:split).find do |fields|
      fields[0].to_i & 0xffffffff == Leftovers.queue_key(pid)
    end
  end

  # The socket's directory while somebody attaches. C code holds the GVL meanwhile, so that what attaching makes can be looked at
  # before it is gone again.
  def with_a_client_under_way(target)
    path = compile_extension("holder").tap { |directory| File.chmod(0o755, directory) }
    target.run("require '#{path}/holder.so'")
    target.run_in_background("Holder.hold('#{path}/enough', false)")
    wait_until("it computes") { Processes.status_of(target.pid, "State").start_with?("R") }
    tracer = launch("methods", "-p", target.pid.to_s, "Shop#price", "--timeout", "120")
    directory = wait_until("the client has made its directory") do
      Leftovers.socket_directories([tracer.pid]).find { |path| File.socket?("#{path}/s") }
    end
    yield directory
    File.write("#{path}/enough", "")
    assert_equal "1", target.answer(120)
    assert_exit 0, tracer.wait(120)
    refute_path_exists directory
  end

  [true, false].each do |required|
    test "the extension #{required ? "was required" : "is loaded"}" do
      only_root
      only_where_loading_is_possible unless required
      target = start("shop", user: OWNER, load: required)
      with_a_client_under_way(target) do |directory|
        status = File.stat(directory)
        assert_equal [OWNER, OWNER, 0o40700], [status.uid, status.gid, status.mode]
        assert_equal [OWNER, OWNER], File.stat("#{directory}/s").then { |socket| [socket.uid, socket.gid] }
        refute as_stranger("test", "-e", "#{directory}/s"), "a stranger sees the socket"
        refute as_stranger("ls", directory), "a stranger sees the directory"
        next unless required # else Ruby has to come to it first

        queue = wait_until("the queue is there") { queue_of(target.pid) }
        assert_equal ["600", OWNER.to_s, OWNER.to_s], [queue[2], queue[7], queue[8]]
        key = [Leftovers.queue_key(target.pid)].pack("L").unpack1("l")
        refute as_stranger(RbConfig.ruby, "-I", __dir__, "-ripc", "-e", "exit Ipc::MSGGET.call(#{key}, 0o400) >= 0"),
               "a stranger opens the queue"
      end
    end
  end
end
