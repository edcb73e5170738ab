# What `require "rbprobe"` finds first: picks the extension that was built for the Ruby that asks.

require "rbconfig"

begin
  require_relative "#{RbConfig::CONFIG["ruby_version"]}/rbprobe.so"
rescue LoadError => e
  raise LoadError, "rbprobe has not been built for #{RUBY_ENGINE} #{RUBY_VERSION}; " \
                   "`make RUBY=#{RbConfig.ruby}` builds it (#{e.message})"
end
