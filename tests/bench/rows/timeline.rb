# What `record --timeline` costs a program whose threads do nothing but hand each other the GVL: each turn is four changes.
class Measurements
  TURNS = 40_000

  measurement :timeline do
    said = "needs Ruby 3.2 or newer"
    if timeline_possible?
      values = or_reason { Samples.new(Array.new(amount(:repetitions)) { timeline_cost { |changes| said = changes } }) }
    end
    [Row.new(key: "timeline", what: "`record --timeline` of threads that hand each other the GVL, against without it",
             unit: :ratio, rbprobe: values, notes: said)]
  end

  private

  def timeline_cost
    with(Target.new(RbprobeTool), Target.new(RbprobeTool)) do |recorded, untraced|
      [recorded, untraced].each { |target| target.run("turns", TURNS) }
      client = timeline_client(recorded)
      begin
        value = ratio(recorded, untraced, "turns", TURNS)
        client.stop
        yield client.rest[/\d+ changes of threads' states.*?(?=;)/]
        value
      ensure
        client.kill
      end
    end
  ensure
    FileUtils.rm_f(output)
  end

  def timeline_client(target)
    RbprobeTool.attach_by(target, "record", "--timeline", "-o", output, SELECTOR)
  end

  def timeline_possible?
    version = IO.popen([*RUBY, "-e", "print RUBY_VERSION"], &:read)
    Gem::Version.new(version) >= Gem::Version.new("3.2")
  end
end
