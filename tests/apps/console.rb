# Runs the Ruby code that comes in on standard input, a line each (a string literal), in the main thread, and answers with
# what it returned. The other programs define something and call it. In a Ruby::Box, Kernel#puts would write to another $stdout.

$stdout.sync = true

def console
  $stdout.puts "ready"
  while (line = $stdin.gets)
    code = line.chomp.undump
    begin
      $stdout.puts "= #{TOPLEVEL_BINDING.eval(code, "console").inspect}"
    rescue SystemExit
      raise
    rescue Exception => e # rubocop:disable Lint/RescueException
      $stdout.puts "raised #{e.class}: #{e.message}"
    end
  end
end

console if $PROGRAM_NAME == __FILE__
