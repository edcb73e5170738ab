# A program that begins, does its work and ends like most: it requires libraries, defines methods on the way, and leaves
# things to be done at exit. It says "whole" when all of its work was done; with "waits" as its argument it says "ready"
# before the end, and ends when it is told.

require "json"
require "set"
require "optparse"

class Boot
  STEPS = 20

  attr_reader :done

  def initialize
    @done = 0
  end

  STEPS.times { |i| define_method("step_#{i}") { @done += 1 } }

  def run
    STEPS.times { |i| send("step_#{i}") }
    Class.new(Boot) { def late; done; end }.new.late
  end
end

def ending(name)
  JSON.parse(JSON.generate("name" => name)).fetch("name")
end

boot = Boot.new
boot.run
options = OptionParser.new { |parser| parser.on("--name NAME") { |name| boot.done && name } }
options.parse(["--name", "boot"])

workers = Array.new(3) do
  Thread.new do
    loop { Set.new([1, 2]).include?(ending("worker").size) }
  ensure
    ending("worker's end")
  end
end
finalized = 0
200.times { ObjectSpace.define_finalizer(Object.new, proc { finalized += 1 }) }
kept = Array.new(200) { Object.new.tap { |object| ObjectSpace.define_finalizer(object, proc { ending("finalizer") }) } }

at_exit { puts "whole" if boot.done == Boot::STEPS && kept.size == 200 && workers.size == 3 }
at_exit { 50.times { |i| ending("at_exit #{i}") } }

$stdout.sync = true
if ARGV.first == "waits"
  puts "ready"
  $stdin.gets
end
