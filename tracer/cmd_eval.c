/* rbprobe eval: run a piece of Ruby inside the target and print what it returns. */

#include "ask.h"
#include "exit_status.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "signals.h"
#include "subcommand.h"
#include "value.h"

#include <string.h>

struct eval {
	struct options options;
	struct output output;
	const char *code;
};

static error_t parse_eval(int key, char *argument, struct argp_state *state)
{
	struct eval *eval = (struct eval *)state->input;

	if (key != ARGP_KEY_ARG)
		return ARGP_ERR_UNKNOWN;
	eval->code = argument;
	return 0;
}

static const struct argp options_eval = {.parser = parse_eval};

static const struct argp_child children[] = {
	{&options_target, 0, NULL, 0},
	{&options_eval, 0, NULL, 0},
	{&options_session, 0, NULL, 0},
	{0},
};

static const struct argp argp = {
	.args_doc = "-p PID CODE",
	.doc = "Evaluate Ruby code inside a running process and print its result.",
	.children = children,
};

static int on_data(void *owner, const msgpack_object *object, struct error *err)
{
	struct eval *eval = owner;
	struct slice text = value_text(value_get(object, "text"));

	(void)err;
	buffer_add(&eval->output.buffer, text.bytes, text.size);
	buffer_add_char(&eval->output.buffer, '\n');
	output_flush(&eval->output);
	return 0;
}

static void on_done(void *owner, uint32_t code, struct slice text)
{
	(void)owner;
	if (code)
		message("%.*s", (int)text.size, text.bytes);
}

static const struct ask_handler handler = {.data = on_data, .done = on_done};

static int eval_run(int argc, char **argv)
{
	struct eval eval = {0};
	struct command request = {.kind = COMMAND_EVAL, .request = {.name = {"(rbprobe)", 9}}};
	struct ask ask;
	int status;

	options_init(&eval.options);
	eval.options.positional = &options_eval;
	status = options_parse(&argp, argc, argv, &eval.options);
	if (status == 0 && (eval.options.pids.count != 1 || !eval.code)) {
		message("eval needs -p PID and the code");
		status = STATUS_USAGE;
	}
	if (status == 0) {
		int signals_descriptor = signals_install();

		output_open(&eval.output, NULL, false, NULL);
		request.request.text = (struct slice){eval.code, strlen(eval.code)};
		ask_open(&ask, eval.options.pids.items[0], &request, &eval.options, &handler, &eval);
		status = ask_run(&ask, 1, signals_descriptor);
		ask_close(&ask);
		output_close(&eval.output);
	}
	options_free(&eval.options);
	return status;
}

const struct subcommand cmd_eval = {
	.name = "eval",
	.arguments = "-p PID CODE",
	.summary = "evaluate Ruby code in the process",
	.run = eval_run,
};
