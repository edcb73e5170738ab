# What is built: an extension that needs libc and Ruby alone and shows one symbol, and an installation that is found.

require_relative "helper"
require "open3"

class BuildTest < LiveTest
  ABI = IO.popen({ "RUBY" => Shellwords.join(Processes::RUBY) }, "#{Processes::ROOT}/mk/abi", &:read)
  EXTENSION = "#{Processes::BUILD}/tracee/#{ABI}/rbprobe.so"

  def needed(path)
    IO.popen(["readelf", "--dynamic", "--wide", path], &:read).scan(/NEEDED.*\[(.*)\]/).flatten
  end

  test "the extension needs nothing but libc" do
    sanitizers = needed(EXTENSION).grep(/\Alib(?:a|ub)san/)
    assert_empty needed(EXTENSION) - sanitizers - %w[libc.so.6 libm.so.6 libpthread.so.0 ld-linux-x86-64.so.2 libc.so]
  end

  test "the extension shows its Init function, what the loader calls, and what an unreleased Ruby asks for, alone" do
    symbols = IO.popen(["nm", "--dynamic", "--defined-only", EXTENSION], &:read).lines.map { |line| line.split.last }
    assert_equal %w[Init_rbprobe rbprobe_ring rbprobe_start rbprobe_startup rbprobe_stuck_look],
                 (symbols - ["ruby_abi_version"]).sort
  end

  test "the extension can be unloaded and has no executable stack" do
    dynamic = IO.popen(["readelf", "--dynamic", "--program-headers", "--wide", EXTENSION], &:read)
    refute_match(/NODELETE/, dynamic)
    refute_match(/GNU_STACK.*RWE/, dynamic)
    refute_match(/R(?:UN)?PATH/, dynamic)
  end

  test "without libmsgpack make says what is missing, and compiles nothing" do
    env = { "PKG_CONFIG_LIBDIR" => "/nowhere", "PKG_CONFIG_PATH" => nil, "MAKEFLAGS" => nil }
    output, status = Open3.capture2e(env, "make", "-C", Processes::ROOT, "BUILD=#{directory}", "tracer")
    refute status.success?
    assert_match(/^rbprobe needs libmsgpack, which .*: sh mk\/setup build; .* msgpack-devel on Fedora, .*-dev on Alpine$/, output)
    refute_match(/^CC|error: |was not found/, output)
  end

  test "without libmsgpack's static library the extension says which packages have it" do
    skip "asks the host's compiler" if Processes::RUBY.first == "chroot"
    compiler = "#{directory}/cc"
    File.write(compiler, "#!/bin/sh\nfor word; do case $word in -print-file-name=*) echo \"${word#*=}\"; exit ;; esac; done\n" \
                         "exec gcc \"$@\"\n")
    File.chmod(0o755, compiler)
    Dir.chdir(directory) do
      output, status = Open3.capture2e(*Processes::RUBY, "-rrbconfig", "-e", "RbConfig::CONFIG['CC'] = ARGV.shift; " \
                                       "RbConfig::MAKEFILE_CONFIG['CC'] = RbConfig::CONFIG['CC']; load ARGV.shift",
                                       compiler, "#{Processes::ROOT}/tracee/extconf.rb")
      refute status.success?
      assert_match(/^libmsgpack's static library is missing; packages: libmsgpack-dev on Debian, msgpack-devel /, output)
    end
  end

  test "the extension of a Ruby that was built with link-time optimisation is built without" do
    skip "asks the host's compiler" if Processes::RUBY.first == "chroot"
    Dir.chdir(directory) do
      output, status = Open3.capture2e(*Processes::RUBY, "-rrbconfig", "-e", <<~'RUBY', "#{Processes::ROOT}/tracee/extconf.rb")
        [RbConfig::CONFIG, RbConfig::MAKEFILE_CONFIG].each do |config|
          %w[CFLAGS LDFLAGS DLDFLAGS].each { |name| config[name] = "#{config[name]} -flto=auto -ffat-lto-objects" }
        end
        load ARGV.shift
      RUBY
      assert status.success?, output
      # Its functions are called by assembly, and it has some itself.
      made = IO.popen(["make", "V=1", "tracee/engine/patch_stubs.o", "tracee/engine/patch_trial.o"], err: %i[child out], &:read)
      assert_predicate $?, :success?, made
      assert_match(/-flto=auto .*-fno-lto/, made)
      %w[patch_trial patch_stubs].each do |name|
        refute_match(/\.gnu\.lto_/, IO.popen(["readelf", "--sections", "--wide", "tracee/engine/#{name}.o"], &:read))
      end
    end
  end

  test "extension-dir names the directory from which it is loaded" do
    skip "asks the host's Ruby" if Processes::RUBY.first == "chroot"
    said = rbprobe("extension-dir", Processes::RUBY.first).stdout.chomp
    assert_equal File.realpath(File.dirname(EXTENSION)), File.realpath(said)
  end

  test "make install puts everything where it is found, and uninstall takes it away" do
    skip "tests the host's Ruby" unless Processes::RUBY == ["ruby"]
    skip "installs what is not meant to be installed" unless Processes::TARGET_ENV.empty?
    root = directory
    make = ["make", "-s", "-C", Processes::ROOT, "BUILD=#{Processes::BUILD}", "DESTDIR=#{root}", "PREFIX=/opt/rbprobe"]
    assert system(*make, "install", out: File::NULL)
    installed = Dir.glob("#{root}/**/*").select { |path| File.file?(path) }.map { |path| path.delete_prefix(root) }
    assert_includes installed, "/opt/rbprobe/bin/rbprobe"
    assert_includes installed, "/opt/rbprobe/lib/rbprobe/#{ABI}/rbprobe.so"
    assert_includes installed, "/opt/rbprobe/lib/rbprobe/rbprobe.rb"
    %w[bash-completion/completions/rbprobe zsh/site-functions/_rbprobe fish/vendor_completions.d/rbprobe.fish].each do |script|
      assert_includes installed, "/opt/rbprobe/share/#{script}"
    end
    refute_includes installed.join, "rbtrace"
    assert_includes installed, "/opt/rbprobe/share/rbprobe/tracers/sql.tracer"
    assert_match(/^sql +SQL statements/, IO.popen(["#{root}/opt/rbprobe/bin/rbprobe", "tracers"], &:read))
    named = IO.popen(["#{root}/opt/rbprobe/bin/rbprobe", "extension-dir"], &:read).chomp
    assert_equal File.realpath("#{root}/opt/rbprobe/lib/rbprobe/#{ABI}"), File.realpath(named)
    assert system("ruby", "-I", named, "-rrbprobe", "-e", "exit $LOADED_FEATURES.grep(/rbprobe.so/).any?")
    assert system(*make, "install", "RBTRACE=1", out: File::NULL)
    assert_match(/by rbprobe/, IO.popen(["#{root}/opt/rbprobe/bin/rbtrace", "--version"], &:read))
    assert_path_exists "#{root}/opt/rbprobe/share/man/man1/rbtrace.1"
    assert system(*make, "uninstall", out: File::NULL)
    assert_empty Dir.glob("#{root}/**/*").select { |path| File.file?(path) }
  end
end
