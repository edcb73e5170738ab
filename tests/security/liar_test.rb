# A process that has loaded no extension, speaks its protocol all the same, and lies: its client ends with a line that says
# so, in bounded memory.

require_relative "helper"
require "socket"

class LiarTest < SecurityTest
  COMMANDS = {
    "trace" => ["trace", "-v", "--duration", "20", "String#x"],
    "json" => ["trace", "--format", "json", "--duration", "20", "String#x"],
    "measured" => %w[trace -v --measure cpu,alloc,gc --gc --raise --slow 1 --duration 20 String#x],
    "measured json" => %w[trace --format json --measure cpu,alloc,gc --gc --raise --duration 20 String#x],
    "stat" => %w[stat --by caller --measure cpu,alloc,gc --duration 20 --interval 0.5 --histogram String#x],
    "stat json" => %w[stat --by caller --measure cpu,alloc,gc --duration 20 --interval 0.5 --format json --histogram String#x],
    "stat prometheus" => %w[stat --by caller --measure cpu,gc --duration 20 --interval 0.5 --format prometheus --sum String#x],
    "stat tree" => %w[stat --tree --measure cpu --duration 20 --interval 0.5 String#x],
    "stat tree json" => %w[stat --tree --duration 20 --interval 0.5 --format json --sum String#x],
    "methods" => ["methods", "String#x"],
    "eval" => ["eval", "--timeout", "20", "1"],
    "eval json" => ["eval", "--timeout", "20", "--format", "json", "1"],
    "backtrace" => ["backtrace", "--timeout", "20"],
    "backtrace grouped" => ["backtrace", "--group", "--timeout", "3"],
    "profile" => %w[profile --threads --duration 20],
    "profile json" => %w[profile --gvl --format json --duration 20],
    "timeline" => %w[trace --timeline --format json --duration 20 String#x],
    "memory" => ["memory", "--timeout", "20"],
    "heap dump" => ["heap", "dump", "--timeout", "20", "-o", "/dev/null"],
    "fork" => ["fork", "--timeout", "20"],
    "selftest" => ["selftest", "--timeout", "20"],
    "console" => ["console", "--timeout", "20"],
  }.freeze

  # What it says, to which commands, and what they say about it.
  {
    "methods" => [%w[trace json], /has announced methods, fibers and open calls of more than 512 MiB/],
    "deep" => [%w[trace], /has sent becomes more than 2000 times as much when it is shown/],
    "harmful-fibers" => [%w[json], /has announced methods, fibers and open calls of more than 512 MiB/],
    "fibers" => [%w[trace json],
                 /has announced methods, fibers and open calls of more than 512 MiB|with the number \d+; at most/],
    "output" => [["eval json"], /wrote more than 64 MiB, which --format json would have to keep in memory/],
    "statistics-for-ever" => [["stat", "stat json"], /figures of more than 128 MiB/],
    "statistics-of-nothing" => [["stat", "stat prometheus"], /figures of a method \(1\) that was not announced/],
    "statistics-below-nothing" => [["stat tree", "stat json"], /figures below some \(18446744073709551615\) that were not sent/],
    "mark-of-nothing" => [["measured", "measured json"], /an event of a method \(77\) that was not announced/],
    "sums" => [["profile", "profile json"], /sends a profile that is none/],
    "names" => [["profile", "profile json"], /sends a profile that is none/],
    "data" => [["backtrace", "selftest", "console"], /answers one request with more than 64 MiB/],
    "zeroes" => [["heap dump"], /announced a pipe and sent something else/],
    "linger" => [["heap dump"], /announced a pipe and sent something else/],
    "endless-dump" => [["heap dump"], /has sent more \(\d+\.\d GiB\) than a dump of its memory can be; nothing was kept/],
    "huge" => [COMMANDS.keys, /malformed stream: a record of 4294967295 bytes; the limit is/],
    "half" => [COMMANDS.keys - ["methods"],
               /went away|left without|ended before|has ended|called exec|replaced itself|closed the connection/],
  }.each do |lie, (commands, complaint)|
    commands.each do |name|
      test "#{lie}: #{name}" do
        result = hear_of(lie, name)
        refute_equal 0, result.status
        assert_includes [1, 3, 4], result.status, result.stderr[-2000..]
        assert_equal 1, result.stderr.lines.grep(complaint).size, result.stderr[-2000..]
      end
    end
  end

  test "one method announced for ever takes no more memory than once" do
    liar = start_liar("one-method")
    tracer = run_bounded(*COMMANDS["trace"], liar.pid)
    # Where nothing is let go of, that is a gigabyte.
    wait_until("much was sent") { Processes.clock_ticks_of(tracer.pid) > 150 }
    assert_operator Processes.resident_kib_of(tracer.pid), :<, 400_000
    tracer.signal(:INT)
    tracer.wait
  end

  test "calls that are open at the end are shown as far as that is not a flood" do
    liar = start_liar("deep")
    tracer = run_bounded("trace", "--format", "json", "-o", File::NULL, "--duration", "1", "String#x", liar.pid)
    assert_match(/ \d+ open calls are not shown: the output would be more than 2000 times what the process has sent$/,
                 tracer.wait(60).stderr)
  end

  test "figures that cannot be" do
    ["stat", "stat json", "stat prometheus", "stat tree", "stat tree json"].each do |name|
      (name.include?("tree") ? 16 : 8).times do |which|
        result = hear_of("statistics", name, which)
        assert_includes [0, 1], result.status, "#{name}, #{which}: #{result.stderr[-2000..]}"
        shows_no_commands(result)
        result.objects if name.end_with?("json")
        assert_includes result.stdout, "mmmm#mmmm"
      end
    end
  end

  test "a tree of calls as deep as it is long" do
    ["stat tree", "stat tree json", "stat"].each do |name|
      result = hear_of("deep-statistics", name)
      assert_includes [0, 1], result.status, result.stderr[-2000..]
      shows_no_commands(result)
      assert_operator result.stdout.lines.grep(/mmmm#mmmm/).size, :>=, 1
    end
  end

  test "a profile with numbers that cannot be" do
    ["profile", "profile json"].each do |name|
      result = hear_of("profile", name)
      assert_exit 0, result
      shows_no_commands(result)
      result.objects if name.end_with?("json")
      assert_includes result.stdout, "</script>"
    end
  end

  test "a profile in which one calls a quarter of a million others is added up in time" do
    result = hear_of("wide-profile", "profile")
    assert_exit 0, result
    assert_includes result.stdout, "f24999"
  end

  test "who waited for whom, for ever, ends when it should" do
    result = run_bounded("profile", "--duration", "1", start_liar("pairs").pid).wait(60)
    assert_match(/ did not end the request when asked to/, result.stderr)
  end

  test "what threads do at times that cannot be, and what is made of it" do
    result = hear_of("states", "timeline")
    assert_exit 0, result
    shows_no_commands(result)
    refute_empty result.objects
    file = "#{directory}/recording"
    liar = start_liar("states")
    run_bounded("record", "--timeline", "-o", file, "String#x", liar.pid).wait(60)
    %w[html chrome perfetto otlp pprof svg].each do |format|
      made = rbprobe("export", file, "--to", format, "-o", "#{file}.#{format}")
      assert_exit 0, made
      shows_no_commands(made)
    end
    %w[html svg].each { |format| refute_includes File.binread("#{file}.#{format}"), "<script>alert" }
    JSON.parse(File.read("#{file}.chrome"))
  end

  { "marks" => "raised", "measures" => "String#x never matched" }.each do |lie, word|
    ["measured", "measured json", "trace", "json"].each do |name|
      test "#{lie} that mean nothing: #{name}" do
        result = hear_of(lie, name)
        assert_includes [0, 1], result.status, result.stderr[-2000..]
        assert_includes result.stderr, word if name.start_with?("measured")
        shows_no_commands(result)
        result.objects if name.end_with?("json")
      end
    end
  end

  test "a descriptor that nobody asked for is not waited for, whatever closing it means" do
    skip "this kernel lets nobody refuse descriptors" unless descriptors_can_be_refused?
    liar = start_liar("linger")
    tracer = run_bounded("trace", "--duration", "1", "String#x", liar.pid)
    assert_match(/ended: --duration reached/, tracer.wait(60).stderr)
  end

  test "a report of tens of thousands of types and classes" do
    result = hear_of("types", "memory")
    assert_exit 0, result
    assert_operator result.stdout.lines.size, :<, 100
  end

  test "a backtrace of hundreds of thousands of threads" do
    result = hear_of("threads", "backtrace grouped")
    assert_exit 0, result
    assert_match(/\Ax300000 .*:\n   .* and 299992 more\n\z/, result.stdout)
  end

  test "native stacks of 130 MB are copied as far as 64 MiB, and the rest is said to be missing" do
    liar = start_liar("deep-stacks")
    tracer = launch("backtrace", "--full", "--format", "json", "-p", liar.pid.to_s)
    most = 0
    while (now = Processes.status_of(tracer.pid, "VmHWM"))
      most = now.to_i
    end
    result = tracer.wait(60)
    assert_exit 0, result
    assert_includes 5_000..100_000, most, "KiB" if Processes::TARGET_ENV.empty?
    assert_equal "rbprobe: process #{liar.pid}: some frames are missing: its threads' stacks are larger than 64 MiB in all\n",
                 result.stderr
    threads = result.objects.select { |object| object["type"] == "native" }
    assert_equal 301, threads.size
    cut, whole = threads.partition { |thread| thread["more"] }
    refute_empty cut
    assert_operator whole.size, :>, 100
    (cut + whole).each { |thread| refute_empty thread["frames"] }
    deep = whole.map { |thread| thread["frames"].count { |frame| frame["function"] == "deep_call" } }
    assert_equal [0] + [56] * (whole.size - 1), deep.sort
    assert_equal 0, threads.sum { |thread| thread["frames"].count { |frame| frame["after_gap"] } }
  end

  test "a PID that is no copy's is not printed" do
    own = spawn("sleep", "1000")
    [own, 1, Process.pid, 0, 4_000_000].each do |pid|
      result = hear_of("fork", "fork", pid)
      assert_exit 1, result
      assert_equal "", result.stdout
      assert_match(
        /\Arbprobe: process \d+ says that its copy has the PID #{pid}, but that process is no new copy of it\n\z/,
        result.stderr
      )
    end
  ensure
    Process.kill(:KILL, own)
    Process.wait(own)
  end

  test "records that mean nothing, damaged, in any order" do
    with_seed do |seed|
      tries(5).times do |i|
        COMMANDS.each_key do |name|
          result = hear_of("random", name, seed + i)
          assert_includes [0, 1, 3, 4], result.status, "seed #{seed + i}, #{name}: #{result.stderr[-2000..]}"
          refute_match(/out of memory|Sanitizer|runtime error/, result.stderr, "seed #{seed + i}, #{name}")
        end
      end
    end
  end

  private

  SO_PASSRIGHTS = 83 # since Linux 6.16

  def descriptors_can_be_refused?
    UNIXSocket.pair { |one, _| one.setsockopt(Socket::SOL_SOCKET, SO_PASSRIGHTS, 0) }
    true
  rescue Errno::ENOPROTOOPT
    false
  end

  # Nothing that a terminal takes for more than a text.
  def shows_no_commands(result)
    [result.stdout, result.stderr].each do |text|
      assert_predicate text, :valid_encoding?
      refute_match(/[[:cntrl:]&&[^\n\t]]/, text)
    end
    refute_match(/Sanitizer|runtime error/, result.stderr)
  end

  def start_liar(lie, argument = 1)
    place = directory.tap { |path| File.chmod(0o777, path) }
    abi = RbConfig::CONFIG["ruby_version"]
    FileUtils.mkdir_p("#{place}/ruby/#{abi}")
    File.chmod(0o777, "#{place}/ruby/#{abi}")
    FileUtils.cp(program("liar"), "#{place}/rbprobe.so")
    start_as(user, "#{place}/rbprobe.so", place, abi, lie, argument).tap { |liar| liar.expect("ready") }
  end

  # A sanitizer takes terabytes of addresses for itself.
  def run_bounded(*arguments, pid)
    launch(*arguments.insert(arguments[0] == "heap" ? 2 : 1, "-p", pid.to_s),
           command: Processes::TARGET_ENV.empty? ? ["prlimit", "--as=#{2 << 30}"] : [])
  end

  def hear_of(lie, name, argument = 1)
    liar = start_liar(lie, argument)
    run_bounded(*COMMANDS[name], liar.pid).wait(60)
  ensure
    liar&.kill
    @attackers.delete(liar)
    remove_queues_of(liar.user) if liar
  end
end
