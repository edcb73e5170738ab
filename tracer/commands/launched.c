/* A command that is started to be traced. See launched.h. */

#define _GNU_SOURCE
#include "tracer/commands/launched.h"

#include "proto/clock.h"
#include "tracer/attach/launch.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/signals.h"
#include "tracer/cli/hook_question.h"
#include "tracer/commands/trace_loop.h"
#include "tracer/process/extension.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/wait.h>

#define STATUS_NOT_RUN 127

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

int launched_check(const struct options *options)
{
	char extensions[PATH_MAX];
	int status = check_hook(options);
	struct error err;

	if (status == 0 && extension_directory(extensions, sizeof(extensions), &err) < 0) {
		message("%s", err.text);
		status = STATUS_NOT_ATTACHED;
	}
	return status;
}

/* It may outlive its trace. */
static int command_wait(pid_t pid, bool *killed)
{
	int status;

	*killed = false;
	while (waitpid(pid, &status, 0) < 0) {
		bool sent_by_process;
		int number;

		if (errno != EINTR)
			return STATUS_FAILED;
		number = signals_take(&sent_by_process);
		if (number && number != SIGUSR1 && sent_by_process)
			kill(pid, number);
	}
	*killed = WIFSIGNALED(status);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int launched_run(struct invocation *invocation, const struct sink_maker *maker, int signals)
{
	struct options *options = &invocation->options;
	char extensions[PATH_MAX];
	int status, command_status;
	bool killed;
	struct error err;
	pid_t pid;

	if (extension_directory(extensions, sizeof(extensions), &err) < 0) {
		message("%s", err.text);
		return STATUS_NOT_ATTACHED;
	}
	pid = launch(invocation->words, extensions, options->timeout_ns / NS_PER_MS, &err);
	if (pid < 0) {
		message("%s", err.text);
		return STATUS_NOT_RUN;
	}
	status = trace_loop(options, &invocation->output, maker, signals, pid, NULL);
	status = invocation_output_end(invocation, status); /* whoever waits for its end need not wait for the command's */
	command_status = command_wait(pid, &killed);
	/* That the traced process is gone is what its own status says, too. */
	return status && !(status == STATUS_TARGET_GONE && killed) ? status : command_status;
}
