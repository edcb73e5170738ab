# The source tree of a Ruby: RUBY_SOURCE, or else Debian's source package, which is fetched once into the build directory.
# As a program, it prints the directory of that of RBPROBE_RUBY: ruby tests/ruby_source.rb

require "fileutils"
require "open3"
require "shellwords"

module RubySource
  module_function

  def output_of(*command)
    Open3.capture2(*command).then { |output, status| status.success? ? output : raise("#{Shellwords.join(command)} failed") }
  end

  def version(ruby)
    output_of(*ruby, "--disable=gems", "-e", "print RUBY_VERSION")
  end

  # ruby: the command that starts it, which may begin with "chroot DIRECTORY". Raises where no source can be had.
  def directory(ruby, build)
    return File.expand_path(ENV["RUBY_SOURCE"]) if ENV["RUBY_SOURCE"]

    directory = "#{build}/conformance/ruby-#{version(ruby)}"
    return directory if File.exist?("#{directory}/.complete")

    FileUtils.rm_rf(directory)
    FileUtils.mkdir_p(directory)
    fetch(ruby, directory)
    FileUtils.touch("#{directory}/.complete")
    directory
  end

  # The package source of the host's apt, for Debian's release in which that Ruby is.
  def fetch(ruby, directory)
    series = version(ruby)[/\d+\.\d+/]
    root = ruby.first == "chroot" ? ruby[1] : ""
    codename = File.read("#{root}/etc/os-release")[/^VERSION_CODENAME=(\w+)/, 1]
    apt = apt_for(codename, directory)
    Dir.chdir(directory) do
      log = "#{directory}/apt.log"
      system(*apt, "update", %i[out err] => log) &&
        system(*apt, "source", "--download-only", "ruby#{series}", %i[out err] => [log, "a"]) or
        raise "the source package ruby#{series} of Debian #{codename} cannot be had (#{log}); set RUBY_SOURCE to a source tree " \
              "of Ruby #{version(ruby)}"
      system("tar", "-xf", Dir["*.orig.tar.*"].first, "--strip-components=1") or raise "tar failed"
    end
  end

  # apt-get, with lists of its own in that directory.
  def apt_for(codename, directory)
    targets = output_of("apt-get", "indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages")
    mirror = targets.lines.map(&:split).find { |_, release, component| component == "main" && release !~ /-/ } or
      raise "apt names no mirror; set RUBY_SOURCE"
    FileUtils.mkdir_p(%w[parts lists cache/archives/partial].map { |name| "#{directory}/apt/#{name}" })
    File.write("#{directory}/apt/parts/source.sources", <<~SOURCES)
      Types: deb-src
      URIs: #{mirror.first}
      Suites: #{codename}
      Components: main
      Signed-By: #{Dir["/usr/share/keyrings/debian-archive-keyring.*"].first}
    SOURCES
    ["apt-get", "-q", "-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=#{directory}/apt/parts",
     "-o", "Dir::State::lists=#{directory}/apt/lists", "-o", "Dir::Cache=#{directory}/apt/cache", "-o", "APT::Sandbox::User=root"]
  end
end

if $PROGRAM_NAME == __FILE__
  build = File.expand_path(ENV.fetch("RBPROBE_BUILD", "build"), File.expand_path("..", __dir__))
  begin
    puts RubySource.directory(Shellwords.split(ENV.fetch("RBPROBE_RUBY", "ruby")), build)
  rescue StandardError => e
    abort "ruby source: #{e.message}"
  end
end
