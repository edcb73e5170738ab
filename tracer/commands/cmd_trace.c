/* rbprobe trace: follow the calls of selected methods in running processes. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/hook_question.h"
#include "tracer/cli/rbtrace_tracers.h"
#include "tracer/cli/subcommand.h"
#include "tracer/cli/tracer_set.h"
#include "tracer/commands/trace_help.h"
#include "tracer/commands/trace_loop.h"
#include "tracer/commands/trace_spans.h"

static int trace_check(void *self)
{
	struct options *options = &((struct invocation *)self)->options;
	int status = trace_spans_check(options);

	if (status)
		return status;
	tracers_want_events(options);
	tracers_drop_keys(options);
	/* rbtrace's expressions are about the start of a call, whatever they are called. */
	if (options->format != &sink_rbtrace)
		options->trace.flags |= TRACE_ENDS;
	return options_check_shown(options) ? STATUS_USAGE : options_check_trace(options);
}

static int trace_run(void *self)
{
	struct invocation *invocation = self;
	struct options *options = &invocation->options;
	struct output *output = &invocation->output;
	struct error question = {0};
	int signals = invocation_signals(invocation), status;
	struct trace_spans spans;

	if (signals < 0)
		return STATUS_FAILED;
	status = trace_spans_open(&spans, options);
	if (status)
		return status;
	options_settle(options, output->fd);
	status = trace_loop(options, output, trace_spans_maker(&spans), signals, 0,
	                    hook_question_possible(options) ? &question : NULL);
	if (question.code && hook_question_ask(options, question.text, signals))
		status = trace_loop(options, output, trace_spans_maker(&spans), signals, 0, NULL);
	return trace_spans_close(&spans, signals, status);
}

const struct subcommand cmd_trace = {
	.name = "trace",
	.arguments = "-p PID[,PID...] SELECTOR...",
	.summary = "follow method calls live",
	.usage = "-p PID SELECTOR...",
	.description = "Follow method calls in running Ruby processes.\v" TRACE_HELP_SELECTORS TRACE_HELP_CONDITIONS
		TRACE_HELP_OUTPUT TRACE_HELP_STATUS,
	.pids = PIDS_SOME,
	.children_itself = true,
	.file_each = true,
	.timeout = TRACE_HELP_TIMEOUT,
	.options = (const struct argp *const[]){&options_selectors, &options_tracers, &options_rbtrace_lists, &options_run,
                                                &options_file, &options_otlp, &options_trace, &options_shown, &options_measure,
                                                &options_stack, &options_conditions, &options_always, &options_events,
                                                &options_color, &options_engine, NULL},
	.check = trace_check,
	.run = trace_run,
};
