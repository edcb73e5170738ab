# Ways to run a Ruby that change its VM: the same is seen in each.

require_relative "helper"

class ModesTest < LiveTest
  JEMALLOC = Dir["#{Processes::TARGET_ROOT}/usr/lib/*/libjemalloc.so.2"].first&.delete_prefix(Processes::TARGET_ROOT.chomp("/"))
  MODES = {
    "YJIT" => [["--yjit"], {}, "RubyVM::YJIT.enabled?"],
    "ZJIT" => [["--zjit"], {}, "RUBY_DESCRIPTION.include?('+ZJIT')"],
    "parse.y" => [["--parser=parse.y"], {}, "!RUBY_DESCRIPTION.include?('PRISM')"],
    # Of 3.3 it was an experiment, as that says itself.
    "Prism" => [["--parser=prism"], {}, "RUBY_DESCRIPTION.include?('PRISM') && RUBY_VERSION >= '3.4'"],
    "a box" => [[], { "RUBY_BOX" => "1", "RUBYOPT" => "-W:no-experimental" }, "Ruby::Box.enabled?"],
    "threads M:N" => [[], { "RUBY_MN_THREADS" => "1" }, "RUBY_DESCRIPTION.include?('+MN')"],
    "jemalloc" => [[], { "LD_PRELOAD" => JEMALLOC }, "File.read('/proc/self/maps').include?('jemalloc')"],
  }.freeze

  def only_where_it_exists(options, env, holds)
    there = system({ **Processes::TARGET_ENV, **env }, *Processes::RUBY, *options, "-e", "exit((#{holds}) ? 0 : 1)",
                   err: File::NULL)
    skip "this Ruby has no such mode" unless there
  end

  def assert_counted(target)
    counter = launch("stat", "-v", "-p", target.pid.to_s, "Shop#price").wait_until_armed
    target.run("200.times { $shop.price(:tea) }")
    assert_match(/^ +200 +0 .* Shop#price$/, counter.stop.stdout)
  end

  def assert_recorded(target)
    file = "#{directory}/rec"
    client = launch("record", "-v", "-p", target.pid.to_s, "-o", file, "--args", "--return", "Shop#price").wait_until_armed
    target.run("$shop.price(:tea)")
    assert_exit 0, client.stop
    assert_match(/\AShop#price\(item=:tea\) => \d+ </, rbprobe("replay", "-q", file).stdout)
  end

  def assert_sampled(target)
    target.run("$computes = Thread.new { loop { 500.times { $shop.price(:tea) } } }; 1")
    sampled = rbprobe("profile", "-q", "-p", target.pid.to_s, "--duration", "0.5")
    assert_match(/^ .* (Shop#price|block .*) \S+:\d+$/, sampled.stdout)
    target.run("$computes.kill.join; 1")
  end

  MODES.each do |name, (options, env, holds)|
    test "loaded, traced, counted, recorded, sampled, evaluated, walked over: #{name}" do
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
      assert_counted(target)
      assert_recorded(target)
      assert_sampled(target)
      assert_match(/^thread .*main.*(?:\n   .*)*in .*gets/, rbprobe("bt", "-p", pid).stdout)
      dump = "#{directory_of_target.first}/heap.json"
      assert_exit 0, rbprobe("heap", "dump", "-q", "-p", pid, "-o", dump)
      assert_match(/ Shop$/, rbprobe("heap", "report", "--top", "1000", dump).stdout)
      assert_equal '"as before"', target.run('"as before"')
    end
  end
end
