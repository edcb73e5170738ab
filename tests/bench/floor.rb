# The extension with callbacks that do nothing but read the clock (floor.c), in BUILD/floor: what a call costs with it, it costs
# at least with every engine that is called by the VM for both ends of a call and wants both times.

require_relative "tools"

module FloorTool
  WRAPPED = %w[engine_target_event patch_enter].freeze

  module_function

  def name
    "clock only"
  end

  def target_wrapper
    []
  end

  def target_options
    build
    ["-I", "#{BUILD}/floor/tracee", "-rrbprobe"]
  end

  def leftovers(_pid)
    []
  end

  def build
    return if @built

    object = "#{BUILD}/floor/floor.o"
    FileUtils.mkdir_p("#{BUILD}/floor")
    ask = 'puts RbConfig::CONFIG.values_at("rubyhdrdir", "rubyarchhdrdir")'
    headers = IO.popen([*RUBY, "-rrbconfig", "-e", ask], &:readlines)
    make("cc", "-std=gnu11", "-O2", "-fPIC", "-fno-omit-frame-pointer", "-fvisibility=hidden", "-iquote", ROOT,
         *headers.flat_map { |directory| ["-isystem", directory.chomp] }, "-c", "-o", object, "#{__dir__}/floor.c")
    FileUtils.rm_f(Dir["#{BUILD}/floor/ext/*/rbprobe.so"])
    flags = [object, *WRAPPED.map { |function| "-Wl,--wrap=#{function}" }].join(" ")
    make({ "BUILD" => "#{BUILD}/floor", "RUBY" => RUBY.shelljoin, "RBPROBE_LDFLAGS" => flags }, "#{ROOT}/mk/extension")
    @built = true
  end

  def make(*command)
    text, status = Open3.capture2e(*command, chdir: ROOT)
    return if status.success?

    raise NotMeasured, "the extension that only reads the clock cannot be built: #{text.lines.last(3).join}"
  end
end
