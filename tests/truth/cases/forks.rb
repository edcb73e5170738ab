# Processes: what a child does is not its parent's.

class Case::Forking
  def parent(x)
    x
  end

  def child(x)
    x
  end

  def both
    pid = fork { child(parent(1)); exit!(0) } # rubocop:disable Style/Semicolon
    Process.wait(pid)
    parent($?.exitstatus)
  end
end

forking = Case::Forking.new

truth "calls of a child are not the parent's", <<~TREE do
  Forking#both => 0
    Forking#parent(x=0) => 0
TREE
  forking.both
end

truth "calls of a child that goes on where the parent does", <<~TREE do
  Forking#parent(x=1) => 1
TREE
  forking.parent(1)
  pid = fork
  forking.child(2) unless pid
  exit!(0) unless pid
  Process.wait(pid)
end
