/*
 * The fork request: a copy of the process that stands still, for a debugger. It has the memory as it was, one thread (that on
 * which the job ran), and no descriptors; it stays until somebody kills it. Context: job, and frozen_main() in the copy.
 */

#define _GNU_SOURCE
#include "tracee/session/request.h"

#include "proto/clock.h"
#include "tracee/base/msgpack_builder.h"
#include "tracee/requests/silent_fork.h"

#include <errno.h>
#include <ruby.h>
#include <signal.h>
#include <unistd.h>

static void frozen_main(void *unused)
{
	(void)unused;
	silent_fork_settle(SILENT_FORK_FROZEN, "rbprobe-frozen", -1);
	/* Neither the terminal's Ctrl-C nor its end is meant for the copy. */
	setsid();
	for (;;)
		pause();
}

static void fork_begin(struct request *request, const struct command *command)
{
	uint64_t began_ns = clock_now_ns();
	struct msgpack_builder answer;
	struct silent_fork *copy;
	struct error err;

	(void)command;
	if (silent_fork_start(&copy, SILENT_FORK_FROZEN, frozen_main, NULL, NULL, NULL, &err) < 0) {
		request_finish(request, -err.code, "%s", err.text);
		return;
	}
	builder_init(&answer);
	builder_map(&answer, NULL);
	builder_uint(&answer, "pid", (uint64_t)silent_fork_pid(copy));
	builder_uint(&answer, "fork_ns", clock_now_ns() - began_ns);
	builder_end(&answer);
	if (request_answer(request, &answer))
		request_finish(request, 0, "%s", "");
	else
		request_finish(request, ENOMEM, "no memory to answer; the copy is there all the same, as process %d",
		               (int)silent_fork_pid(copy));
	builder_free(&answer);
	silent_fork_forget(copy);
}

const struct request_kind request_fork = {.name = "fork", .begin = fork_begin};
