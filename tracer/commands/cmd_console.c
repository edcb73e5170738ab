/* rbprobe console: lines of Ruby, evaluated one after the other inside a running process. */

#define _GNU_SOURCE
#include "tracer/console/console.h"

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/signals.h"
#include "tracer/cli/subcommand.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTION_NO_HISTORY = 0x200 };

static error_t parse_console(int key, char *argument, struct argp_state *state)
{
	struct console *console = state->input;

	(void)argument;
	if (key != OPTION_NO_HISTORY)
		return ARGP_ERR_UNKNOWN;
	console->no_history = true;
	return 0;
}

static const struct argp_option console_list[] = {
	{"no-history", OPTION_NO_HISTORY, NULL, 0, "Neither read nor write the history file", 5},
	{0},
};

static const struct argp options_console = {.options = console_list, .parser = parse_console};

/* Evaluates what has come together. When it is not complete yet, it stays. */
static void evaluate(struct console *console, bool may_go_on)
{
	struct command command = {.kind = COMMAND_EVAL,
	                          .arguments = {.flags = EVAL_CONSOLE | (may_go_on ? EVAL_PARTIAL : 0),
	                                        .name = {"(rbprobe)", 9},
	                                        .text = {console->pending.bytes, console->pending.size}}};

	console->outcome = OUTCOME_FAILED;
	console_request(console, &command, 0, console_show_result);
	if (console->outcome == OUTCOME_FAILED)
		console->failed = true;
	if (console->outcome == OUTCOME_INCOMPLETE)
		return;
	buffer_add_char(&console->pending, '\0');
	input_remember(console, console->pending.bytes);
	console->pending.size = 0;
}

static void take_line(struct console *console, const char *line)
{
	if (console->pending.size == 0) {
		if (line[strspn(line, " \t\r")] == '\0')
			return;
		if (console_command(console, line)) {
			input_remember(console, line);
			return;
		}
	} else {
		buffer_add_char(&console->pending, '\n');
	}
	buffer_add_text(&console->pending, line);
	evaluate(console, true);
}

static const char *prompt(const struct console *console, struct buffer *text)
{
	text->size = 0;
	buffer_add_format(text, "%d %.*s%c ", (int)console->request.attachment.target.pid, (int)console->self.size,
	                  console->self.bytes, console->pending.size ? '*' : '>');
	buffer_add_char(text, '\0');
	return text->bytes;
}

static void converse(struct console *console)
{
	struct buffer text = {0};

	while (!console->leaving && !console->signal && !console->request.over) {
		char *line = NULL;

		switch (input_read(console, prompt(console, &text), &line)) {
		case INPUT_LINE:
			take_line(console, line);
			break;
		case INPUT_INTERRUPTED:
			console->pending.size = 0;
			console->leaving = !console->interactive;
			console->failed = console->failed || console->leaving;
			break;
		case INPUT_END:
			/* A script that ends in the middle: now it is a syntax error. */
			if (!console->interactive && console->pending.size)
				evaluate(console, false);
			console->leaving = true;
			break;
		case INPUT_OVER:
			break;
		}
		free(line);
	}
	buffer_free(&text);
}

static void greet(const struct console *console)
{
	const struct target *target = &console->request.attachment.target;
	char command[64];

	target_command_line(target, command, sizeof(command));
	if (console->interactive && !console->invocation.options.quiet)
		message("process %d: %s; `help` lists the commands, Ctrl-D leaves", (int)target->pid, command);
}

/* Why the session is over, if nobody has said so. */
static int end_status(struct console *console)
{
	struct request *request = &console->request;

	if (!request->over && console->signal)
		return 128 + console->signal;
	/* What a person sees raise is no failure of theirs; what they had to leave behind is. */
	if (!request->over)
		return console->failed && (!console->interactive || request->command_id) ? STATUS_FAILED : STATUS_DONE;
	if (request->error.text[0] && (request->command_id || request->status != STATUS_TARGET_GONE))
		message("%s", request->error.text);
	else if (request->status == STATUS_TARGET_GONE)
		message("process %d %s", (int)request->attachment.target.pid,
		        request->attachment.ended || !attachment_has_execed(&request->attachment) ? "has ended"
		        : attachment_runs_on(&request->attachment) ? "closed the connection without a word, though it still runs"
		                                                   : "has replaced itself by another program (exec)");
	return request->status;
}

static int console_run(void *self)
{
	struct console *console = self;
	struct invocation *invocation = &console->invocation;
	struct command where = {.kind = COMMAND_ENTER};
	int status;

	console->interactive = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
	console->colors = term_colors(STDOUT_FILENO, invocation->options.colors);
	invocation_signals(invocation);
	terminal_text_init(&console->out_text, STDOUT_FILENO);
	terminal_text_init(&console->err_text, STDERR_FILENO);
	if (console_open(console, invocation->options.pids.items[0], &where, console_note_self) == ANSWER_DONE) {
		if (console->interactive)
			signals_outlive_interrupts();
		input_open(console);
		greet(console);
		converse(console);
		input_close(console);
	}
	status = end_status(console);
	console_close(console);
	return status;
}

static void console_free(void *self)
{
	struct console *console = self;

	buffer_free(&console->pending);
	buffer_free(&console->self);
}

const struct subcommand cmd_console = {
	.name = "console",
	.arguments = "-p PID",
	.summary = "the same, interactive",
	.usage = "-p PID",
	.description = "Evaluate Ruby code inside a running process, line by line. At a terminal: with editing, history, and "
		       "completion by TAB; `help` lists the rest. Else the code is read from standard input, and the "
		       "exit status is 1 if something raised.",
	.pids = PIDS_ONE,
	.pids_wanted = "console needs -p PID; `rbprobe ps` lists the Ruby processes",
	.pids_too_many = "console takes one process",
	.options = (const struct argp *const[]){&options_color, &options_console, NULL},
	.size = sizeof(struct console),
	.run = console_run,
	.free = console_free,
};
