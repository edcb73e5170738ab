# Overrides methods of Ruby's own, and then works on, asleep most of the time: MODE CLASS#METHOD... Says on stderr what its main
# thread was hit by. Modes: raise, nonsense, undefined; prepended and aliased raise, too, but leave Ruby's own where it is found.

class Work
  def step(number)
    add(number, 1)
  end

  def add(one, other)
    one + other
  end
end

WAYS = {
  "raise" => "def %s(*) ::Kernel.raise 'overridden' end",
  "nonsense" => "def %s(*) ::Object.new end",
  "undefined" => "undef_method :%s",
  "prepended" => "prepend(::Module.new { def %1$s(*) ::Kernel.raise 'overridden' end })",
  "aliased" => "alias kept_%2$d %1$s; def %1$s(*) ::Kernel.raise 'overridden' end",
}.freeze

def overriding(mode, names)
  names.map.with_index do |name, index|
    path, separator, method = name.match(/\A([\w:]+)([#.])(.+)\z/).captures
    next unless Object.const_defined?(path)

    owner = Object.const_get(path)
    home = separator == "." ? owner.singleton_class : owner
    next unless home.method_defined?(method) || home.private_method_defined?(method)

    way = format(WAYS.fetch(mode), method, index)
    separator == "." ? "class << ::#{path}; #{way}; end" : "#{owner.class.name.downcase} ::#{path}; #{way}; end"
  end.compact.join("\n")
end

$VERBOSE = nil
$stdout.sync = true
mode = ARGV.shift
code = overriding(mode, ARGV)
asked = proc { |line| line.undump == "override" }
eval(code) unless ENV["LATER"] # rubocop:disable Security/Eval
puts "ready"
Thread.new do
  while (line = $stdin.gets)
    eval(code) if asked.call(line.chomp) # rubocop:disable Security/Eval
    puts "done"
  end
end
work = Work.new
sum = 0
begin
  loop do
    sum = work.step(sum)
    sleep 0.01
  end
rescue Exception => e # rubocop:disable Lint/RescueException
  $stderr.puts "hit by #{e.class}"
end
