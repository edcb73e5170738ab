# Ways to run a Ruby that change its VM: the same is seen in each.

require_relative "helper"

class ModesTest < LiveTest
  JEMALLOC = Dir["#{Processes::TARGET_ROOT}/usr/lib/*/libjemalloc.so.2"].first&.delete_prefix(Processes::TARGET_ROOT.chomp("/"))
  MODES = {
    "YJIT" => [["--yjit"], {}, "RubyVM::YJIT.enabled?"],
    "ZJIT" => [["--zjit"], {}, "RUBY_DESCRIPTION.include?('+ZJIT')"],
    "parse.y" => [["--parser=parse.y"], {}, "!RUBY_DESCRIPTION.include?('PRISM')"],
    "threads M:N" => [[], { "RUBY_MN_THREADS" => "1" }, "RUBY_DESCRIPTION.include?('+MN')"],
    "jemalloc" => [[], { "LD_PRELOAD" => JEMALLOC }, "File.read('/proc/self/maps').include?('jemalloc')"],
  }.freeze

  def only_where_it_exists(options, env, holds)
    there = system({ **Processes::TARGET_ENV, **env }, *Processes::RUBY, *options, "-e", "exit((#{holds}) ? 0 : 1)",
                   err: File::NULL)
    skip "this Ruby has no such mode" unless there
  end

  MODES.each do |name, (options, env, holds)|
    test "loaded, traced, counted, evaluated, walked over: #{name}" do
      only_where_loading_is_possible
      only_where_it_exists(options, env, holds)
      target = start("shop", load: false, ruby_options: options, env: env)
      pid = target.pid.to_s
      assert_exit 0, rbprobe("load", "-p", pid)
      target.run("Thread.new { sleep }; 50.times { $shop.price(:warm) }; nil")
      tracer = trace(target, "Shop#price(item)", "String#swapcase")
      target.run("$shop.price(:tea); 'a'.swapcase")
      assert_equal "Shop#price(item=:tea) <time>\nString#swapcase <time>\n", tracer.stop.tree
      assert_equal "2\n", rbprobe("eval", "-p", pid, "1 + 1").stdout
      assert_match(/^thread .*main.*(?:\n   .*)*in .*gets/, rbprobe("bt", "-p", pid).stdout)
      dump = "#{directory_of_target.first}/heap.json"
      assert_exit 0, rbprobe("heap", "dump", "-q", "-p", pid, "-o", dump)
      assert_match(/ Shop$/, rbprobe("heap", "report", "--top", "1000", dump).stdout)
      assert_equal '"as before"', target.run('"as before"')
    end
  end
end
