/* rbprobe fork: a frozen copy of a process, for a debugger. */

#include "ask.h"
#include "exit_status.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "signals.h"
#include "subcommand.h"
#include "target_copy.h"
#include "value.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>

struct fork {
	struct options options;
	struct output output;
	struct ask ask;
	uint64_t began_ticks;
};

static const struct argp_child children[] = {
	{&options_target, 0, NULL, 0},
	{&options_session, 0, NULL, 0},
	{0},
};

static const struct argp argp = {
	.args_doc = "-p PID",
	.doc = "Make a frozen copy of a running process and print its PID. It runs nothing, holds no descriptor, and the process "
	       "does not "
	       "notice it; kill it when you are done.",
	.children = children,
};

static int on_data(void *owner, const msgpack_object *object, struct error *err)
{
	struct fork *fork = owner;
	const struct target *target = &fork->ask.session.target;
	uint64_t own = value_uint(value_get(object, "pid"));
	pid_t pid = own <= INT_MAX ? target_frozen_copy(target, (pid_t)own, fork->began_ticks) : 0;

	/* Somebody is going to kill what is printed here. */
	if (!pid)
		return error_set(err, -ECANCELED,
		                 "process %d says that its copy has the PID %" PRIu64
		                 ", but that is no copy of it that began just now",
		                 (int)target->pid, own);
	buffer_add_format(&fork->output.buffer, "%d\n", (int)pid);
	output_flush(&fork->output);
	if (!fork->options.quiet)
		message("process %d: its copy %d is frozen; the process stood still for %.1f ms; kill %d when you are done",
		        (int)target->pid, (int)pid, (double)value_uint(value_get(object, "fork_ns")) / 1e6, (int)pid);
	return 0;
}

static void on_done(void *owner, uint32_t code, struct slice text)
{
	const struct fork *fork = owner;

	if (code)
		message("process %d: %.*s", (int)fork->ask.session.target.pid, (int)text.size, text.bytes);
}

static const struct ask_handler handler = {.data = on_data, .done = on_done};

static int fork_run(int argc, char **argv)
{
	struct command request = {.kind = COMMAND_FORK, .request = {.name = {"", 0}, .text = {"", 0}}};
	struct fork fork = {.options = {.quiet = false}};
	int status;

	options_init(&fork.options);
	status = options_parse(&argp, argc, argv, &fork.options);
	if (status == 0 && fork.options.pids.count != 1) {
		message("fork needs the PID of one process: -p PID; `rbprobe ps` lists them");
		status = STATUS_USAGE;
	}
	if (status == 0) {
		int signals_descriptor = signals_install();

		fork.began_ticks = target_ticks_now();
		output_open(&fork.output, NULL, false, NULL);
		ask_open(&fork.ask, fork.options.pids.items[0], &request, &fork.options, &handler, &fork);
		status = ask_run(&fork.ask, 1, signals_descriptor);
		ask_close(&fork.ask);
		if (output_close(&fork.output) < 0) {
			message("%s", fork.output.error.text);
			status = STATUS_FAILED;
		}
	}
	options_free(&fork.options);
	return status;
}

const struct subcommand cmd_fork = {
	.name = "fork",
	.arguments = "-p PID",
	.summary = "a frozen copy of the process, for a debugger",
	.run = fork_run,
};
