# rbprobe -c and rbprobe tracers: sets of selectors with a name, their files, and those that ship for Ruby itself and sqlite3.

require_relative "helper"
require_relative "stat_rows"
require "open3"

class TracersTest < LiveTest
  include StatRows

  SHIPPED = %w[exceptions gc http io jobs locks memcached mongo rack rails redis sql].freeze

  # A file of this text. The directory is the test's own: root's, where root runs it.
  def tracer_file(text, name: "own.tracer", mode: 0o644)
    "#{directory}/#{name}".tap do |path|
      File.write(path, text)
      File.chmod(mode, path)
    end
  end

  def short(tree)
    tree.gsub("ActiveRecord::ConnectionAdapters::AbstractAdapter", "Adapter")
  end

  def with_sqlite
    only_with_gems("active_record", "sqlite3")
    start("console").tap do |target|
      target.run(<<~RUBY)
        require "active_record"
        ActiveRecord::Base.establish_connection(adapter: "sqlite3", database: ":memory:")
        ActiveRecord::Base.connection.create_table(:orders) { |t| t.string :name }
        class Order < ActiveRecord::Base; end
        $raw = SQLite3::Database.new(":memory:")
        $raw.execute("create table items (name)")
        3.times { |n| Order.create!(name: "cup \#{n}") }
        nil
      RUBY
    end
  end

  test "sql: each statement and its binds, once" do
    target = with_sqlite
    tracer = trace(target, "-c", "sql")
    target.run("Order.find_by(name: %q(it's)); $raw.execute('insert into items values (?)', ['pot']); nil")
    assert_equal <<~'TREE', short(tracer.stop.tree)
      Adapter#log(sql="SELECT \"orders\".* FROM \"orders\" WHERE \"orders\".\"name\" = ? LIMIT ?", binds=["it's", 1]) <time>
      SQLite3::Database#execute(sql="insert into items values (?)", binds=["pot"]) <time>
    TREE
  end

  test "stat --by statement counts what differs in literals alone together: the N+1" do
    target = with_sqlite
    counter = stat(target, "--format", "json", "-c", "sql", "--by", "statement")
    wanted = "id = \#{n} or name = 'cup \#{n}' or id in (1, 2, 3)"
    target.run("(1..3).each { |n| Order.find(n); Order.where(%Q(#{wanted})).to_a }; nil")
    rows = rows_of(counter.stop).map { |row| row.values_at("calls", "key") }
    assert_equal [[3, '"SELECT \"orders\".* FROM \"orders\" WHERE (id = ? or name = ? or id in (?, ...))"'],
                  [3, '"SELECT \"orders\".* FROM \"orders\" WHERE \"orders\".\"id\" = ? LIMIT ?"']], rows.sort
    assert_refused 2, /stat shows no values: leave out the parentheses of Order#save\(total\)/, "stat", "-p",
                   target.pid.to_s, "-c", "sql", "--by", "statement", "Order#save(total)"
  end

  test "a mark of the encoding is no part of the first line, and what is no UTF-8 is named with its place" do
    target = start("console")
    target.run("class Work; def run(n) end; end")
    tracer = trace(target, "-c", tracer_file("\uFEFFWork#run(n)\n"))
    target.run("Work.new.run(7)")
    assert_equal "Work#run(n=7) <time>\n", tracer.stop.tree
    path = tracer_file("Work#run\n\xff\xfe#run\n")
    assert_refused 2, /\A\S+: #{Regexp.escape(path)}:2: this line is no UTF-8\n\z/, "trace", "-p", target.pid.to_s, "-c", path
  end

  test "stat --by takes an expression by its label, and where it has none by its text" do
    target = start("console")
    target.run("class Work; def bare(n) end; def labelled(s) end; end")
    path = tracer_file("Work#bare(n)\nWork#labelled(n: s)\n")
    counter = stat(target, "--format", "json", "-c", path, "--by", "n")
    target.run("Work.new.bare(7); Work.new.labelled(8); nil")
    assert_equal [%w[Work#bare 7], %w[Work#labelled 8]], rows_of(counter.stop).map { |row| row.values_at("method", "key") }.sort
  end

  test "several tracers after one -c" do
    config = directory
    FileUtils.mkdir_p("#{config}/rbprobe/tracers")
    File.write("#{config}/rbprobe/tracers/save.tracer", "Work#save(n)\n")
    File.write("#{config}/rbprobe/tracers/load.tracer", "Work#load(n)\n")
    File.write("#{config}/save,load.tracer", "Work#both\n")
    target = start("console")
    target.run("class Work; def save(n); load(n); end; def load(n); both; end; def both; 1; end; end; nil")
    own = {"XDG_CONFIG_HOME" => config}
    tracer = launch("trace", "-v", "-p", target.pid.to_s, "-c", "save,load", env: own).wait_until_armed
    target.run("Work.new.save(7)")
    assert_equal "Work#save(n=7)\n   Work#load(n=7) <time>\nWork#save <time>\n", tracer.stop.tree
    assert_match(/there is no tracer "sav"; did you mean save\?/,
                 rbprobe("trace", "-p", target.pid.to_s, "-c", "load,sav", env: own).stderr)
    tracer = trace(target, "-c", "#{config}/save,load.tracer")
    target.run("Work.new.save(7)")
    assert_equal "Work#both <time>\n", tracer.stop.tree
  end

  test "a tracer goes with selectors, whose calls stand around its own" do
    target = with_sqlite
    target.run("class Shop; def sell(id) Order.find(id) end; end")
    tracer = trace(target, "-c", "sql", "Shop#sell(number: id + 1)")
    target.run("Shop.new.sell(1); nil")
    assert_equal <<~'TREE', short(tracer.stop.tree)
      Shop#sell(number=2)
         Adapter#log(sql="SELECT \"orders\".* FROM \"orders\" WHERE \"orders\".\"id\" = ? LIMIT ?", binds=[1, 1]) <time>
      Shop#sell <time>
    TREE
  end

  OUTERMOST = <<~TRACER
    #: Layers
    #:show outermost
    Layer#outer
    Layer#inner(depth:
    #:show all
    Layer#leaf
  TRACER

  test "of a set only the outermost calls are shown, also where one was left by an exception, and in each fiber" do
    target = start("console")
    target.run(<<~RUBY)
      class Layer
        def outer(fails = false) inner; inner(fails) end
        def inner(fails = false) leaf; raise "no" if fails end
        def leaf() "abc".upcase end
        def self.all
          new.outer
          new.inner
          new.outer(true) rescue nil
          new.inner
          Fiber.new { new.outer }.resume
        end
      end
    RUBY
    path = tracer_file(OUTERMOST.sub("(depth:\n", "\nString#upcase\n"))
    tracer = trace(target, "-c", path)
    target.run("Layer.all; nil")
    assert_equal %w[outer leaf leaf outer inner leaf inner outer leaf leaf outer inner leaf inner outer leaf leaf outer],
                 tracer.stop.tree.scan(/Layer#(\w+)/).flatten
    counter = stat(target, "--format", "json", "-c", path)
    target.run("Layer.all; nil")
    counted = rows_of(counter.stop).to_h { |row| row.values_at("method", "calls") }
    assert_equal({"Layer#outer" => 3, "Layer#inner" => 2, "Layer#leaf" => 8}, counted)
    counter = stat(target, "--format", "json", "--calls", "-c", path)
    target.run("Layer.all; nil")
    assert_equal counted, rows_of(counter.stop).to_h { |row| row.values_at("method", "calls") }
  end

  test "what fits nothing is one line, and fits later" do
    target = start("console")
    path = tracer_file("#: Later\n#:library later\nLater#run(1 + 1)\nLater#stop\n#:library other, before 3\nOther#\n")
    tracer = trace(target, "-c", path)
    target.run("class Later; def run() end; end; Later.new.run")
    result = tracer.stop
    assert_equal "Later#run(1 + 1=2) <time>\n", result.tree
    assert_match(/^rbprobe: tracer own fits nothing in process \d+ yet \(waiting for it\): neither later nor other is loaded$/,
                 result.stderr)
    refute_match(/never|no method|fits nothing in process \d+:/, result.stderr)
    result = trace(target, "-c", "redis", "--format", "json").stop
    assert_match(/^rbprobe: tracer redis fits nothing in process \d+: neither redis nor redis-client is loaded$/, result.stderr)
    assert_includes result.stdout, %("type":"unmatched","pid":#{target.pid},"selector":"-c redis")
  end

  test "io, locks, gc and exceptions, on every Ruby" do
    target = start("console")
    tracer = trace(target, "-c", "io")
    target.run("File.open('/dev/null', 'r') { 1 }; File.read('/dev/null'); `true`; nil")
    shown = tracer.stop.tree
    assert_match(/^File#initialize\(path="\/dev\/null", mode="r"\)/, shown)
    assert_match(/^IO\.read\(path="\/dev\/null"\)/, shown)
    assert_includes shown, 'Kernel#`(command="true")'
    tracer = trace(target, "-c", "locks")
    target.run("Mutex.new.synchronize { 1 }; Queue.new.tap { |queue| queue << 1 }.pop; Thread.new { 1 }.value; nil")
    shown = tracer.stop.tree
    assert_match(/Mutex#synchronize/, shown)
    assert_match(/Queue#pop/, shown)
    assert_match(/Thread#value/, shown)
    tracer = trace(target, "-c", "gc")
    target.run("GC.start; nil")
    shown = tracer.stop.tree
    assert_match(/GC\.start/, shown)
    assert_match(/# gc major/, shown)
    tracer = trace(target, "-c", "exceptions")
    target.run("begin; raise 'no'; rescue; Thread.new { sleep }.kill; end; nil")
    shown = tracer.stop.tree
    assert_match(/! raised RuntimeError: no/, shown)
    assert_match(/Thread#kill/, shown)
  end

  test "io: every way to open a file, and directories and names with what was looked for" do
    target = start("console")
    target.run("require 'socket'; nil")
    tracer = trace(target, "-c", "io")
    target.run("File.new('/dev/null').close; open('/dev/null', 'r').close; Dir.open('/') { }; Dir.entries('/'); Dir.glob('/'); " \
               "Addrinfo.getaddrinfo('127.0.0.1', 80); nil")
    shown = tracer.stop.tree
    refute_includes shown, "NameError"
    ['File#initialize(path="/dev/null", mode=nil)', 'File#initialize(path="/dev/null", mode="r")', 'Dir.open(path="/")',
     'Dir.entries(path="/")', 'Dir.glob(pattern="/")', 'Addrinfo.getaddrinfo(host="127.0.0.1", service=80)'].each do |call|
      assert_includes shown, call
    end
  end

  test "stat and methods take tracers; what has events alone is for trace" do
    target = start("console")
    path = tracer_file("#:option --raise=IOError\n", name: "events.tracer")
    assert_refused 2, /tracer events shows events, not calls: `rbprobe trace` and `exec` take it, stat has nothing to count/,
                   "stat", "-p", target.pid.to_s, "-c", path
    result = rbprobe("stat", "-p", target.pid.to_s, "-c", "gc", "--duration", "0.1")
    assert_match(/tracer gc also shows events, which stat does not: only its calls are counted/, result.stderr)
    tracer = trace(target, "-c", path)
    target.run("[IOError, KeyError].each { |error| begin; raise error, 'no'; rescue error; end }; nil")
    assert_equal ["IOError"], tracer.stop.tree.scan(/! raised (\w+)/).flatten
    result = rbprobe("methods", "-p", target.pid.to_s, "-c", "gc")
    assert_match(/^GC\.start  /, result.stdout)
    assert_equal "", result.stderr
  end

  test "exec with a tracer, from the first line" do
    result = launch("exec", "-c", "gc", "--", *Processes::RUBY, "-e", "GC.start", env: Processes::TARGET_ENV).wait
    assert_match(/GC\.start/, result.stdout)
    assert_match(/# gc major/, result.stdout)
  end

  test "rbprobe tracers lists all, and what fits" do
    result = rbprobe("tracers")
    assert_exit 0, result
    assert_equal SHIPPED, result.stdout.lines.map { |line| line[/\A\S+/] }
    assert(result.stdout.lines.all? { |line| line.match?(/\A\S+ +\S.+/) }, "each has a description")
    target = start("console")
    path = directory
    FileUtils.mkdir_p("#{path}/rbprobe/tracers")
    File.write("#{path}/rbprobe/tracers/mine.tracer", "#: Mine\n#:library mine\nString#upcase(self)\nNobody#\n")
    File.write("#{path}/rbprobe/tracers/sql.tracer", "#: My own\nString#upcase\n")
    options = {env: {"XDG_CONFIG_HOME" => path}}
    lines = rbprobe("tracers", "-p", target.pid.to_s, **options).stdout.lines(chomp: true)
    assert_equal "mine        mine (1 method)", lines.first
    assert_equal "sql         1 method", lines[1]
    assert_includes lines, "redis       -"
    rows = rbprobe("tracers", "--format", "json", **options).stdout.lines.map { |line| JSON.parse(line) }
    assert_equal ["tracer", "mine", "Mine", 2, [{"name" => "mine"}]],
                 rows.first.values_at("type", "name", "description", "selectors", "libraries")
    assert_equal SHIPPED.sort, rows.drop(1).map { |row| row["name"] }.sort
    assert_equal "sql\tMy own\n:files\n", rbprobe("--complete", "trace", "-c", "sq", **options).stdout
  end

  test "a tracer by process substitution: a pipe of one's own, also for several processes, and as rbtrace; nobody else's" do
    skip "needs bash" unless system("command -v bash >/dev/null")
    targets = [start("shop"), start("shop")]
    pids = targets.map { |target| target.pid.to_s }
    link = "#{directory}/rbtrace"
    File.symlink(Processes::RBPROBE, link)
    given = "-c <(echo 'Shop#price(item, Process.pid)')"
    {"exec \"$@\" #{given}" => ["trace", "-p", pids.join(",")], "shift; exec #{link} \"$@\" #{given}" => ["-p", *pids]}
      .each do |script, arguments|
      client = launch(*arguments, command: ["bash", "-c", script, "bash"])
      wait_until(-> { "both are traced: #{client.stdout}#{client.stderr}" }) do
        targets.each { |target| target.run("$shop.price(:tea); nil") }
        client.stdout.scan(/Shop#price\(item=:tea, Process.pid=(\d+)\)/).flatten.uniq.sort == pids.sort
      end
      client.stop
    end
    fifo = "#{directory}/fifo"
    File.mkfifo(fifo, 0o600)
    assert_refused 2, /tracer #{fifo} is no file/, "trace", "-p", pids.first, "-c", fifo
    only_root_with_a_nobody
    other = IO.popen([*NOBODY, RbConfig.ruby, "-e", "r, $w = IO.pipe; $stdout.sync = true; puts r.fileno; sleep"])
    @others << other.pid
    pipe = File.open("/proc/#{other.pid}/fd/#{other.gets.to_i}", File::RDONLY | File::NONBLOCK)
    _, err, status = Open3.capture3(Processes::RBPROBE, "trace", "-p", pids.first, "-c", "/dev/fd/9", 9 => pipe)
    assert_equal 2, status.exitstatus, err
    assert_match(%r{tracer /dev/fd/9 is no file}, err)
  end

  # Classes and methods of these names, where there are none.
  STAND_INS = <<~'RUBY'.tr("\n", ";").freeze
    def stand_in(methods)
      methods.each do |owner, kind, method|
        scope = owner.split("::").inject(Object) { |inner, name| inner.const_get(name) rescue inner.const_set(name, Class.new) }
        next if kind == "#" ? scope.method_defined?(method) || scope.private_method_defined?(method) : scope.respond_to?(method)
        scope.public_send(kind == "#" ? :define_method : :define_singleton_method, method) { |*| }
      end
    end
  RUBY

  test "every tracer that ships compiles, for methods of these names" do
    target = start("console")
    SHIPPED.each do |name|
      text = File.read("#{__dir__}/../../tracers/#{name}.tracer").gsub("\\\n", " ")
      methods = text.scan(/^([A-Z][\w:]*)([#.])([\w*]+[?!=]?)/).map { |owner, kind, method| [owner, kind, method.delete("*")] }
      target.run("#{STAND_INS}; stand_in(#{methods.inspect}); nil")
      result = rbprobe("trace", "-p", target.pid.to_s, "-c", name, "--duration", "0.1", "--no-hook")
      assert_exit 0, result
    end
  end

  test "files that are wrong, and names" do
    assert_refused 2, /there is no tracer "sqll"; did you mean sql\?/, "trace", "-p", "1", "-c", "sqll"
    assert_refused 2, /there is no tracer "zzz"; `rbprobe tracers` lists them, and a file is \.\/FILE or FILE\.tracer/,
                   "trace", "-p", "1", "-c", "zzz"
    assert_refused 2, /cannot read tracer \.\/nowhere: No such file/, "trace", "-p", "1", "-c", "./nowhere"
    {"# nothing\n" => /own\.tracer: there is no selector in it/,
     "A#b\nA#c(\n" => /own\.tracer:2: selector "A#c\(", character 4: this bracket is never closed/,
     "A#b(1, \\\n 2)\nlower#\n" => /own\.tracer:3: selector "lower#": "lower" is no class/,
     "#:option --yes\n" => /own\.tracer:1: a tracer may have #:option --gc, --gvl, --raise or --raise=CLASS, not "--yes"/,
     "#:show none\n" => /own\.tracer:1: #:show takes outermost or all, not "none"/,
     "#:include x\n" => /own\.tracer:1: a line that begins with #: may say library, version, option or show/,
     "A#b\0" => /own\.tracer is no text/,
     "#" * 300_000 => /own\.tracer is larger than 262144 bytes/}.each do |text, message|
      assert_refused 2, message, "trace", "-p", "1", "-c", tracer_file(text)
    end
    assert_refused 2, /is no file/, "trace", "-p", "1", "-c", directory
  end

  test "root takes no tracer that others may write" do
    only_root
    path = tracer_file("A#b\n", mode: 0o666)
    assert_refused 2, /may be written by others \(mode 666\)/, "trace", "-p", "1", "-c", path
    File.chmod(0o664, path)
    assert_refused 2, /may be written by others \(mode 664\)/, "trace", "-p", "1", "-c", path
    File.chmod(0o644, path)
    File.chown(65_534, 65_534, path)
    assert_refused 2, /belongs to user 65534/, "trace", "-p", "1", "-c", path
    File.chown(0, 0, path)
    File.chmod(0o777, File.dirname(path))
    assert_refused 2, /is in a directory in which others may replace it/, "trace", "-p", "1", "-c", path
  end
end
