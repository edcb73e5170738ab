# A round trip: `1 + 1` in a process, from the shell's point of view, from starting the client to its end.
class Measurements
  measurement :eval do
    STATES.slice("sleep", "compute").map do |state, description|
      values = each_tool { |tool| Samples.new(evals_ms(tool, state)) }
      Row.new(key: "eval-#{state}", what: "eval of 1 + 1, main thread #{description}", unit: :ms,
              requirement: state == "sleep" ? 15 : 30, rbprobe: values["rbprobe"], rbtrace: values["rbtrace"],
              notes: "from spawning the client to its end, the extension being loaded")
    end
  end

  private

  def evals_ms(tool, state)
    with(Target.new(tool, state)) do |target|
      command = [RbprobeTool::PROGRAM, "eval", "-p", target.pid.to_s, "1 + 1"]
      command = tool.evaluation(target, "1 + 1") if tool == RbtraceTool
      Array.new(amount(tool == RbtraceTool ? :attaches_rbtrace : :attaches)) do
        began = now
        text, status = Open3.capture2e(*command)
        took = (now - began) * 1000
        raise NotMeasured, text unless status.success? && text[/\b2\b/]

        took
      end
    end
  end
end
