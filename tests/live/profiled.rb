# Profiles of the application tests/apps/profiled.rb, and what is in them.
module Profiled
  def profile(target, *arguments)
    rbprobe("profile", "-p", target.pid.to_s, "--duration", "1", "-q", *arguments)
  end

  # Of `--format json`, by type.
  def objects(target, *arguments)
    result = profile(target, "--format", "json", *arguments)
    assert_exit 0, result
    result.stdout.lines.map { |line| JSON.parse(line) }.group_by { |object| object.fetch("type") }
  end

  def working
    start("profiled").tap { |target| target.run("go") }
  end

  def named(objects, name)
    objects.fetch("thread").find { |thread| thread["name"] == name } or flunk "no thread #{name} in #{objects["thread"]}"
  end

  # Labels from the outermost frame on, and the time, of each stack of a thread; it had none before it began.
  def stacks_of(objects, name)
    number = named(objects, name).fetch("thread")
    objects.fetch("stack").select { |stack| stack["thread"] == number && stack["frames"].any? }
           .map { |stack| [stack["frames"].map { |frame| frame["label"] }.reverse, stack["wall"]] }
  end
end
