/* rbprobe fork: a frozen copy of a process, for a debugger. */

#include "tracer/base/message.h"
#include "tracer/base/value.h"
#include "tracer/cli/subcommand.h"
#include "tracer/commands/rbtrace_requests.h"
#include "tracer/process/target_copy.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>

struct fork {
	struct invocation invocation;
	uint64_t began_ticks;
};

static void fork_init(void *self)
{
	((struct fork *)self)->began_ticks = target_ticks_now();
}

/* Somebody is going to kill what the process says is its copy. 0, with err: it is none. */
static pid_t copy_checked(const struct request *request, const msgpack_object *object, struct error *err)
{
	const struct fork *fork = request->owner;
	const struct target *target = &request->attachment.target;
	uint64_t own = value_uint(value_get(object, "pid"));
	pid_t pid = own <= INT_MAX ? target_frozen_copy(target, (pid_t)own, fork->began_ticks) : 0;

	if (!pid)
		error_set(err, -ECANCELED,
		          "process %d says that its copy has the PID %" PRIu64 ", but that process is no new copy of it",
		          (int)target->pid, own);
	return pid;
}

static int on_data(struct request *request, const msgpack_object *object, struct error *err)
{
	struct fork *fork = request->owner;
	pid_t pid = copy_checked(request, object, err);

	if (!pid)
		return err->code;
	buffer_add_format(&fork->invocation.output.buffer, "%d\n", (int)pid);
	output_flush(&fork->invocation.output);
	if (!fork->invocation.options.quiet)
		message("process %d: its copy %d is frozen; the process stood still for %.1f ms; kill %d when you are done",
		        (int)request->attachment.target.pid, (int)pid, (double)value_uint(value_get(object, "fork_ns")) / 1e6,
		        (int)pid);
	return 0;
}

static int on_data_like_rbtrace(struct request *request, const msgpack_object *object, struct error *err)
{
	pid_t pid = copy_checked(request, object, err);

	if (pid)
		message_bare("*** forked off a frozen copy at %d (make sure to kill -9 it when you're done)", (int)pid);
	return pid ? 0 : err->code;
}

const struct subcommand cmd_fork = {
	.name = "fork",
	.arguments = "-p PID",
	.summary = "a frozen copy for a debugger",
	.usage = "-p PID",
	.description = "Make a frozen copy of a running process and print its PID. It runs nothing, holds no descriptor, and the "
		       "process does not notice it; kill it when you are done.",
	.pids = PIDS_ONE,
	.size = sizeof(struct fork),
	.init = fork_init,
	.kind = COMMAND_FORK,
	.handler = {.data = on_data},
};

const struct subcommand rbtrace_fork = {
	.name = "fork",
	.usage = "-p PID",
	.description = "As rbtrace --fork.",
	.pids = PIDS_ONE,
	.size = sizeof(struct fork),
	.init = fork_init,
	.kind = COMMAND_FORK,
	.handler = {.attached = rbtrace_on_attached, .data = on_data_like_rbtrace, .done = rbtrace_on_done},
};
