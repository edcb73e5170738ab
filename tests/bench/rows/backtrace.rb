# A backtrace of many threads, from shell to shell.

class Measurements
  measurement :backtrace do
    times = with(Target.new(RbprobeTool, "waiting")) do |target|
      Array.new(amount(:attaches)) do
        from = now
        unless system(RbprobeTool::PROGRAM, "bt", "-p", target.pid.to_s, out: File::NULL, err: File::NULL)
          raise NotMeasured, "the backtrace failed"
        end

        (now - from) * 1000
      end
    end
    [Row.new(key: "backtrace", what: "`bt` of 100 threads, from spawning the client to its end", unit: :ms, requirement: 50,
             rbprobe: Samples.new(times), notes: "a dozen frames each, all waiting")]
  end
end
