# Debian's Puma with a Sinatra application, in this process; says ready when it serves.

$stdout.sync = true
require "sinatra/base"
require "puma"
require "puma/server"
require "puma/events"

application = Class.new(Sinatra::Base) { get("/") { "hello" } }
# Puma 6 has split what says nothing from what is told of events.
silent = Puma::Events.respond_to?(:null) ? [Puma::Events.null, {}] : [nil, { log_writer: Puma::LogWriter.null }]
server = Puma::Server.new(application, silent[0], { min_threads: 2, max_threads: 2, **silent[1] })
server.add_tcp_listener("127.0.0.1", 0)
server.run
Thread.pass until Thread.list.count { |thread| thread.name.to_s.start_with?("puma srv tp") && thread.status == "sleep" } == 2
Thread.pass until Thread.list.any? { |thread| thread.name == "puma srv" && thread.status == "sleep" }
puts "ready"
$stdin.read
