/*
 * rbprobe backtrace: where every thread of a process is, once or again and again. Each look is a session of its own:
 * between two of them there is nothing of rbprobe in the process.
 */

#include "proto/clock.h"
#include "tracer/backtrace/backtrace_color.h"
#include "tracer/backtrace/backtrace_native.h"
#include "tracer/backtrace/backtrace_report.h"
#include "tracer/base/exit_status.h"
#include "tracer/base/message.h"
#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"
#include "tracer/cli/choose_processes.h"
#include "tracer/cli/subcommand.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum backtrace_option {
	OPTION_LIMIT = 0x400,
	OPTION_FIBERS,
	OPTION_GROUP,
	OPTION_FULL,
	OPTION_LOCALS,
	OPTION_APP,
};

/* One process, and the looks at it. */
struct watched {
	pid_t pid;
	bool answered;
	struct report now, before;
};

struct backtrace {
	struct invocation invocation;
	struct command command;
	const char *thread;
	bool thread_found; /* in any process, in any look */
	uint64_t frames_max;
	bool fibers, full, locals, colors;
	struct report_style style;
	struct watched *watched;
	size_t count;
};

static error_t parse_backtrace(int key, char *argument, struct argp_state *state)
{
	struct backtrace *backtrace = state->input;

	switch (key) {
	case 't':
		backtrace->thread = argument;
		return 0;
	case OPTION_LIMIT:
		return options_whole_number("--limit", argument, 1, INT32_MAX, &backtrace->frames_max);
	case OPTION_FIBERS:
		backtrace->fibers = true;
		return 0;
	case OPTION_FULL:
		backtrace->full = true;
		return 0;
	case OPTION_LOCALS:
		backtrace->locals = true;
		return 0;
	case OPTION_APP:
		backtrace->style.app = true;
		return 0;
	case OPTION_GROUP:
		backtrace->style.group = true;
		return 0;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option backtrace_list[] = {
	{"thread", 't', "PATTERN", 0,
         "Only threads of that name (* and ? stand for anything), native id or id; main: the main thread", 2},
	{"limit", OPTION_LIMIT, "N", 0, "At most N frames of each", 2},
	{"fibers", OPTION_FIBERS, NULL, 0, "Also the fibers that do not run", 2},
	{"full", OPTION_FULL, NULL, 0, "Also the native frames (C functions), for which each thread is stopped for a moment", 2},
	{"locals", OPTION_LOCALS, NULL, 0, "Also arguments and other local variables, below each frame written in Ruby", 2},
	{"app", OPTION_APP, NULL, 0,
         "Only the application's frames, and the innermost one; those of gems and of Ruby are counted", 3},
	{"group", OPTION_GROUP, NULL, 0, "Threads with the same frames together", 3},
	{0},
};

static const struct argp options_backtrace = {.options = backtrace_list, .parser = parse_backtrace};

static int on_data(struct request *request, const msgpack_object *object, struct error *err)
{
	struct watched *watched = request->owner;

	(void)err;
	report_add(&watched->now, object);
	return 0;
}

static void on_done(struct request *request, uint32_t code, struct slice text)
{
	struct watched *watched = request->owner;

	watched->answered = code == 0;
	request_report(request, code, text);
}

static struct watched *watched_find(struct watched *watched, size_t count, pid_t pid)
{
	for (size_t i = 0; i < count; i++)
		if (watched[i].pid == pid)
			return &watched[i];
	return NULL;
}

static void forget(struct watched *watched, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		report_free(&watched[i].now);
		report_free(&watched[i].before);
	}
	free(watched);
}

/* Which processes the next look is at: workers come and go. What was seen of them before is kept. */
static void choose(struct backtrace *backtrace)
{
	const struct pid_list *pids = &backtrace->invocation.options.pids;
	struct watched *old = backtrace->watched;
	bool children = backtrace->invocation.options.children;
	size_t old_count = backtrace->count;
	struct pid_list chosen = {0};

	for (size_t i = 0; i < pids->count; i++)
		if (children)
			choose_children(pids->items[i], &chosen);
		else
			pid_list_add(&chosen, pids->items[i]);
	backtrace->watched = memory_zeroed(chosen.count * sizeof(*old) + 1);
	backtrace->count = chosen.count;
	for (size_t i = 0; i < chosen.count; i++) {
		struct watched *known = watched_find(old, old_count, chosen.items[i]);

		backtrace->watched[i].pid = chosen.items[i];
		if (!known)
			continue;
		backtrace->watched[i].before = known->before;
		memset(&known->before, 0, sizeof(known->before));
	}
	free(chosen.items);
	forget(old, old_count);
}

static void add_native(struct backtrace *backtrace, struct watched *watched)
{
	struct native_stacks stacks;
	struct target target;
	struct error err;
	int status = target_describe(&target, watched->pid, TARGET_BASIC, &err);

	if (status < 0)
		return; /* it has just ended */
	if (native_stacks_take(&stacks, &target, 0, NATIVE_BUDGET_NS, &err) < 0)
		message("no native frames: %s", err.text);
	else
		report_add_native(&watched->now, &stacks, backtrace->thread != NULL);
	if (native_stacks_gap(&stacks))
		message("process %d: %s", (int)watched->pid, native_stacks_gap(&stacks));
	native_stacks_free(&stacks);
}

/* Where the VM runs no job, what can be had without it. True: that is the answer. */
static bool look_from_outside(struct backtrace *backtrace, const struct watched *watched, const struct request *request)
{
	struct target target;
	struct error err;

	if (request->status != STATUS_NOT_ATTACHED || request->error.code != -ETIMEDOUT ||
	    target_describe(&target, watched->pid, TARGET_BASIC, &err) < 0 || target.state == 'T' || target.state == 't')
		return false;
	return stuck_write(&backtrace->invocation.output.buffer, &target, backtrace->invocation.options.timeout_ns,
	                   backtrace->invocation.json);
}

/* One look at all of them. Returns a status; *interrupted: by a signal. */
static int look(struct backtrace *backtrace, int signals_descriptor, bool *interrupted)
{
	struct request *requests = memory_zeroed(backtrace->count * sizeof(*requests) + 1);
	int status;

	for (size_t i = 0; i < backtrace->count; i++) {
		struct watched *watched = &backtrace->watched[i];

		watched->answered = false;
		report_begin(&watched->now, watched->pid, backtrace->invocation.json, &backtrace->style);
		request_open(&requests[i], watched->pid, &backtrace->command, &backtrace->invocation.options,
		             &backtrace->invocation.subcommand->handler, watched);
	}
	status = request_run(requests, backtrace->count, NULL, signals_descriptor, interrupted);
	for (size_t i = 0; i < backtrace->count; i++)
		request_close(&requests[i]);
	for (size_t i = 0; i < backtrace->count && backtrace->full; i++)
		if (backtrace->watched[i].answered)
			add_native(backtrace, &backtrace->watched[i]);
	for (size_t i = 0; i < backtrace->count; i++) {
		if (backtrace->watched[i].answered || !look_from_outside(backtrace, &backtrace->watched[i], &requests[i]))
			continue;
		backtrace->thread_found = true; /* all are shown */
		if (status == requests[i].status)
			status = STATUS_DONE;
	}
	free(requests);
	return status;
}

static bool has_thread(const struct report *report)
{
	for (size_t i = 0; i < report->count; i++)
		if (!report->stacks[i].fiber)
			return true;
	return false;
}

/* from: where in the output this look begins. */
static void show(struct backtrace *backtrace, size_t from)
{
	bool first = true;

	for (size_t i = 0; i < backtrace->count; i++) {
		struct watched *watched = &backtrace->watched[i];
		bool found = has_thread(&watched->now);

		if (!watched->answered) {
			report_free(&watched->now);
			continue;
		}
		if (!first && !backtrace->invocation.json)
			buffer_add_char(&backtrace->invocation.output.buffer, '\n');
		first = false;
		backtrace->thread_found |= found;
		if (backtrace->thread && !found && !watched->before.pid)
			message("process %d: no thread has the name or id %s", (int)watched->pid, backtrace->thread);
		if (watched->now.compiler && !watched->before.pid && !backtrace->invocation.options.quiet)
			message("process %d: whom threads join, what they wait for, and their SQL are shown with --locals: for "
			        "these the compiler (YJIT) has to drop its code, once",
			        (int)watched->pid);
		report_write(&watched->now, watched->before.pid ? &watched->before : NULL, &backtrace->style,
		             &backtrace->invocation.output.buffer);
		report_free(&watched->before);
		watched->before = watched->now;
		memset(&watched->now, 0, sizeof(watched->now));
	}
	if (backtrace->colors)
		backtrace_color(&backtrace->invocation.output.buffer, from);
	output_flush(&backtrace->invocation.output);
}

/* False: a signal came instead. */
static bool wait_until(uint64_t at_ns, int signals_descriptor)
{
	struct pollfd signals = {.fd = signals_descriptor, .events = POLLIN};
	bool by_process;

	while (clock_now_ns() < at_ns)
		if (poll_until(&signals, 1, at_ns) && signals_take(&by_process))
			return false;
	return true;
}

static int backtrace_run(void *self)
{
	struct backtrace *backtrace = self;
	int signals_descriptor = invocation_signals(&backtrace->invocation), status;
	uint64_t next_ns = clock_now_ns(), every_ns = backtrace->invocation.every_ns;
	bool interrupted = false;

	backtrace->command = invocation_command(&backtrace->invocation);
	backtrace->colors =
		!backtrace->invocation.json && term_colors(backtrace->invocation.output.fd, backtrace->invocation.options.colors);
	for (uint64_t round = 1;; round++) {
		size_t from = backtrace->invocation.output.buffer.size;

		choose(backtrace);
		status = backtrace->count ? look(backtrace, signals_descriptor, &interrupted) : STATUS_NOT_ATTACHED;
		show(backtrace, from);
		if (interrupted || status != STATUS_DONE || output_is_over(&backtrace->invocation.output) ||
		    round == (every_ns ? backtrace->invocation.count : 1))
			break;
		next_ns += every_ns;
		interrupted = !wait_until(next_ns, signals_descriptor);
		if (interrupted)
			break;
		if (!backtrace->invocation.json)
			buffer_add_char(&backtrace->invocation.output.buffer, '\n');
	}
	if (interrupted && every_ns)
		return STATUS_DONE;
	return status == STATUS_DONE && backtrace->thread && !backtrace->thread_found ? STATUS_FAILED : status;
}

static void backtrace_fill(const void *self, struct command *command)
{
	const struct backtrace *backtrace = self;

	command->arguments.flags = (backtrace->fibers ? BACKTRACE_FIBERS : 0) | (backtrace->locals ? BACKTRACE_LOCALS : 0);
	command->arguments.frames_max = backtrace->frames_max;
	if (backtrace->thread)
		command->arguments.name = (struct slice){backtrace->thread, strlen(backtrace->thread)};
}

static void backtrace_free(void *self)
{
	struct backtrace *backtrace = self;

	forget(backtrace->watched, backtrace->count);
}

const struct subcommand cmd_backtrace = {
	.name = "backtrace",
	.alias = "bt",
	.arguments = "-p PID",
	.summary = "where every thread is",
	.usage = "-p PID",
	.description = "Show where every thread of a process is, and what it waits for.",
	.report = true,
	.pids = PIDS_SOME,
	.children_itself = true,
	.timeout = "How long attaching may take (default 5); then what can be seen from outside is shown",
	.format = "For people, or one JSON object a line",
	.every = "Look again and again, and show what is different",
	.options = (const struct argp *const[]){&options_backtrace, &options_color, NULL},
	.size = sizeof(struct backtrace),
	.kind = COMMAND_BACKTRACE,
	.fill = backtrace_fill,
	.handler = {.data = on_data, .done = on_done},
	.run = backtrace_run,
	.free = backtrace_free,
};
