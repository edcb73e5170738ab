# What `require "rbprobe"` finds first: picks the extension that was built for the Ruby that asks.

require "rbconfig"

begin
  libc = RUBY_PLATFORM.include?("musl") ? "-musl" : ""
  require_relative "#{RbConfig::CONFIG["ruby_version"]}#{libc}/rbprobe.so"
rescue LoadError => e
  raise LoadError, "rbprobe has not been built for #{RUBY_ENGINE} #{RUBY_VERSION}; " \
                   "`make RUBY=#{RbConfig.ruby}` builds it (#{e.message})"
end
