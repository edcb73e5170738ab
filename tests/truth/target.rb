# The program that is traced: runs all cases, each in a thread of its own that has its name, and says what is true of them.
#
# A case's truth is written beside its code. Nothing here calls a method that is traced.

require "json"

# All traced methods but Ruby's own are in here.
module Case
end

module Truth
  Item = Struct.new(:name, :truth, :code)

  @items = []
  @also = []
  @expressions = {} # "Class#" => what is shown of its calls first

  class << self
    attr_reader :items, :also, :expressions

    # Ruby's own methods that are traced, too.
    def trace(*selectors)
      @also.concat(selectors)
    end

    # "Class#method" => what it is written in.
    def kinds
      classes = modules_in(Case)
      own = classes.flat_map do |owner|
        [[owner, "#"], [owner.singleton_class, "."]].flat_map do |holder, separator|
          (holder.instance_methods(false) + holder.private_instance_methods(false)).map do |name|
            ["#{owner}#{separator}#{name}".delete_prefix("Case::"), kind_of(holder.instance_method(name))]
          end
        end
      end
      core = @also.map do |selector|
        owner, separator, name = selector.match(/\A(.+?)([#.])(.+)\z/).captures
        holder = Object.const_get(owner)
        holder = holder.singleton_class if separator == "."
        [selector, kind_of(holder.instance_method(name))]
      end
      (own + core).to_h
    end

    private

    def modules_in(outer)
      inner = outer.constants(false).sort.map { |name| outer.const_get(name) }.grep(Module)
      inner.flat_map { |one| [one, *modules_in(one)] }
    end

    def kind_of(method)
      return "ruby" if RubyVM::InstructionSequence.of(method)

      method.source_location ? "attribute" : "c"
    end
  end
end

# A case: its name, the tree of its calls, its code. A line "--" stands between the trees of fibers, "-- NAME" before those of the
# thread that is called as the case and NAME.
def truth(name, tree, &code)
  raise ArgumentError, "two cases with the name #{name}" if Truth.items.any? { |item| item.name == name }

  Truth.items << Truth::Item.new(name, tree, code)
end

# The first fiber of all is shown without its name.
class Case::First
  def call
    Process.pid
  end
end

Dir["#{__dir__}/cases/*.rb"].sort.each do |path|
  required = File.basename(path)[/ruby_(\d+_\d+)/, 1]
  load path if required.nil? || Gem::Version.new(RUBY_VERSION) >= Gem::Version.new(required.tr("_", "."))
end

$stdout.sync = true
puts JSON.generate("kinds" => Truth.kinds, "also" => Truth.also, "expressions" => Truth.expressions,
                   "truths" => Truth.items.to_h { |item| [item.name, item.truth] })
exit unless $stdin.gets

Case::First.new.call
Truth.items.each do |item|
  raised = nil
  thread = Thread.new do
    Thread.current.report_on_exception = false
    Thread.current.name = item.name
    item.code.call
  rescue Exception => error # rubocop:disable Lint/RescueException
    raised = error
  end
  thread.join
  next unless raised

  error = "#{raised.class}: #{raised.message}"
  puts JSON.generate("raised" => item.name, "error" => error, "at" => raised.backtrace.first(3))
end
puts JSON.generate("done" => Process.pid)
$stdin.gets
