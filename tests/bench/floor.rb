# The extension with callbacks that do next to nothing (floor.c), in BUILD/floor: what a call costs with one of these, it costs at
# least with every engine that is called by the VM for both ends of a call and wants both times.

require_relative "tools"

class FloorTool
  WRAPPED = %w[engine_target_event patch_enter].freeze

  # flags: for the compiler.
  def initialize(name, directory, *flags)
    @name = name
    @directory = "#{BUILD}/floor/#{directory}"
    @flags = flags
  end

  attr_reader :name

  def target_wrapper
    []
  end

  def target_options
    build
    ["-I", "#{@directory}/tracee", "-rrbprobe"]
  end

  def leftovers(_pid)
    []
  end

  private

  def build
    return if @built

    object = "#{@directory}/floor.o"
    FileUtils.mkdir_p(@directory)
    ask = 'puts RbConfig::CONFIG.values_at("rubyhdrdir", "rubyarchhdrdir")'
    headers = IO.popen([*RUBY, "-rrbconfig", "-e", ask], &:readlines)
    make("cc", "-std=gnu11", "-O2", "-fPIC", "-fno-omit-frame-pointer", "-fvisibility=hidden", *@flags, "-iquote", ROOT,
         *headers.flat_map { |header| ["-isystem", header.chomp] }, "-c", "-o", object, "#{__dir__}/floor.c")
    FileUtils.rm_f(Dir["#{@directory}/ext/*/rbprobe.so"])
    flags = [object, *WRAPPED.map { |function| "-Wl,--wrap=#{function}" }].join(" ")
    make({ "BUILD" => @directory, "RUBY" => RUBY.shelljoin, "RBPROBE_LDFLAGS" => flags }, "#{ROOT}/mk/extension")
    @built = true
  end

  def make(*command)
    text, status = Open3.capture2e(*command, chdir: ROOT)
    return if status.success?

    raise NotMeasured, "the extension with the callbacks of floor.c cannot be built: #{text.lines.last(3).join}"
  end
end

CLOCK_ONLY = FloorTool.new("clock only", "clock")
SUMS_ONLY = FloorTool.new("sums only", "sums", "-DFLOOR_COUNTS")
