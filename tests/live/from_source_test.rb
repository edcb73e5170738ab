# tests/matrix/from_source: Rubies built of sources for the matrix. Sources that take no time to build stand in for Ruby's.

require_relative "helper"
require "open3"

class FromSourceTest < LiveTest
  # What is "built" is a program that prints with which arguments it was configured and made.
  CONFIGURE = <<~'SCRIPT'.freeze
    #!/bin/sh
    printf '%s\n' "$@" >configured
    printf 'main:\n\techo "bundled-gems=$(bundled-gems) git=$(HAVE_GIT)" >made\n' >Makefile
    printf 'install-nodoc:\n\tmkdir -p %s/bin\n\tcat configured made >%s/bin/ruby\n' "${1#--prefix=}" "${1#--prefix=}" >>Makefile
    printf 'bundled-gems := fetched-1.0\nHAVE_GIT = yes\n' >>Makefile
  SCRIPT

  def setup
    super
    skip "tests the host's Ruby" unless Processes::RUBY == ["ruby"]
    @clone = directory
    @built = directory
    git!("init", "--quiet", "--initial-branch=master")
    commit("configure" => CONFIGURE)
    git!("branch", "ruby_3_2")
  end

  def git!(*arguments)
    assert system("git", "-C", @clone, "-c", "user.name=x", "-c", "user.email=x", *arguments), arguments.inspect
  end

  def commit(files)
    files.each { |name, text| File.write("#{@clone}/#{name}", text, perm: 0o755) }
    git!("add", "--all")
    git!("commit", "--quiet", "--message", "one")
  end

  def from_source(source, variant)
    Open3.capture3("#{Processes::ROOT}/tests/matrix/from_source", source, variant, @built)
  end

  # What the Ruby that it names was configured and made with.
  def built(source, variant)
    path, errors, status = from_source(source, variant)
    assert status.success?, errors
    [File.read(path.chomp).lines(chomp: true) - ["--enable-yjit"], errors.include?("building")]
  end

  def assert_refused_source(pattern, source, variant)
    output, errors, status = from_source(source, variant)
    assert_equal ["", false], [output, status.success?]
    assert_match pattern, errors
  end

  test "a source tree is built once, without bundled gems, and stays as it is" do
    lines, first = built(@clone, "shared")
    assert_includes lines, "--enable-shared"
    assert_equal ["bundled-gems= git=no"], lines.grep(/gems/)
    assert_empty lines.grep(/optflags|LDFLAGS/)
    assert first
    refute built(@clone, "shared").last
    assert_empty IO.popen(["git", "-C", @clone, "status", "--porcelain"], &:read)
  end

  test "variants are put together by a plus" do
    lines, = built(@clone, "static+cf+lto+jemalloc")
    wanted = ["--with-jemalloc", "--disable-shared", "optflags=-O2 -fcf-protection=full -flto=auto -ffat-lto-objects",
              "LDFLAGS=-flto=auto", "AR=gcc-ar"]
    assert_empty wanted - lines
    refute_includes lines, "--enable-shared"
    # What configures the libraries is linked without it.
    compiler = lines.grep(/\ACC=/).first.delete_prefix("CC=")
    here = directory
    %w[conftest.c program.c].zip([false, true]) do |name, optimised|
      File.write("#{here}/#{name}", "int main(void) { return 0; }")
      assert system(compiler, "-flto", "-c", name, "-o", "#{name}.o", chdir: here)
      sections = IO.popen(["readelf", "--sections", "--wide", "#{here}/#{name}.o"], &:read)
      assert_equal optimised, sections.include?(".gnu.lto_"), name
    end
    assert_refused_source(/\Ano variant fast; there are shared, static, jemalloc, cf, lto\n\z/, @clone, "static+fast")
  end

  test "a revision of a clone is built, and built anew when it is another commit" do
    bare = directory
    assert system("git", "clone", "--quiet", "--bare", @clone, "#{bare}/ruby.git")
    assert built("#{bare}/ruby.git@ruby_3_2", "shared").last
    refute built("#{bare}/ruby.git@ruby_3_2", "shared").last
    assert built("#{@clone}@ruby_3_2", "shared").last
    commit("README" => "more")
    git!("branch", "--force", "ruby_3_2")
    assert built("#{@clone}@ruby_3_2", "shared").last
    assert_refused_source(/\Ano revision nope in /, "#{@clone}@nope", "shared")
  end

  test "what does not build says so, with the end of its log, and is tried again" do
    commit("configure" => "#!/bin/sh\necho that is not there\nexit 1\n")
    2.times { assert_refused_source(/^that is not there\n.*does not build; all of it is in/, @clone, "shared") }
  end
end
