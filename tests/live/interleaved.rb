# Calls of two threads, whose lines may come in two orders.

module Interleaved
  # Two threads, each inside of a call while the other is called, twice.
  INTERLEAVED = <<~RUBY.freeze
    first, second = Queue.new, Queue.new
    clerk = Thread.new { $shop.each_item { first << 1; second.pop; $shop.price(:pot) } }
    $shop.each_item { first.pop; $shop.price(:tea); second << 1 }
    clerk.join
    nil
  RUBY
  ONE_PIECE = "Shop#each_item\n   Shop#price <time>\n   Shop#price <time>\nShop#each_item <time>\n".freeze

  def without_headers(tree)
    tree.lines.reject { |line| line.start_with?("[thread ") }.join
  end
end
