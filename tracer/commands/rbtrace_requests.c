/* rbtrace's --eval, --backtraces and --backtrace. See rbtrace_requests.h. */

#include "tracer/commands/rbtrace_requests.h"

#include "proto/limits.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/terminal_text.h"
#include "tracer/base/value.h"
#include "tracer/cli/rbtrace_words.h"
#include "tracer/console/eval_text.h"

#include <string.h>
#include <unistd.h>

struct asked {
	struct invocation invocation;
	const char *code;
	uint64_t frames_max; /* 0: all */
	struct terminal_text out_text, err_text;
	bool answered, any_thread;
};

void rbtrace_on_attached(struct request *request)
{
	rbtrace_say_attached(request->attachment.target.pid);
}

void rbtrace_on_done(struct request *request, uint32_t code, struct slice text)
{
	struct invocation *invocation = request->owner;

	output_flush(&invocation->output);
	request_report(request, code, text);
	rbtrace_say_detached(request->attachment.target.pid);
}

/* --- Eval */

static error_t parse_code(int key, char *argument, struct argp_state *state)
{
	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	((struct asked *)state->input)->code = argument;
	return 0;
}

static const struct argp options_code = {.parser = parse_code};

static void eval_init(void *self)
{
	struct asked *asked = self;

	terminal_text_init(&asked->out_text, STDOUT_FILENO);
	terminal_text_init(&asked->err_text, STDERR_FILENO);
}

static void eval_fill(const void *self, struct command *command)
{
	const struct asked *asked = self;

	command->arguments.result_size_max = EVAL_TEXT_MAX;
	command->arguments.timeout_ms = options_limit_ms(&asked->invocation.options);
	command->arguments.name = (struct slice){"(rbprobe)", strlen("(rbprobe)")};
	command->arguments.text = (struct slice){asked->code, strlen(asked->code)};
}

static int on_output(struct request *request, enum output_stream stream, struct slice bytes, struct error *err)
{
	struct asked *asked = request->owner;
	struct buffer *out = &asked->invocation.output.buffer, text = {0};

	(void)err;
	if (stream == OUTPUT_STDERR)
		terminal_text_add(&asked->err_text, &text, bytes);
	else
		terminal_text_add(&asked->out_text, out, bytes);
	if (text.size && write(STDERR_FILENO, text.bytes, text.size) < 0)
		text.size = 0; /* nobody wants it */
	buffer_free(&text);
	output_flush(&asked->invocation.output);
	return 0;
}

static bool is(const msgpack_object *data, const char *outcome)
{
	struct slice name = value_text(value_get(data, "outcome"));

	return name.size == strlen(outcome) && memcmp(name.bytes, outcome, name.size) == 0;
}

static void add_lines(struct buffer *to, struct slice text)
{
	struct terminal_text plain;

	terminal_text_init(&plain, STDOUT_FILENO);
	terminal_text_add(&plain, to, text);
	terminal_text_end(&plain, to);
}

static int on_result(struct request *request, const msgpack_object *data, struct error *err)
{
	struct asked *asked = request->owner;
	struct buffer *to = &asked->invocation.output.buffer;
	struct slice code = {asked->code, strlen(asked->code)}, class = value_text(value_get(data, "class"));

	(void)err;
	terminal_text_end(&asked->out_text, to);
	asked->answered = is(data, "returned") || is(data, "raised");
	if (asked->answered) {
		buffer_add_text(to, ">> ");
		add_lines(to, code);
		buffer_add_text(to, "\n=> ");
	}
	if (is(data, "returned")) {
		struct slice text = value_text(value_get(data, "text"));

		buffer_add_printable(to, text.bytes, text.size);
	} else if (is(data, "raised")) {
		struct slice text = value_text(value_get(data, "message"));

		buffer_add_text(to, "#<");
		buffer_add_printable(to, class.bytes, class.size);
		buffer_add_text(to, ": ");
		buffer_add_printable(to, text.bytes, text.size);
		buffer_add_char(to, '>');
	} else if (is(data, "syntax_error")) {
		struct buffer text = {0};

		eval_text_syntax_error(&text, data, code);
		if (write(STDERR_FILENO, text.bytes, text.size) < 0)
			text.size = 0; /* as above */
		buffer_free(&text);
	} else {
		message_bare("*** timed out waiting for eval response");
	}
	if (asked->answered)
		buffer_add_char(to, '\n');
	output_flush(&asked->invocation.output);
	return 0;
}

static void on_eval_done(struct request *request, uint32_t code, struct slice text)
{
	const struct asked *asked = request->owner;

	/* To rbtrace, an exception is a result. */
	if (asked->answered)
		request->status = STATUS_DONE;
	rbtrace_on_done(request, asked->answered ? 0 : code, text);
}

const struct subcommand rbtrace_eval = {
	.name = "eval",
	.usage = "-p PID CODE",
	.description = "As rbtrace --eval.",
	.pids = PIDS_ONE,
	.options = (const struct argp *const[]){&options_code, NULL},
	.positional = &options_code,
	.size = sizeof(struct asked),
	.init = eval_init,
	.kind = COMMAND_EVAL,
	.fill = eval_fill,
	.handler = {.attached = rbtrace_on_attached, .data = on_result, .output = on_output, .done = on_eval_done},
};

/* --- Backtraces */

static error_t parse_frames(int key, char *argument, struct argp_state *state)
{
	if (key != 'b')
		return ARGP_ERR_UNKNOWN;
	return options_whole_number("--backtraces", argument, 0, INT32_MAX, &((struct asked *)state->input)->frames_max);
}

static const struct argp_option frames_list[] = {{"frames", 'b', "N", 0, "So many frames", 0}, {0}};
static const struct argp options_frames = {.options = frames_list, .parser = parse_frames};

static void backtraces_fill(const void *self, struct command *command)
{
	command->arguments.frames_max = ((const struct asked *)self)->frames_max;
}

static void backtrace_fill(const void *self, struct command *command)
{
	backtraces_fill(self, command);
	command->arguments.name = (struct slice){"main", strlen("main")};
}

static void add_frame(struct buffer *to, const msgpack_object *frame)
{
	struct slice path = value_text(value_get(frame, "path")), label = value_text(value_get(frame, "label"));
	int32_t line = value_line(value_get(frame, "line"));

	buffer_add_printable(to, path.bytes, path.size);
	if (line)
		buffer_add_format(to, ":%d", line);
	buffer_add_text(to, ":in `");
	buffer_add_printable(to, label.bytes, label.size);
	buffer_add_text(to, "'\n");
}

/* Threads have an empty line between them. Of one alone, all frames but the first are set off. */
static int on_frames(struct request *request, const msgpack_object *data, struct error *err)
{
	struct asked *asked = request->owner;
	struct buffer *to = &asked->invocation.output.buffer;
	const msgpack_object *frames = value_get(data, "frames");
	struct slice type = value_text(value_get(data, "type"));
	bool is_thread = type.size == strlen("thread") && memcmp(type.bytes, "thread", type.size) == 0;
	bool one = asked->invocation.subcommand == &rbtrace_backtrace;

	(void)err;
	if (is_thread && asked->any_thread)
		buffer_add_char(to, '\n');
	asked->any_thread = asked->any_thread || is_thread;
	for (uint32_t i = 0; i < value_count(frames); i++) {
		if (one && (i || !is_thread))
			buffer_add_text(to, "  ");
		add_frame(to, value_at(frames, i));
	}
	return 0;
}

#define BACKTRACES(NAME, FILL)                                                                                                   \
	{                                                                                                                        \
		.name = (NAME), .usage = "-p PID", .description = "As rbtrace --" NAME ".", .pids = PIDS_ONE,                    \
		.options = (const struct argp *const[]){&options_frames, NULL}, .size = sizeof(struct asked),                    \
		.kind = COMMAND_BACKTRACE, .fill = (FILL),                                                                       \
		.handler = {.attached = rbtrace_on_attached, .data = on_frames, .done = rbtrace_on_done},                        \
	}

const struct subcommand rbtrace_backtraces = BACKTRACES("backtraces", backtraces_fill);
const struct subcommand rbtrace_backtrace = BACKTRACES("backtrace", backtrace_fill);
