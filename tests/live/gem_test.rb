# The gem: built, installed into an empty GEM_HOME of the target's Ruby, used, and taken away.

require_relative "helper"
require "open3"

class GemTest < LiveTest
  OPTIONAL = %w[jansson simdjson zlib libzstd readline libdw ncursesw libcurl libprotobuf-c].freeze
  # What says that it is missing, by the line of --version.
  MISSING = {
    "simdjson" => %w[heap report FILE],
    "ncursesw" => %w[top -p PID],
    "zlib" => %w[heap dump --gzip -o - -p PID],
    "libzstd" => %w[heap dump --zstd -o - -p PID],
    "libdw" => %w[bt --full -p PID],
  }.freeze

  def setup
    super
    skip "installs what is not meant to be installed" unless Processes::TARGET_ENV.empty?
    @here, @gem_home = directory_of_target
    # It is tried whether it works, and not how fast. The build has all libraries; this one has none.
    @env = { "GEM_HOME" => @gem_home, "GEM_PATH" => nil, "CFLAGS" => "-O0", "RBPROBE_CFLAGS" => "-O0",
             "WITHOUT" => OPTIONAL.join(" "), "MAKEFLAGS" => nil, "BUILD" => nil }
  end

  # A command of the target's Ruby.
  def ruby!(*arguments)
    output, status = Open3.capture2e(@env, *Processes::RUBY, *arguments, chdir: Processes::ROOT)
    assert status.success?, output
    output
  end

  def gem_rbprobe(*arguments)
    Open3.capture3(@env, *Processes::RUBY, "#{@gem_home}/bin/rbprobe", *arguments)
  end

  def install
    built = "#{@here}/rbprobe.gem"
    Dir.chdir(Processes::ROOT) { assert system("gem", "build", "--silent", "rbprobe.gemspec", "-o", built, err: File::NULL) }
    ruby!("-S", "gem", "install", "--local", "--no-document", "#{@gem_home}/rbprobe.gem")
    File.delete(built)
  end

  def assert_used_by(target, *before)
    output, errors, = gem_rbprobe("eval", "-p", target.pid.to_s, "$LOADED_FEATURES.grep(/rbprobe/).size")
    assert_equal "", errors
    assert_match(/\A\d+\n\z/, output)
    assert_match(/^ *#{target.pid} .* yes /, gem_rbprobe("ps").first)
    before.each { |code, value| assert_equal value, target.run(code) }
  end

  test "it is built, installed, used and uninstalled" do
    install
    version = rbprobe("--version").stdout.lines.first
    output, errors, status = gem_rbprobe("--version")
    assert_equal ["", true], [errors, status.success?]
    assert_equal version, output.lines.first
    assert_equal OPTIONAL.sort, output.lines.drop(1).map { |line| line[/\Abuilt without ([\w-]+) \(Debian: /, 1] }.sort
    loaded = start("console", load: false)
    assert_used_by(loaded)
    required = start("console", load: false, env: @env)
    assert_equal "true", required.run("require 'rbprobe'")
    assert_used_by(required, ["Rbprobe.version", version.split[1].inspect], ["require 'rbprobe'", "false"])
    MISSING.each { |library, words| assert_says_what_is_missing(library, words, loaded) }
    assert_match(/^sql +SQL statements/, gem_rbprobe("tracers").first)
    ruby!("-S", "gem", "uninstall", "--executables", "rbprobe")
    assert_empty Dir.glob("#{@here}/**/*").select { |path| File.file?(path) && !path.end_with?(".gem") }
  end

  def assert_says_what_is_missing(library, words, target)
    _, errors, status = gem_rbprobe(*words.map { |word| { "PID" => target.pid.to_s, "FILE" => "/dev/null" }.fetch(word, word) })
    # With YJIT a backtrace has more to say.
    assert_match(/^rbprobe: [^\n]*#{library}[^\n]*$/, errors)
    assert_empty errors.lines.grep_v(/#{library}|compiler \(YJIT\)/)
    # A backtrace without native frames is one all the same.
    assert_equal library == "libdw" ? 0 : 1, status.exitstatus
  end

  test "what is in it builds by itself, and nothing else is in it" do
    files = Gem::Specification.load("#{Processes::ROOT}/rbprobe.gemspec").files
    rooms = %w[completion exe man mk proto sig tracee tracer tracers]
    needed = Dir.chdir(Processes::ROOT) { IO.popen(["git", "ls-files", *rooms], &:read).split("\n") }
    assert_empty needed - files - ["mk/uninstall"]
    assert_empty files.grep(/\A(?:build|tests|debian|\.(?!yardopts))/)
    assert_includes files, "LICENSE"
  end
end
