/* rbprobe exec: start a Ruby process and trace it from its first line. */

#define _GNU_SOURCE
#include "proto/clock.h"
#include "tracer/attach/launch.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/signals.h"
#include "tracer/cli/hook_question.h"
#include "tracer/cli/subcommand.h"
#include "tracer/cli/tracer_set.h"
#include "tracer/commands/trace_help.h"
#include "tracer/commands/trace_loop.h"
#include "tracer/process/extension.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

struct exec {
	struct invocation invocation;
	char extensions[PATH_MAX];
};

/* The command may outlive its trace. */
static int command_wait(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0) {
		bool sent_by_process;
		int number;

		if (errno != EINTR)
			return STATUS_FAILED;
		number = signals_take(&sent_by_process);
		if (number && sent_by_process)
			kill(pid, number);
	}
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* What leaves any process slower is refused before there is one. */
static int check_hook(const struct options *options)
{
	if (!(options->trace.flags & TRACE_FIREHOSE) || options->trace.flags & TRACE_HOOK)
		return 0;
	message("--firehose --engine hook makes every call in the process several times slower while it is traced (tight loops "
	        "up to "
	        "25 times, 200 with YJIT), and leaves it up to 5 times slower (40 with YJIT) for as long as it runs%s",
	        hook_remedy(options));
	return STATUS_USAGE;
}

static int exec_check(void *self)
{
	struct exec *exec = self;
	struct invocation *invocation = &exec->invocation;
	struct error err;
	int status;

	if (!invocation->words) {
		message("which command? Write it after --, as in: rbprobe exec String#gsub -- ruby app.rb");
		return STATUS_USAGE;
	}
	tracers_want_events(&invocation->options);
	tracers_drop_keys(&invocation->options);
	status = options_check_trace(&invocation->options);
	if (status == 0)
		status = check_hook(&invocation->options);
	if (status == 0 && extension_directory(exec->extensions, sizeof(exec->extensions), &err) < 0) {
		message("%s", err.text);
		status = STATUS_NOT_ATTACHED;
	}
	return status;
}

static int exec_run(void *self)
{
	struct exec *exec = self;
	struct invocation *invocation = &exec->invocation;
	struct options *options = &invocation->options;
	int signals = invocation_signals(invocation), status, command_status;
	struct error err;
	pid_t pid;

	if (signals < 0)
		return STATUS_FAILED;
	pid = launch(invocation->words, exec->extensions, options->timeout_ns / NS_PER_MS, &err);
	if (pid < 0) {
		message("%s", err.text);
		return 127;
	}
	options_settle(options, invocation->output.fd);
	status = trace_loop(options, &invocation->output, NULL, signals, pid, NULL);
	status = invocation_output_end(invocation, status); /* whoever waits for its end need not wait for the command's */
	command_status = command_wait(pid);
	return status ? status : command_status;
}

const struct subcommand cmd_exec = {
	.name = "exec",
	.arguments = "SELECTOR... -- COMMAND...",
	.summary = "start a process and trace it",
	.usage = "SELECTOR... -- COMMAND [ARGUMENT...]",
	.description =
		"Start a command and follow the method calls of its Ruby from the first line of its program on, also when it "
		"replaces itself by another program (exec). Its input and output stay its own; the trace goes to standard output "
		"or, with -o, to a file.\v" TRACE_HELP_SELECTORS TRACE_HELP_CONDITIONS TRACE_HELP_OUTPUT
		"When the trace ended well, the exit status is the command's own (128 + N where signal N killed it), else that "
		"of "
		"`rbprobe trace`; 127 where the command cannot be run. When --duration or --count ends the trace, the command "
		"goes on, and rbprobe waits for it. INT, TERM and HUP that are sent to rbprobe are passed on; a second one ends "
		"rbprobe alone.",
	.pids = PIDS_NONE,
	.file_each = true,
	.timeout = TRACE_HELP_TIMEOUT,
	.options = (const struct argp *const[]){&options_selectors, &options_tracers, &options_run, &options_file, &options_trace,
                                                &options_shown, &options_measure, &options_stack, &options_conditions,
                                                &options_always, &options_events, &options_color, &options_engine, NULL},
	.takes_words = true,
	.size = sizeof(struct exec),
	.check = exec_check,
	.run = exec_run,
};
