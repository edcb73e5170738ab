/* rbprobe trace: follow the calls of selected methods in running processes. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/hook_question.h"
#include "tracer/cli/rbtrace_tracers.h"
#include "tracer/cli/subcommand.h"
#include "tracer/cli/tracer_set.h"
#include "tracer/commands/otlp_run.h"
#include "tracer/commands/trace_help.h"
#include "tracer/commands/trace_loop.h"

/* --otlp */
struct spans {
	const struct options *options;
	struct otlp_run otlp;
};

static int trace_check(void *self)
{
	struct options *options = &((struct invocation *)self)->options;
	int status = otlp_run_check(options);

	if (status)
		return status;
	if (options->otlp && options->format != &sink_text) {
		message("--otlp sends calls in the format of OpenTelemetry: leave out --format");
		return STATUS_USAGE;
	}
	tracers_want_events(options);
	tracers_drop_keys(options);
	return options_check_shown(options) ? STATUS_USAGE : options_check_trace(options);
}

static struct sink *make_spans(void *owner, struct output *output)
{
	struct spans *spans = owner;

	return sink_otlp_new(output, &spans->options->style, &spans->otlp.manner);
}

static int trace_run(void *self)
{
	struct invocation *invocation = self;
	struct options *options = &invocation->options;
	struct output *output = &invocation->output;
	struct error question = {0};
	int signals = invocation_signals(invocation), status;
	struct spans spans = {.options = options};
	const struct sink_maker to_otlp = {make_spans, NULL, &spans, NULL}, *maker = options->otlp ? &to_otlp : NULL;

	if (signals < 0)
		return STATUS_FAILED;
	status = options->otlp ? otlp_run_open(&spans.otlp, options, OTLP_TRACES) : 0;
	if (status)
		return status;
	/* For the links of the spans. */
	if (options->otlp)
		options->trace.flags |= TRACE_SPAN;
	options_settle(options, output->fd);
	status = trace_loop(options, output, maker, signals, 0, hook_question_possible(options) ? &question : NULL);
	if (question.code && hook_question_ask(options, question.text, signals))
		status = trace_loop(options, output, maker, signals, 0, NULL);
	return otlp_run_close(&spans.otlp, signals, status);
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
