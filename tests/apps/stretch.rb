# A program like the one in rbtrace's README: it goes round and round, nested calls and a pause each time. ARGV: seconds to pause.

class String
  def stretch(times)
    @seen = 123
    gsub(/[aeiou]/) { |vowel| vowel * times }
  end
end

pause = (ARGV[0] || 0.02).to_f
$stdout.sync = true
puts "ready"

while true
  proc {
    Dir.chdir("/tmp") do
      Dir.pwd
      Process.pid
      "hello".stretch(3)
      sleep rand * 0.01 + pause
    end
  }.call
end
