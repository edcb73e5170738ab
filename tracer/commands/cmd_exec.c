/* rbprobe exec: start a Ruby process and trace it from its first line. */

#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/rbtrace_tracers.h"
#include "tracer/cli/subcommand.h"
#include "tracer/cli/tracer_set.h"
#include "tracer/commands/launched.h"
#include "tracer/commands/trace_help.h"
#include "tracer/commands/trace_spans.h"

static int exec_check(void *self)
{
	struct invocation *invocation = self;
	int status;

	if (!invocation->words) {
		message("which command? Write it after --, as in: rbprobe exec String#gsub -- ruby app.rb");
		return STATUS_USAGE;
	}
	status = trace_spans_check(&invocation->options);
	if (status)
		return status;
	tracers_want_events(&invocation->options);
	tracers_drop_keys(&invocation->options);
	status = options_check_shown(&invocation->options);
	if (!status)
		status = options_check_trace(&invocation->options);
	return status ? status : launched_check(&invocation->options);
}

static int exec_run(void *self)
{
	struct invocation *invocation = self;
	int signals = invocation_signals(invocation), status;
	struct trace_spans spans;

	if (signals < 0)
		return STATUS_FAILED;
	status = trace_spans_open(&spans, &invocation->options);
	if (status)
		return status;
	options_settle(&invocation->options, invocation->output.fd);
	status = launched_run(invocation, trace_spans_maker(&spans), signals);
	return trace_spans_close(&spans, signals, status);
}

const struct subcommand cmd_exec = {
	.name = "exec",
	.arguments = "SELECTOR... -- COMMAND...",
	.summary = "start a process and trace it",
	.usage = "SELECTOR... -- COMMAND [ARGUMENT...]",
	.description =
		"Start a command and follow the method calls of its Ruby from the first line of its program on, also when it "
		"replaces itself by another program (exec). Its input and output stay its own; the trace goes to standard output "
		"or, with -o, to a file, or, with --otlp, as spans to an OpenTelemetry collector.\v" TRACE_HELP_SELECTORS
			TRACE_HELP_CONDITIONS TRACE_HELP_OUTPUT "When the trace ended well, " LAUNCHED_HELP_STATUS,
	.pids = PIDS_NONE,
	.file_each = true,
	.timeout = TRACE_HELP_TIMEOUT,
	.options = (const struct argp *const[]){&options_selectors, &options_tracers, &options_rbtrace_lists, &options_run,
                                                &options_file, &options_otlp, &options_trace, &options_shown, &options_measure,
                                                &options_stack, &options_conditions, &options_always, &options_events,
                                                &options_color, &options_engine, NULL},
	.takes_words = true,
	.check = exec_check,
	.run = exec_run,
};
