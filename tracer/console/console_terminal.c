/*
 * The console at a terminal: readline. It is driven by its callbacks, one key at a time, so that the session's socket and
 * signals are looked at while a person thinks. It handles no signals itself: ours (signals.h) has INT, and the window's size and
 * Ctrl-Z come through a pipe, while there is a prompt. Between prompts the terminal is as it was, and what is typed waits in it.
 */

#ifdef HAVE_READLINE

#define _GNU_SOURCE
#include "tracer/console/console.h"

#include "tracer/base/message.h"
#include "tracer/console/console_inputrc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

static const int terminal_signals[] = {SIGWINCH, SIGTSTP, SIGCONT};

/* Global because neither readline's callback nor a signal handler has an argument for it. */
static struct {
	int pipe[2];
	struct sigaction before[sizeof(terminal_signals) / sizeof(*terminal_signals)];
	bool shown; /* there is a prompt */
	bool taken; /* readline has given a line: */
	char *line; /* NULL: the end */
} terminal = {.pipe = {-1, -1}};

static void on_signal(int number)
{
	int saved = errno;
	char byte = (char)number;

	if (write(terminal.pipe[1], &byte, 1) < 0)
		errno = saved;
	errno = saved;
}

static void hide_prompt(void)
{
	if (!terminal.shown)
		return;
	terminal.shown = false;
	rl_callback_handler_remove();
	for (size_t i = 0; i < sizeof(terminal_signals) / sizeof(*terminal_signals); i++)
		sigaction(terminal_signals[i], &terminal.before[i], NULL);
}

static void on_line(char *line)
{
	terminal.line = line;
	terminal.taken = true;
	hide_prompt();
}

static void show_prompt(const char *prompt)
{
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

	terminal.shown = true;
	terminal.taken = false;
	terminal.line = NULL;
	sigemptyset(&action.sa_mask);
	for (size_t i = 0; i < sizeof(terminal_signals) / sizeof(*terminal_signals); i++)
		sigaction(terminal_signals[i], &action, &terminal.before[i]);
	/* The window may have changed while there was no prompt; at the first one readline looks itself. */
	if (RL_ISSTATE(RL_STATE_INITIALIZED))
		rl_reset_screen_size();
	rl_callback_handler_install(prompt, on_line);
}

static void show_again(void)
{
	rl_prep_terminal(1);
	rl_forced_update_display();
}

/* Ctrl-Z: the terminal goes back to the shell as it was, until SIGCONT. */
static void suspend(void)
{
	struct sigaction ours, usual = {.sa_handler = SIG_DFL};

	rl_deprep_terminal();
	sigemptyset(&usual.sa_mask);
	sigaction(SIGTSTP, &usual, &ours);
	raise(SIGTSTP);
	sigaction(SIGTSTP, &ours, NULL);
	show_again();
}

static void take_terminal_signals(void)
{
	char number;

	while (terminal.shown && read(terminal.pipe[0], &number, 1) == 1) {
		switch (number) {
		case SIGWINCH:
			rl_resize_terminal();
			break;
		case SIGTSTP:
			suspend();
			break;
		case SIGCONT:
			show_again();
			break;
		}
	}
}

static void end_line(void)
{
	fputc('\n', rl_outstream);
	fflush(rl_outstream);
}

/* Where pasting is bracketed, readline ends the line itself when it finds the end. */
static void end_last_line(void)
{
	const char *bracketed = rl_variable_value("enable-bracketed-paste");

	if (!bracketed || strcmp(bracketed, "on") != 0)
		end_line();
}

/* The line that was being written is dropped; on the screen it stays, with a mark. */
static void abandon_line(void)
{
	rl_callback_sigcleanup();
	rl_free_line_state();
	rl_point = rl_end;
	rl_redisplay();
	fputs("^C", rl_outstream);
	hide_prompt();
	end_line();
}

enum input terminal_read(struct console *console, const char *prompt, char **line)
{
	show_prompt(prompt);
	while (!terminal.taken) {
		struct pollfd polled[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = terminal.pipe[0], .events = POLLIN}};
		bool ready = console_wait(console, polled, 2);

		if (console->interrupted) {
			console->interrupted = false;
			abandon_line();
			return INPUT_INTERRUPTED;
		}
		if (console->request.over || console->signal) {
			hide_prompt();
			end_line();
			return INPUT_OVER;
		}
		if (ready && polled[1].revents)
			take_terminal_signals();
		if (ready && polled[0].revents)
			rl_callback_read_char();
	}
	if (!terminal.line) {
		end_last_line();
		return INPUT_END;
	}
	*line = terminal.line;
	return INPUT_LINE;
}

static void add_to_readline(const char *entry)
{
	add_history(entry);
}

void terminal_remember(struct console *console, const char *entry)
{
	HIST_ENTRY *last = history_length ? history_get(history_base + history_length - 1) : NULL;

	if (last && strcmp(last->line, entry) == 0)
		return;
	add_history(entry);
	history_add(&console->history, entry);
}

static void open_history(struct console *console)
{
	int status;

	using_history();
	stifle_history(HISTORY_MAX);
	if (console->no_history)
		return;
	console->history.path = history_path();
	status = history_open(&console->history, add_to_readline);
	if (status < 0 && !console->invocation.options.quiet)
		message("what you enter is not kept for another time: %s",
		        status == -ENOENT ? "neither XDG_STATE_HOME nor HOME is set"
		        : status == -EPERM
		                ? "the history file, or a directory above it, is another user's or a link (HOME, with sudo)"
		                : strerror(-status));
}

bool terminal_open(struct console *console)
{
	if (pipe2(terminal.pipe, O_CLOEXEC | O_NONBLOCK) != 0)
		return false;
	inputrc_choose(console->invocation.options.quiet);
	rl_readline_name = "rbprobe";
	rl_catch_signals = 0;
	rl_catch_sigwinch = 0;
	/* Both would wait for a key where nothing else is looked at. */
	rl_completion_query_items = -1;
	rl_variable_bind("page-completions", "off");
	console_complete_install(console);
	open_history(console);
	return true;
}

void terminal_close(struct console *console)
{
	hide_prompt();
	history_close(&console->history);
	for (int i = 0; i < 2; i++)
		if (terminal.pipe[i] >= 0)
			close(terminal.pipe[i]);
}

#endif
