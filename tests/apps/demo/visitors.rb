# Visitors of the demo's shop: visitors.rb PORT. They go on until they are killed, or whoever started them is gone.

require "net/http"

parent = Process.ppid
visits = [
  ->(http) { http.get("/items?q=cup") },
  ->(http) { http.post("/cart", "sku=tea&count=3") },
  ->(http) { http.post("/cart", "sku=whisk&count=1") },
  ->(http) { http.post("/cart", "sku=pot&count=1") },
]
Net::HTTP.start("127.0.0.1", Integer(ARGV.fetch(0))) do |http|
  visits.cycle do |visit|
    exit if Process.ppid != parent
    visit.call(http)
    sleep 0.25
  end
rescue Errno::ECONNREFUSED, Errno::ECONNRESET, EOFError
  exit
end
