# What profilers are compared on: three methods that take a half, a third and a sixth of the time, of the same work each.
#
#     ruby profiled.rb      commands on stdin, an answer a line
#         "work N"          does N rounds
#         "cpu"             prints the ns of CPU time that the process has taken so far; "thread": that this thread has
#         "begin HZ"        StackProf samples time, so many times a second. By its mode :cpu it could not do so more often than
#                           the kernel looks at CPU times, some 250 times
#         "end"             and ends: prints each method's samples, as "name=count ..."

class Work
  def half(rounds)
    spin(rounds * 3)
  end

  def third(rounds)
    turn(rounds * 2)
  end

  def sixth(rounds)
    pass(rounds)
  end

  # The same three times, as who is hot is told by the method itself.
  %w[spin turn pass].each do |name|
    class_eval <<~RUBY, __FILE__, __LINE__ + 1
      def #{name}(count)
        i = 0
        sum = 0
        while i < count
          sum = (sum + i * 7) & 0xffff
          i += 1
        end
        sum
      end
    RUBY
  end

  def all(rounds)
    rounds.times do
      half(500)
      third(500)
      sixth(500)
    end
  end
end

work = Work.new
$stdout.sync = true
puts "ready"
while (line = gets)
  command, argument = line.split
  case command
  when "work"
    work.all(Integer(argument))
    puts "done"
  when "cpu"
    puts Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID, :nanosecond)
  when "thread"
    puts Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID, :nanosecond)
  when "begin"
    require "stackprof"
    StackProf.start(mode: :wall, interval: 1_000_000 / Integer(argument), raw: false)
    puts "begun"
  when "end"
    StackProf.stop
    frames = StackProf.results[:frames].values
    puts frames.select { |frame| frame[:samples] > 0 }.map { |frame| "#{frame[:name]}=#{frame[:samples]}" }.join(" ")
  end
end
