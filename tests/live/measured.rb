# Ruby code of a class whose calls `trace --measure` and `stat --measure` measure alike; both tests add to it.

MEASURED = <<~RUBY
  class Measured
    def allocate_some(count)
      i = 0
      while i < count
        Object.new
        i += 1
      end
    end

    def compute
      i = 0
      i += 1 while i < 300_000
    end

    def fail_after_allocating
      allocate_some(10)
      raise ArgumentError, "no"
    end

    def rest
      sleep 0.05
    end
  end
RUBY
