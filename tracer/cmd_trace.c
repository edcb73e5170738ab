/* rbprobe trace: follow the calls of selected methods in running processes. */

#include "exit_status.h"
#include "follow.h"
#include "hook_question.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "signals.h"
#include "subcommand.h"
#include "trace_help.h"

#include <string.h>
#include <unistd.h>

static const struct argp_child children[] = {
	{&options_target, 0, NULL, 0},
	{&options_selectors, 0, NULL, 0},
	{&options_trace, 0, NULL, 0},
	{&options_color, 0, NULL, 0},
	{&options_engine, 0, NULL, 0},
	{&options_session, 0, NULL, 0},
	{0},
};

static const struct argp argp = {
	.args_doc = "-p PID SELECTOR...",
	.doc = "Follow method calls in running Ruby processes.\v" TRACE_HELP_SELECTORS TRACE_HELP_OUTPUT TRACE_HELP_STATUS,
	.children = children,
};

static int trace(struct options *options)
{
	struct output output;
	struct error err, question;
	struct sink *sink;
	int signals_descriptor, status;

	if (output_open(&output, options->output_path, options->append, &err) < 0) {
		message("%s", err.text);
		return STATUS_FAILED;
	}
	signals_descriptor = signals_install();
	if (signals_descriptor < 0) {
		message("cannot make a pipe: %s", strerror(-signals_descriptor));
		return STATUS_FAILED;
	}
	options_settle(options, output.fd);
	sink = sink_new(options->format, &output, &options->style);
	question.code = 0;
	status = follow(options, &output, sink, signals_descriptor, 0, hook_question_possible(options) ? &question : NULL);
	if (question.code && hook_question_ask(question.text, signals_descriptor)) {
		options->trace.flags |= TRACE_HOOK;
		status = follow(options, &output, sink, signals_descriptor, 0, NULL);
	}
	sink_free(sink);
	if (output_close(&output) < 0) {
		message("%s", output.error.text);
		status = STATUS_FAILED;
	}
	return status;
}

static int trace_run(int argc, char **argv)
{
	struct options options;
	int status;

	options_init(&options);
	status = options_parse(&argp, argc, argv, &options);
	if (status == 0 && options.pids.count == 0) {
		message("trace needs -p PID; `rbprobe ps` lists the Ruby processes");
		status = STATUS_USAGE;
	}
	if (status == 0)
		status = options_check_trace(&options);
	if (status == 0)
		status = trace(&options);
	options_free(&options);
	return status;
}

const struct subcommand cmd_trace = {
	.name = "trace",
	.arguments = "-p PID[,PID...] SELECTOR...",
	.summary = "follow method calls live",
	.run = trace_run,
};
