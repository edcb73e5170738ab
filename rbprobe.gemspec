# The gem: both halves, which `gem install` builds by tracee/extconf.rb and the Makefile.

Gem::Specification.new do |spec|
  spec.name = "rbprobe"
  spec.version = File.read(File.expand_path("proto/names.h", __dir__))[/RBPROBE_VERSION "(.*)"/, 1]
  spec.summary = "Attach to a running Ruby process by PID, and see what it does"
  spec.description = "Method calls with arguments and results, backtraces, memory, the heap, and Ruby code evaluated in the " \
                     "process, which does not have to be prepared for it. Linux, CRuby 2.7 and newer."
  spec.authors = ["the rbprobe authors"]
  spec.licenses = ["MIT"]
  spec.required_ruby_version = ">= 2.7"
  spec.requirements = ["Linux", "gcc, make, pkg-config", "libmsgpack with its static library"]

  spec.files = Dir.chdir(__dir__) do
    Dir["{*.md,.yardopts,LICENSE,Makefile,rbprobe.gemspec}", "{completion,doc,exe,man,mk,proto,sig,tracee,tracer,tracers}/**/*"]
      .select { |path| File.file?(path) }.sort - ["tracee/Makefile", "mk/uninstall"]
  end
  spec.bindir = "exe"
  spec.executables = ["rbprobe"]
  spec.extensions = ["tracee/extconf.rb"]
  spec.metadata = { "rubygems_mfa_required" => "true" }
end
