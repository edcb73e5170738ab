/*
 * rbprobe eval: run a piece of Ruby inside the target and print what it returns.
 *
 * What the code writes comes as it is written, standard output to standard output and standard error to standard error;
 * its result goes to standard output, and how it failed to standard error. With --format json all of this is one
 * object, at the end.
 */

#define _GNU_SOURCE
#include "tracer/base/exit_status.h"
#include "tracer/base/json.h"
#include "tracer/base/message.h"
#include "tracer/base/terminal_text.h"
#include "tracer/base/value.h"
#include "tracer/cli/code.h"
#include "tracer/cli/subcommand.h"
#include "tracer/console/eval_text.h"

#include "proto/limits.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

struct eval {
	struct invocation invocation;
	uint32_t flags;           /* enum eval_flag */
	uint64_t result_size_max; /* bytes */
	const char *argument;
	bool is_code; /* -e: "-" does not mean standard input */
	const char *file;
	struct buffer code;
	struct buffer kept[OUTPUT_STREAM_COUNT]; /* for the JSON object */
	struct terminal_text out_text, err_text;
	bool answered; /* the DATA has come, and been shown */
};

enum long_option {
	OPTION_MAIN = 0x100,
	OPTION_RAW,
	OPTION_VALUE_SIZE,
};

#define KEPT_MAX (64u << 20) /* bytes of output in one JSON object */
#define WANTED "eval needs -p PID and either the code or -f FILE"
#define ONE_CODE "eval takes one piece of code; quote it, as in: rbprobe eval -p PID 'puts 1'"
#define WRONG(...) (message(__VA_ARGS__), EINVAL)

/* A number is code then. */
static bool names_process(const struct options *options)
{
	return options->pids.count || options->ps_pattern || options->wait_pattern;
}

static error_t parse_eval(int key, char *argument, struct argp_state *state)
{
	struct eval *eval = state->input;

	switch (key) {
	case 'e':
		if (eval->argument)
			return WRONG(ONE_CODE);
		eval->argument = argument;
		eval->is_code = true;
		return 0;
	case ARGP_KEY_ARG:
		if ((!eval->argument || eval->is_code) && !names_process(&eval->invocation.options) && options_are_pids(argument))
			return options_pids(argument, &eval->invocation.options.pids);
		if (eval->argument)
			return WRONG(ONE_CODE);
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
	case OPTION_VALUE_SIZE:
		return options_whole_number("--value-size", argument, 1, EVAL_TEXT_MAX, &eval->result_size_max);
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option eval_list[] = {
	{"code", 'e', "CODE", 0, "The same as CODE alone, as ruby takes it", 2},
	{"file", 'f', "FILE", 0, "Read the code from a file (- for standard input)", 2},
	{"main", OPTION_MAIN, NULL, 0, "Run it in the main thread, which does nothing else meanwhile", 2},
	{"raw", OPTION_RAW, NULL, 0, "Print a result that is a String as it is: no quotes, no limit", 3},
	{"value-size", OPTION_VALUE_SIZE, "BYTES", 0, "Cut a result that is longer (default 65536)", 3},
	{0},
};

static const struct argp options_eval = {.options = eval_list, .parser = parse_eval};

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
			"the code wrote more than %u MiB, which --format json would have to keep in memory; without it, output "
			"comes as it is written",
			KEPT_MAX >> 20);
	buffer_add_slice(&eval->kept[stream], bytes);
	return 0;
}

static int on_output(struct request *request, enum output_stream stream, struct slice bytes, struct error *err)
{
	struct eval *eval = request->owner;

	if (eval->invocation.json)
		return keep_output(eval, stream, bytes, err);
	if (stream == OUTPUT_STDERR) {
		struct buffer text = {0};

		terminal_text_add(&eval->err_text, &text, bytes);
		write_stderr(text.bytes, text.size);
		buffer_free(&text);
	} else {
		terminal_text_add(&eval->out_text, &eval->invocation.output.buffer, bytes);
		output_flush(&eval->invocation.output);
		if (output_is_over(&eval->invocation.output))
			request_cancel(request); /* nobody reads what is still to come */
	}
	return 0;
}

/* Renamed for people who write scripts. */
static const char *json_name(struct slice key)
{
	static const char *const names[][2] = {{"text", "inspect"}, {"duration_ns", "duration"}};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (key.size == strlen(names[i][0]) && memcmp(key.bytes, names[i][0], key.size) == 0)
			return names[i][1];
	return NULL;
}

static void add_json_pair(struct buffer *buffer, const msgpack_object_kv *pair)
{
	struct slice key = value_text(&pair->key);
	const char *name = json_name(key);

	if (name && strcmp(name, "duration") == 0)
		json_member_seconds(buffer, name, value_uint(&pair->val));
	else
		value_add_json(name ? json_key(buffer, name) : json_key_text(buffer, key), &pair->val);
}

static void show_json(struct eval *eval, const msgpack_object *data)
{
	static const char *const names[OUTPUT_STREAM_COUNT] = {
		[OUTPUT_STDOUT] = "stdout", [OUTPUT_STDERR] = "stderr", [OUTPUT_RESULT] = "result"};
	struct buffer *buffer = &eval->invocation.output.buffer;

	json_open_object(buffer);
	json_member_int(buffer, "pid", eval->invocation.options.pids.items[0]);
	for (uint32_t i = 0; data->type == MSGPACK_OBJECT_MAP && i < data->via.map.size; i++)
		add_json_pair(buffer, &data->via.map.ptr[i]);
	for (int stream = OUTPUT_STDOUT; stream < OUTPUT_STREAM_COUNT; stream++) {
		const struct buffer *kept = &eval->kept[stream];

		if (stream == OUTPUT_RESULT && (!(eval->flags & EVAL_RAW) || value_get(data, "text")))
			continue;
		json_member_text(buffer, names[stream], (struct slice){kept->bytes, kept->size});
	}
	json_close_line(buffer);
}

static void show_returned(struct eval *eval, const msgpack_object *data)
{
	eval_text_result(&eval->invocation.output.buffer, data);
	output_flush(&eval->invocation.output);
	if (value_bool(value_get(data, "cut")) && !eval->invocation.options.quiet)
		message("the result has %llu bytes and was cut after %zu (--value-size BYTES shows more, --raw a String as it "
		        "is)",
		        (unsigned long long)value_uint(value_get(data, "size")), value_text(value_get(data, "text")).size);
}

/* Ruby's refusal to lock a Mutex where a signal handler runs. */
static bool is_trap_context(const msgpack_object *data)
{
	struct slice message = value_text(value_get(data, "message"));

	return memmem(message.bytes, message.size, "trap context", strlen("trap context")) != NULL;
}

static void show_raised(struct eval *eval, const msgpack_object *data)
{
	struct buffer text = {0};

	eval_text_exception(&text, data);
	write_stderr(text.bytes, text.size);
	buffer_free(&text);
	if (eval->flags & EVAL_MAIN && is_trap_context(data) && !eval->invocation.options.quiet)
		message("with --main the code runs as a signal handler does, where Ruby allows no Mutex; without it, in a thread "
		        "of "
		        "its own");
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
	if (output_is_over(&eval->invocation.output))
		return;
	message("cancelled%s", value_count(value_get(data, "backtrace")) ? "; the code was here:" : "");
	show_frames(data);
}

static void show_timeout(struct eval *eval, const msgpack_object *data)
{
	message("the code took longer than %g s and was cancelled (--timeout SEC sets the limit, 0 takes it away)%s",
	        (double)eval->invocation.options.timeout_ns / 1e9,
	        value_count(value_get(data, "backtrace")) ? "; it was here:" : "");
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

static int on_data(struct request *request, const msgpack_object *data, struct error *err)
{
	struct eval *eval = request->owner;
	struct slice name = value_text(value_get(data, "outcome"));

	(void)err;
	terminal_text_end(&eval->out_text, &eval->invocation.output.buffer);
	for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++)
		if (strlen(outcomes[i].name) == name.size && memcmp(outcomes[i].name, name.bytes, name.size) == 0) {
			eval->answered = true;
			if (eval->invocation.json)
				show_json(eval, data);
			else
				outcomes[i].show(eval, data);
		}
	output_flush(&eval->invocation.output);
	return 0;
}

static void on_done(struct request *request, uint32_t code, struct slice text)
{
	const struct eval *eval = request->owner;

	if (code && !eval->answered)
		message("%.*s", (int)text.size, text.bytes);
}

static void eval_init(void *self)
{
	struct eval *eval = self;

	eval->result_size_max = EVAL_TEXT_DEFAULT;
	eval->invocation.options.may_be_unlimited = true;
	terminal_text_init(&eval->out_text, STDOUT_FILENO);
	terminal_text_init(&eval->err_text, STDERR_FILENO);
}

/* Also reads the code. */
static int eval_check(void *self)
{
	struct eval *eval = self;
	struct error err;

	if (!eval->argument == !eval->file) {
		message(WANTED);
		return STATUS_USAGE;
	}
	if (eval->argument && !eval->is_code && strcmp(eval->argument, "-") == 0)
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

static void eval_fill(const void *self, struct command *command)
{
	const struct eval *eval = self;
	const char *name = eval->file && strcmp(eval->file, "-") != 0 ? eval->file : "(rbprobe)";

	command->arguments.flags = eval->flags;
	command->arguments.result_size_max = eval->result_size_max;
	command->arguments.timeout_ms = options_limit_ms(&eval->invocation.options);
	command->arguments.name = (struct slice){name, strlen(name)};
	command->arguments.text = (struct slice){eval->code.bytes, eval->code.size};
}

static void eval_free(void *self)
{
	struct eval *eval = self;

	for (int i = 0; i < OUTPUT_STREAM_COUNT; i++)
		buffer_free(&eval->kept[i]);
	buffer_free(&eval->code);
}

const struct subcommand cmd_eval = {
	.name = "eval",
	.arguments = "-p PID CODE | -f FILE | -",
	.summary = "evaluate Ruby code in the process",
	.usage = "-p PID CODE\n-p PID -f FILE\n-p PID -",
	.description = "Evaluate Ruby code inside a running process and print its result.",
	.pids = PIDS_EACH,
	.heading = true,
	.pids_wanted = WANTED,
	.timeout = "How long attaching, and the code, may each take (default 5); 0: the code may take any time",
	.format = "For people, or one JSON object",
	.options = (const struct argp *const[]){&options_eval, NULL},
	.positional = &options_eval,
	.size = sizeof(struct eval),
	.init = eval_init,
	.check = eval_check,
	.kind = COMMAND_EVAL,
	.fill = eval_fill,
	.handler = {.data = on_data, .output = on_output, .done = on_done},
	.free = eval_free,
};
