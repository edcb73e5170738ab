# Recordings of every version of the format can be read by each later rbprobe. tests/recordings has one of each version, as it
# was written then, and this says what is in it. Those files are never made anew.

require_relative "helper"

class RecordingVersionsTest < LiveTest
  FIRST = "#{Processes::ROOT}/tests/recordings/version-1.base64".freeze

  def stored(path = FIRST)
    File.read(path).unpack1("m")
  end

  def file_of(bytes)
    "#{@directory ||= directory}/old.rec".tap { |path| File.binwrite(path, bytes) }
  end

  def shown(*arguments)
    rbprobe(*arguments, env: { "TZ" => "UTC" }).tap { |result| assert_exit 0, result }
  end

  ENDED = "rbprobe: 6 calls, 2 lines, 0 lost, 1 raised, 1.1 s; ended: interrupted\n".freeze

  test "what the first version recorded is replayed as it was" do
    result = shown("replay", "-t", file_of(stored))
    assert_equal ENDED, result.stderr
    assert_equal <<~TREE, result.stdout
      18:10:56.872507 Shop#sell_all(items=[:tea, :cup])
      18:10:56.872584    Shop#sell(item=:tea, count=1)
      18:10:56.872701       shop.rb:9 count=1
                               from shop.rb:5 in Shop#sell_all
      18:10:56.872706       Shop#price(item=:tea) => 300 <0.000005>
                               from shop.rb:9 in Shop#sell
                         Shop#sell => 300 <0.000132>
                            from shop.rb:5 in Shop#sell_all
      18:10:56.872717    Shop#sell(item=:cup, count=1)
      18:10:56.872720       shop.rb:9 count=1
                               from shop.rb:5 in Shop#sell_all
      18:10:56.872720       Shop#price(item=:cup)
      18:10:56.872751          ! raised Shop::SoldOut: no cup at shop.rb:13
                                  from shop.rb:13 in Shop#price
                            Shop#price ! Shop::SoldOut: no cup <0.000032>
                               from shop.rb:9 in Shop#sell
                         Shop#sell ! Shop::SoldOut: no cup <0.000039>
                            from shop.rb:5 in Shop#sell_all
                      Shop#sell_all ! Shop::SoldOut: no cup <0.000253>
                         from shop.rb:26 in <main>
      [thread 17680 "worker 1"]
      18:10:56.873314 Shop#nap(seconds=0.01) => 0 <0.011918>
                         from shop.rb:30 in block in <main>
    TREE
  end

  test "its figures are what they were" do
    result = shown("report", file_of(stored))
    assert_equal ENDED, result.stderr
    assert_equal <<~TABLE, result.stdout
      process 17634, 1.1 s: 6 calls of 4 methods
           calls  errors   total    self    mean     min     p50     p90     p99   p99.9     max  method
               1       0  11.9ms  11.9ms  11.9ms  11.9ms  11.9ms  11.9ms  11.9ms  11.9ms  11.9ms  Shop#nap
               1       1   253us  81.4us   253us   253us   253us   253us   253us   253us   253us  Shop#sell_all
               2       1   171us   134us  85.7us  39.5us  39.5us   132us   132us   132us   132us  Shop#sell
               2       1  37.6us  37.6us  18.8us  5.47us  5.47us  32.0us  32.0us  32.0us  32.1us  Shop#price
    TABLE
    tree = shown("report", "-q", "--tree", file_of(stored)).stdout.scan(/  (?= *Shop)( *Shop.*\n)/).join
    assert_equal <<~TREE, tree
      Shop#nap
      Shop#sell_all
         Shop#sell
            Shop#price
    TREE
  end

  test "it is exported as it was, and what it has is said" do
    file = file_of(stored)
    assert_equal <<~STACKS, shown("export", file, "--to", "collapsed").stdout
      Shop#nap 11918
      Shop#sell_all 81
      Shop#sell_all;Shop#sell 134
      Shop#sell_all;Shop#sell;Shop#price 38
    STACKS
    spans = JSON.parse(shown("export", file, "--to", "chrome").stdout)
    assert_equal [6, 0], spans["otherData"].values_at("calls", "lost")
    assert_equal <<~INFO, shown("replay", "--info", file).stdout
      recorded by rbprobe 0.1.0 on vm, 2026-11-26 18:10:56
      selectors: Shop# shop.rb:9(count)
      process 17634: Ruby 3.1.2, ruby shop.rb
         15 events from 2026-11-26 18:10:56 on, 0.0 s; 779 B in 3 blocks, 1262 B unpacked; ended: interrupted
    INFO
  end

  # That of its head: msgpack has a small number as one byte.
  def with_version(number)
    stored.sub("\xA7version\x01".b, "\xA7version#{number.chr}".b)
  end

  test "a file of a later version is refused, with a line that says what can read it" do
    refute_equal stored, with_version(2)
    file = file_of(with_version(2))
    line = "rbprobe: #{file} has version 2 of the format, and this rbprobe knows none after 1: use the rbprobe that wrote it " \
           "(0.1.0), or a later one\n"
    [%w[replay], %w[replay --info], %w[report], %w[export --to collapsed], %w[export --to html]].each do |words|
      result = rbprobe(*words, file)
      assert_exit 1, result
      assert_equal ["", line], [result.stdout, result.stderr], words.join(" ")
    end
    result = rbprobe("record", "-p", start("shop").pid.to_s, "-a", "-o", file, "Shop#")
    assert_exit 1, result
    assert_includes result.stderr, "cannot append to it: #{line.delete_prefix("rbprobe: ").chomp}"
    assert_equal with_version(2), File.binread(file)
  end
end
