/* rbprobe load: put the extension into processes that never required it, and leave it there. */

#define _GNU_SOURCE
#include "proto/clock.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/selftest_report.h"
#include "tracer/inject/loader.h"
#include "tracer/process/capabilities.h"
#include "tracer/process/container.h"
#include "tracer/process/target.h"

#include <errno.h>
#include <time.h>

#define LOOK_INTERVAL_NS NS_PER_MS

/* The library is there; Ruby still has to come to a point where it can start. */
static int wait_for_start(const struct target *target, uint64_t timeout_ns, struct error *err)
{
	uint64_t deadline_ns = clock_now_ns() + timeout_ns;
	int status;

	while ((status = loader_has_started(target, err)) == 0) {
		struct timespec pause = {.tv_nsec = LOOK_INTERVAL_NS};

		if (!target_is_same(target))
			return error_set(err, -ESRCH, "process %d ended before the extension could start in it",
			                 (int)target->pid);
		if (clock_now_ns() >= deadline_ns)
			return error_set(err, -ETIMEDOUT,
			                 "the extension is in process %d now, but Ruby did not come to a point where it could "
			                 "start within %g "
			                 "s; it will start when it can",
			                 (int)target->pid, (double)timeout_ns / 1e9);
		nanosleep(&pause, NULL);
	}
	return status < 0 ? status : 0;
}

/* With -v: one line for each process in which something is not as it should be. That does not make the loading a failure. */
static int on_selftest(struct request *request, const msgpack_object *object, struct error *err)
{
	int pid = (int)request->attachment.target.pid;
	struct buffer failures = {0};

	(void)err;
	selftest_report_failures(&failures, object);
	if (failures.size)
		message("process %d: self-test: %.*s failed; `rbprobe selftest -p %d` shows more", pid, (int)failures.size,
		        failures.bytes, pid);
	buffer_free(&failures);
	return 0;
}

static int load_one(const struct options *options, pid_t pid)
{
	struct loader_report report;
	const struct loader_wish wish = {LOADER_STAY, options->interrupt};
	struct target target;
	struct error err;
	int status = target_describe(&target, pid, TARGET_BASIC, &err);

	if (status == 0)
		status = target_check(&target, &err);
	if (status == 0)
		status = container_check(&target, CONTAINER_ASK, &err);
	if (status == 0 && options->no_load)
		status = target_check_loaded(&target, &err);
	else if (status == 0)
		status = loader_prepare(&target, &wish, &report, &err);
	if (status == 0)
		status = wait_for_start(&target, options->timeout_ns, &err);
	if (status < 0) {
		capabilities_explain(&target, status, &err);
		message("%s", err.text);
		return STATUS_NOT_ATTACHED;
	}
	if (options->verbose && !options->no_load) {
		char text[512];

		loader_describe(&report, pid, text, sizeof(text));
		message("%s", text);
	}
	return STATUS_DONE;
}

static int load_run(void *self)
{
	struct invocation *invocation = self;
	const struct options *options = &invocation->options;
	int status = STATUS_DONE;

	for (size_t i = 0; i < options->pids.count; i++) {
		int one = load_one(options, options->pids.items[i]);

		status = status ? status : one;
	}
	if (status == STATUS_DONE && options->verbose && !options->no_load)
		invocation_request(invocation, options->pids.items, options->pids.count);
	return status;
}

const struct subcommand cmd_load = {
	.name = "load",
	.arguments = "-p PID[,PID...]",
	.summary = "put the extension into a process",
	.usage = "-p PID",
	.description =
		"Load the rbprobe extension into running Ruby processes, so that they can be attached to at once, also by those "
		"who may not trace them. The main thread is stopped for a millisecond or two. The other commands do the same by "
		"themselves. Loading twice does no harm; unloading is not possible.\v"
		"Exit status: 0 loaded, or was before; 2 wrong usage; 3 could not be loaded, and nothing was changed (stderr "
		"says "
		"why).",
	.pids = PIDS_SOME,
	.timeout = "How long to wait until the extension can start (default 5)",
	.kind = COMMAND_SELFTEST,
	.handler = {.data = on_selftest},
	.run = load_run,
};
