# A run of rbprobe on a terminal of its own: what a person would see and type.

require "io/console"
require "pty"

module Processes
  # Looks like a Tracer to the test's clean-up.
  class Terminal
    attr_reader :pid, :arguments, :settings_before, :settings_after

    ROWS = 24
    COLUMNS = 80
    # Colours, modes, and movements of the cursor. (Of readline's redrawing only the text is left, with carriage returns.)
    ESCAPES = /\e\[[?\d;]*[a-zA-Z]|\e[=>]|\a/.freeze

    # wrapper: a command that runs the one that follows.
    def initialize(arguments, env: {}, rows: ROWS, columns: COLUMNS, wrapper: [])
      @arguments = arguments
      environment = { "TERM" => "xterm", "LC_ALL" => "C.UTF-8", "NO_COLOR" => nil, "INPUTRC" => "/dev/null", "PAGER" => nil }
      @output, terminal = PTY.open
      terminal.winsize = [rows, columns]
      @settings_before = settings
      @pid = Process.spawn(environment.merge(env), "setsid", "--ctty", *wrapper, RBPROBE, *arguments,
                           in: terminal, out: terminal, err: terminal)
      terminal.close
      @read = +""
      @seen = 0
    end

    def command
      "rbprobe #{Shellwords.join(@arguments)}"
    end

    # All that was printed.
    def raw
      read_more
      @read.dup.force_encoding(Encoding::UTF_8).scrub
    end

    # The same as it came.
    def bytes
      read_more
      @read.b
    end

    # What `stty -g` says of it.
    def settings
      IO.popen(["stty", "-g"], in: @output, &:read)
    end

    # The same with rbprobe's messages in one line each, whatever the numbers in them are.
    def text
      lines_as_shown.gsub(/^rbprobe: .*(?:\n   \S.*)+/) { |message| message.gsub(/\n   /, " ") }
    end

    def lines_as_shown
      raw.gsub(ESCAPES, "").gsub(/\r+\n/, "\n").gsub(/^\r+/, "")
    end

    # What was printed since what the last call has returned, up to and with the pattern.
    def expect(pattern, seconds = 15)
      Processes.wait_until(-> { "#{command} prints #{pattern.inspect}; " \
                                "since the last thing expected it printed:\n#{text[@seen..]}" }, seconds) do
        rest = text[@seen..]
        at = rest.match(pattern)
        next unless at

        @seen += at.end(0)
        return rest[0, at.end(0)]
      end
    end

    def type(keys)
      @output.write(keys)
      @output.flush
    end

    def enter(line)
      type("#{line}\r")
    end

    # Whether the terminal is as programs expect it, and not readline's; also when the console is gone.
    def as_usual?
      @as_usual.nil? ? @output.echo? : @as_usual
    end

    def resize(rows, columns)
      @output.winsize = [rows, columns]
    end

    def hang_up
      as_usual?
      @output.close
    end

    def signal(name)
      Process.kill(name, @pid)
    end

    def running?
      return false if @status

      read_more # nobody ends who cannot write
      _, @status = Process.wait2(@pid, Process::WNOHANG)
      @status.nil?
    end

    def wait(seconds = 30)
      Processes.wait_until(-> { "#{command} ends; it printed:\n#{text}" }, seconds) { !running? }
      @as_usual = @output.echo? unless @output.closed?
      @settings_after = settings unless @output.closed?
      close
      @status.exitstatus || -@status.termsig
    end

    def kill
      Process.kill(:KILL, @pid)
      _, @status = Process.wait2(@pid) if @status.nil?
      close
    rescue Errno::ESRCH
      nil
    end

    private

    def close
      read_more unless @output.closed?
      @output.close unless @output.closed?
    end

    def read_more
      return if @output.closed?

      loop { @read << @output.read_nonblock(65_536) }
    rescue IO::WaitReadable, EOFError, Errno::EIO
      nil
    end
  end
end
