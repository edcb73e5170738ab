/*
 * rbprobe eval: run a piece of Ruby inside the target and print what it returns.
 *
 * What the code writes comes as it is written, standard output to standard output and standard error to standard error; its result goes to standard output,
 * and how it failed to standard error. With --format json all of this is one object, at the end.
 */

#define _GNU_SOURCE
#include "ask.h"
#include "code.h"
#include "eval_text.h"
#include "exit_status.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "proto/clock.h"
#include "signals.h"
#include "subcommand.h"
#include "terminal_text.h"
#include "value.h"

#include "proto/limits.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct eval {
	struct options options;
	uint32_t flags; /* enum eval_flag */
	uint64_t limit;
	bool json;
	const char *argument;
	const char *file;
	struct buffer code;
	struct ask ask;
	struct output output;
	struct buffer kept[OUTPUT_STREAM_COUNT]; /* for the JSON object */
	struct terminal_text out_text, err_text;
	bool answered; /* the DATA has come, and been shown */
};

enum long_option {
	OPTION_MAIN = 0x100,
	OPTION_RAW,
	OPTION_FORMAT,
	OPTION_VALUE_SIZE,
};

#define KEPT_MAX (64u << 20) /* bytes of output in one JSON object */
#define WRONG(...) (message(__VA_ARGS__), EINVAL)

static error_t parse_eval(int key, char *argument, struct argp_state *state)
{
	struct eval *eval = (struct eval *)state->input;
	char *end;

	switch (key) {
	case ARGP_KEY_ARG:
		if (eval->argument)
			return WRONG("eval takes one piece of code; quote it, as in: rbprobe eval -p PID 'puts 1'");
		eval->argument = argument;
		return 0;
	case 'f':
		eval->file = argument;
		return 0;
	case OPTION_MAIN:
		eval->flags |= EVAL_MAIN;
		return 0;
	case OPTION_RAW:
		eval->flags |= EVAL_RAW;
		return 0;
	case OPTION_FORMAT:
		eval->json = strcmp(argument, "json") == 0;
		return eval->json || strcmp(argument, "text") == 0 ? 0
		                                                   : WRONG("--format takes text or json, not \"%s\"", argument);
	case OPTION_VALUE_SIZE:
		errno = 0;
		eval->limit = strtoull(argument, &end, 10);
		if (errno || end == argument || *end || strchr(argument, '-') || eval->limit < 1 || eval->limit > EVAL_TEXT_MAX)
			return WRONG("--value-size takes a whole number from 1 to %u, not \"%s\"", EVAL_TEXT_MAX, argument);
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option eval_list[] = {
	{"file", 'f', "FILE", 0, "Read the code from a file (- for standard input)", 2},
	{"main", OPTION_MAIN, NULL, 0, "Run it in the main thread, which does nothing else meanwhile", 2},
	{"raw", OPTION_RAW, NULL, 0, "Print a result that is a String as it is: no quotes, no limit", 3},
	{"value-size", OPTION_VALUE_SIZE, "BYTES", 0, "Cut a result that is longer (default 65536)", 3},
	{"format", OPTION_FORMAT, "text|json", 0, "For people, or one JSON object", 4},
	{0},
};

static const struct argp options_eval = {.options = eval_list, .parser = parse_eval};

static const struct argp_child children[] = {
	{&options_target, 0, NULL, 0},
	{&options_eval, 0, NULL, 0},
	{&options_session, 0, NULL, 0},
	{0},
};

static const struct argp argp = {
	.args_doc = "-p PID CODE\n-p PID -f FILE\n-p PID -",
	.doc = "Evaluate Ruby code inside a running process and print its result.",
	.children = children,
};

/* Standard error is written to at once. Who has closed it does not want it. */
static void write_stderr(const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t written = write(STDERR_FILENO, bytes, size);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0)
			return;
		bytes += written;
		size -= (size_t)written;
	}
}

static int keep_output(struct eval *eval, enum output_stream stream, struct slice bytes, struct error *err)
{
	size_t kept = bytes.size;

	for (size_t i = 0; i < OUTPUT_STREAM_COUNT; i++)
		kept += eval->kept[i].size;
	if (kept > KEPT_MAX)
		return error_set(
			err, -ECANCELED,
			"the code wrote more than %u MiB, all of which --format json would have to hold; without it, output "
			"comes as it is written",
			KEPT_MAX >> 20);
	buffer_add_slice(&eval->kept[stream], bytes);
	return 0;
}

static int on_output(void *owner, enum output_stream stream, struct slice bytes, struct error *err)
{
	struct eval *eval = owner;

	if (eval->json)
		return keep_output(eval, stream, bytes, err);
	if (stream == OUTPUT_STDERR) {
		struct buffer text = {0};

		terminal_text_add(&eval->err_text, &text, bytes);
		write_stderr(text.bytes, text.size);
		buffer_free(&text);
	} else {
		terminal_text_add(&eval->out_text, &eval->output.buffer, bytes);
		output_flush(&eval->output);
		if (output_is_over(&eval->output))
			ask_cancel(&eval->ask); /* nobody reads what is still to come */
	}
	return 0;
}

/* Renamed for people who write scripts. */
static const char *json_key(struct slice key)
{
	static const char *const names[][2] = {{"text", "inspect"}, {"duration_ns", "duration"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (key.size == strlen(names[i][0]) && memcmp(key.bytes, names[i][0], key.size) == 0)
			return names[i][1];
	return NULL;
}

static void add_json_text(struct buffer *buffer, struct slice text)
{
	msgpack_object object = {.type = MSGPACK_OBJECT_STR,
	                         .via.str = {.ptr = text.bytes ? text.bytes : "", .size = (uint32_t)text.size}};

	value_add_json(buffer, &object);
}

static void add_json_pair(struct buffer *buffer, const msgpack_object_kv *pair)
{
	struct slice key = value_text(&pair->key);
	const char *name = json_key(key);

	add_json_text(buffer, name ? (struct slice){name, strlen(name)} : key);
	buffer_add_char(buffer, ':');
	if (name && strcmp(name, "duration") == 0)
		buffer_add_seconds(buffer, value_uint(&pair->val));
	else
		value_add_json(buffer, &pair->val);
	buffer_add_char(buffer, ',');
}

static void show_json(struct eval *eval, const msgpack_object *data)
{
	static const char *const names[OUTPUT_STREAM_COUNT] = {
		[OUTPUT_STDOUT] = "stdout", [OUTPUT_STDERR] = "stderr", [OUTPUT_RESULT] = "result"};
	struct buffer *buffer = &eval->output.buffer;

	buffer_add_format(buffer, "{\"pid\":%d,", (int)eval->options.pids.items[0]);
	for (uint32_t i = 0; data->type == MSGPACK_OBJECT_MAP && i < data->via.map.size; i++)
		add_json_pair(buffer, &data->via.map.ptr[i]);
	for (int stream = OUTPUT_STDOUT; stream < OUTPUT_STREAM_COUNT; stream++) {
		struct buffer *kept = &eval->kept[stream];

		if (stream == OUTPUT_RESULT && (!(eval->flags & EVAL_RAW) || value_get(data, "text")))
			continue;
		buffer_add_format(buffer, "\"%s\":", names[stream]);
		add_json_text(buffer, (struct slice){kept->bytes, kept->size});
		buffer_add_char(buffer, ',');
	}
	buffer->size--;
	buffer_add_text(buffer, "}\n");
}

static void show_returned(struct eval *eval, const msgpack_object *data)
{
	eval_text_result(&eval->output.buffer, data);
	output_flush(&eval->output);
	if (value_bool(value_get(data, "cut")) && !eval->options.quiet)
		message("the result has %llu bytes and was cut after %zu (--value-size BYTES shows more, --raw a String as it "
		        "is)",
		        (unsigned long long)value_uint(value_get(data, "size")), value_text(value_get(data, "text")).size);
}

static void show_raised(struct eval *eval, const msgpack_object *data)
{
	struct buffer text = {0};

	(void)eval;
	eval_text_exception(&text, data);
	write_stderr(text.bytes, text.size);
	buffer_free(&text);
}

static void show_syntax_error(struct eval *eval, const msgpack_object *data)
{
	struct buffer text = {0};

	eval_text_syntax_error(&text, data, (struct slice){eval->code.bytes, eval->code.size});
	write_stderr(text.bytes, text.size);
	buffer_free(&text);
}

static void show_frames(const msgpack_object *data)
{
	struct buffer text = {0};

	eval_text_frames(&text, data);
	write_stderr(text.bytes, text.size);
	buffer_free(&text);
}

static void show_cancelled(struct eval *eval, const msgpack_object *data)
{
	if (output_is_over(&eval->output))
		return;
	message("cancelled%s", value_count(value_get(data, "backtrace")) ? "; the code was here:" : "");
	show_frames(data);
}

static void show_timeout(struct eval *eval, const msgpack_object *data)
{
	message("the code took longer than %g s and was cancelled (--timeout SEC sets the limit, 0 takes it away)%s",
	        (double)eval->options.timeout_ns / 1e9, value_count(value_get(data, "backtrace")) ? "; it was here:" : "");
	show_frames(data);
}

static void show_killed(struct eval *eval, const msgpack_object *data)
{
	(void)eval;
	(void)data;
	message("the thread that ran the code was killed: by the code itself, or because the process exits");
}

static const struct outcome {
	const char *name;
	void (*show)(struct eval *eval, const msgpack_object *data);
} outcomes[] = {
	{"returned", show_returned},   {"raised", show_raised},   {"syntax_error", show_syntax_error},
	{"cancelled", show_cancelled}, {"timeout", show_timeout}, {"killed", show_killed},
};

static int on_data(void *owner, const msgpack_object *data, struct error *err)
{
	struct eval *eval = owner;
	struct slice name = value_text(value_get(data, "outcome"));

	(void)err;
	terminal_text_end(&eval->out_text, &eval->output.buffer);
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++)
		if (strlen(outcomes[i].name) == name.size && memcmp(outcomes[i].name, name.bytes, name.size) == 0) {
			eval->answered = true;
			if (eval->json)
				show_json(eval, data);
			else
				outcomes[i].show(eval, data);
		}
	output_flush(&eval->output);
	return 0;
}

static void on_done(void *owner, uint32_t code, struct slice text)
{
	struct eval *eval = owner;

	if (code && !eval->answered)
		message("%.*s", (int)text.size, text.bytes);
}

static const struct ask_handler handler = {.data = on_data, .output = on_output, .done = on_done};

/* Returns 0, or the exit status after a line on stderr. */
static int read_code(struct eval *eval)
{
	struct error err;

	if (eval->options.pids.count != 1 || !eval->argument == !eval->file) {
		message("eval needs -p PID, one process, and either the code or -f FILE");
		return STATUS_USAGE;
	}
	if (eval->argument && strcmp(eval->argument, "-") == 0)
		eval->file = eval->argument;
	if (!eval->file) {
		buffer_add_text(&eval->code, eval->argument);
		return 0;
	}
	if (code_read(&eval->code, eval->file, &err) == 0)
		return 0;
	message("%s", err.text);
	return STATUS_USAGE;
}

static struct command request_of(const struct eval *eval)
{
	const char *name = eval->file && strcmp(eval->file, "-") != 0 ? eval->file : "(rbprobe)";
	struct command request = {.kind = COMMAND_EVAL};

	request.request.flags = eval->flags;
	request.request.limit = eval->limit;
	request.request.timeout_ms = options_limit_ms(&eval->options);
	request.request.name = (struct slice){name, strlen(name)};
	request.request.text = (struct slice){eval->code.bytes ? eval->code.bytes : "", eval->code.size};
	return request;
}

static int eval_run(int argc, char **argv)
{
	struct eval eval = {.limit = EVAL_TEXT_DEFAULT};
	struct command request;
	int status;

	options_init(&eval.options);
	eval.options.positional = &options_eval;
	eval.options.may_be_unlimited = true;
	status = options_parse(&argp, argc, argv, &eval.options);
	if (status == 0)
		status = read_code(&eval);
	if (status == 0) {
		int signals_descriptor = signals_install();

		output_open(&eval.output, NULL, false, NULL);
		terminal_text_init(&eval.out_text, STDOUT_FILENO);
		terminal_text_init(&eval.err_text, STDERR_FILENO);
		request = request_of(&eval);
		ask_open(&eval.ask, eval.options.pids.items[0], &request, &eval.options, &handler, &eval);
		status = ask_run(&eval.ask, 1, signals_descriptor);
		ask_close(&eval.ask);
		if (output_close(&eval.output) < 0) {
			message("%s", eval.output.error.text);
			status = STATUS_FAILED;
		}
	}
	for (int i = 0; i < OUTPUT_STREAM_COUNT; i++)
		buffer_free(&eval.kept[i]);
	buffer_free(&eval.code);
	options_free(&eval.options);
	return status;
}

const struct subcommand cmd_eval = {
	.name = "eval",
	.arguments = "-p PID CODE | -f FILE | -",
	.summary = "evaluate Ruby code in the process",
	.run = eval_run,
};
