# A restartable sequence that is interrupted begins anew: also when rbprobe has called something in its thread.

require_relative "helper"

class RestartableTest < SecurityTest
  test "nothing is called in the middle of a sequence" do
    place = directory
    abi = RbConfig::CONFIG["ruby_version"]
    FileUtils.mkdir_p("#{place}/ruby/#{abi}")
    program = start_as(0, program("restartable"), place, abi)
    skip "this processor or libc has no restartable sequences" if program.hear == "none"
    # It is no Ruby, and so the library finds none: but it is looked for by a call.
    10.times { assert_match(/could not load .*undefined symbol/, rbprobe("load", "-p", program.pid.to_s).stderr) }
    program.say("how many?")
    assert_match(/\A\d+ done, some aborted, 0 broken\z/, program.hear)
  end
end
