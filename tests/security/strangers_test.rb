# A user who is neither the target's nor root gets nowhere, and says so in one line.

require_relative "helper"

class StrangersTest < SecurityTest
  { "trace" => ["Shop#price"], "eval" => ["1"], "methods" => ["Shop#price"], "backtrace" => [] }.each do |command, arguments|
    test "#{command} of a stranger is refused" do
      target = start("shop", user: user)
      result = rbprobe_as(user, command, "-p", target.pid, *arguments)
      assert_exit 3, result
      assert_equal ["", 1], [result.stdout, result.stderr.lines.size], result.stderr
      assert_equal "500", target.run("Shop.new.price(:apple)")
    end
  end
end
