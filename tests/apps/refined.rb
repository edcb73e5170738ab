# Waits for code in a frame that has refinements, so that whoever interrupts it finds them in force there.

module Louder
  refine(String) do
    def upcase
      super + "!"
    end

    def shout
      upcase + "!"
    end
  end
end

using Louder

class Horn
  def blow(times)
    "tu" * times
  end

  def call(word)
    word.upcase
  end
end

$stdout.sync = true
puts "ready"
while (line = $stdin.gets)
  begin
    puts "= #{binding.eval(line.chomp.undump, "refined").inspect}"
  rescue Exception => e # rubocop:disable Lint/RescueException
    puts "raised #{e.class}: #{e.message}"
  end
end
