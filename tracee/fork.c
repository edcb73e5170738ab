/*
 * The fork request: a copy of the process that stands still, for a debugger. It has the memory as it was, one thread (that on which the job ran),
 * and no descriptors; it stays until somebody kills it. Context: job, and frozen_main() in the copy.
 */

#define _GNU_SOURCE
#include "request.h"

#include "answer.h"
#include "copy.h"
#include "proto/clock.h"

#include <errno.h>
#include <ruby.h>
#include <signal.h>
#include <unistd.h>

static void frozen_main(void *unused)
{
	(void)unused;
	copy_settle(COPY_FROZEN, "rbprobe-frozen", -1);
	/* Neither the terminal's Ctrl-C nor its end is meant for the copy. */
	setsid();
	for (;;)
		pause();
}

static void begin(struct request *request, const struct command *command)
{
	uint64_t began_ns = clock_now_ns();
	struct answer answer;
	struct copy *copy;
	struct error err;

	(void)command;
	if (copy_start(&copy, COPY_FROZEN, frozen_main, NULL, NULL, NULL, &err) < 0) {
		request_finish(request, -err.code, "%s", err.text);
		return;
	}
	answer_init(&answer);
	answer_map(&answer, NULL);
	answer_uint(&answer, "pid", (uint64_t)copy_pid(copy));
	answer_uint(&answer, "fork_ns", clock_now_ns() - began_ns);
	answer_end(&answer);
	if (request_answer(request, &answer))
		request_finish(request, 0, "%s", "");
	else
		request_finish(request, ENOMEM, "no memory to answer; the copy is there all the same, as process %d",
		               (int)copy_pid(copy));
	answer_free(&answer);
	copy_forget(copy);
}

const struct request_kind request_fork = {.name = "fork", .begin = begin};
