# What sanitizers have reported of targets and clients. RBPROBE_REPORTS is the directory of their log_path: on a standard
# error that nobody reads, a report would be lost.

module SanitizerReports
  DIRECTORY = ENV["RBPROBE_REPORTS"]

  # Said once by a process that raises on a fiber's stack, of which ASan does not know: it cannot forget what it noted about
  # the frames that are left. It has noted nothing: no stack of Ruby's and of the extension is instrumented.
  HARMLESS = /^==.*==WARNING: ASan is ignoring requested __asan_handle_no_return.*\nFalse positive .*\nFor details see .*\n/

  module_function

  # All since the last time; nil where there is none. A process may go on to write into its file, after the bytes that are
  # taken away here.
  def take
    return unless DIRECTORY

    texts = Dir["#{DIRECTORY}/*"].sort.map do |path|
      text = File.read(path).delete("\0").scrub.gsub(HARMLESS, "")
      File.truncate(path, 0)
      "#{File.basename(path)}:\n#{text}" unless text.strip.empty?
    end.compact
    texts.join("\n") if texts.any?
  end

  # Whether a process has this file open for its reports.
  def file?(path)
    DIRECTORY && path.start_with?("#{DIRECTORY}/")
  end
end
