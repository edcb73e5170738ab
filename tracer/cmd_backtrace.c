/*
 * rbprobe backtrace: where every thread of a process is, once or again and again. Each look is a session of its own: between two of them there is
 * nothing of rbprobe in the process.
 */

#include "ask.h"
#include "backtrace_native.h"
#include "backtrace_report.h"
#include "children.h"
#include "exit_status.h"
#include "message.h"
#include "options.h"
#include "output.h"
#include "proto/clock.h"
#include "signals.h"
#include "subcommand.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum backtrace_option {
	OPTION_LIMIT = 0x400,
	OPTION_FIBERS,
	OPTION_GROUP,
	OPTION_FORMAT,
	OPTION_EVERY,
	OPTION_COUNT,
	OPTION_CHILDREN,
	OPTION_FULL,
};

/* One process, and the looks at it. */
struct watched {
	pid_t pid;
	struct ask ask;
	bool answered;
	struct report now, before;
};

struct backtrace {
	struct options options;
	struct output output;
	struct command request;
	const char *thread;
	uint64_t limit;
	bool fibers, json, children, full;
	struct report_style style;
	uint64_t every_ns; /* 0: once */
	uint64_t rounds;   /* 0: no end */
	struct watched *watched;
	size_t count;
};

static int number(const char *option, const char *text, uint64_t *result)
{
	char *end;

	errno = 0;
	*result = strtoull(text, &end, 10);
	if (!errno && end != text && !*end && !strchr(text, '-') && *result > 0 && *result <= INT32_MAX)
		return 0;
	message("%s takes a whole number from 1 to %d, not \"%s\"", option, INT32_MAX, text);
	return EINVAL;
}

static error_t parse_backtrace(int key, char *argument, struct argp_state *state)
{
	struct backtrace *backtrace = (struct backtrace *)state->input;
	double seconds;
	char *end;

	switch (key) {
	case 't':
		backtrace->thread = argument;
		return 0;
	case OPTION_LIMIT:
		return number("--limit", argument, &backtrace->limit);
	case OPTION_FIBERS:
		backtrace->fibers = true;
		return 0;
	case OPTION_FULL:
		backtrace->full = true;
		return 0;
	case OPTION_CHILDREN:
		backtrace->children = true;
		return 0;
	case OPTION_GROUP:
		backtrace->style.group = true;
		return 0;
	case OPTION_COUNT:
		return number("--count", argument, &backtrace->rounds);
	case OPTION_FORMAT:
		backtrace->json = strcmp(argument, "json") == 0;
		if (backtrace->json || strcmp(argument, "text") == 0)
			return 0;
		message("--format takes text or json, not \"%s\"", argument);
		return EINVAL;
	case OPTION_EVERY:
		seconds = strtod(argument, &end);
		if (end != argument && !*end && isfinite(seconds) && seconds > 0 && seconds < 1e6) {
			backtrace->every_ns = (uint64_t)(seconds * 1e9);
			return 0;
		}
		message("--every takes seconds, such as 10 or 0.5, not \"%s\"", argument);
		return EINVAL;
	}
	return ARGP_ERR_UNKNOWN;
}

static const struct argp_option backtrace_list[] = {
	{"children", OPTION_CHILDREN, NULL, 0,
         "Instead of the process, its child processes that are Ruby: the workers of a Puma or Unicorn master", 1},
	{"thread", 't', "PATTERN", 0,
         "Only threads of that name (* and ? stand for anything), native id or id; main: the main thread", 2},
	{"limit", OPTION_LIMIT, "N", 0, "At most N frames of each", 2},
	{"fibers", OPTION_FIBERS, NULL, 0, "Also the fibers that do not run", 2},
	{"full", OPTION_FULL, NULL, 0, "Also the native frames (C functions), for which each thread is stopped for a moment", 2},
	{"group", OPTION_GROUP, NULL, 0, "Threads with the same frames together", 3},
	{"format", OPTION_FORMAT, "text|json", 0, "For people, or one JSON object a line", 3},
	{"every", OPTION_EVERY, "SEC", 0, "Look again and again, and show what is different", 4},
	{"count", OPTION_COUNT, "N", 0, "Stop after N looks", 4},
	{0},
};

static const struct argp options_backtrace = {.options = backtrace_list, .parser = parse_backtrace};

static const struct argp_child children[] = {
	{&options_target, 0, NULL, 0},
	{&options_backtrace, 0, NULL, 0},
	{&options_session, 0, NULL, 0},
	{0},
};

static const struct argp argp = {
	.args_doc = "-p PID",
	.doc = "Show where every thread of a process is, and what it waits for.",
	.children = children,
};

static int on_data(void *owner, const msgpack_object *object, struct error *err)
{
	struct watched *watched = owner;

	(void)err;
	report_add(&watched->now, object);
	return 0;
}

static void on_done(void *owner, uint32_t code, struct slice text)
{
	struct watched *watched = owner;

	watched->answered = code == 0;
	if (code)
		message("process %d: %.*s", (int)watched->pid, (int)text.size, text.bytes);
}

static const struct ask_handler handler = {.data = on_data, .done = on_done};

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
	const struct pid_list *pids = &backtrace->options.pids;
	struct watched *old = backtrace->watched;
	size_t old_count = backtrace->count;

	backtrace->watched = NULL;
	backtrace->count = 0;
	for (size_t i = 0; i < pids->count; i++) {
		pid_t *workers = NULL, pid = pids->items[i];
		size_t count = backtrace->children ? children_find(pid, &workers) : 1;

		if (count == 0)
			message("process %d has no child processes that are Ruby", (int)pid);
		for (size_t c = 0; c < count; c++) {
			struct watched one = {.pid = backtrace->children ? workers[c] : pid},
				       *known = watched_find(old, old_count, one.pid);

			if (watched_find(backtrace->watched, backtrace->count, one.pid))
				continue;
			if (known) {
				one.before = known->before;
				memset(&known->before, 0, sizeof(known->before));
			}
			backtrace->watched = memory_resize(backtrace->watched, (backtrace->count + 1) * sizeof(one));
			backtrace->watched[backtrace->count++] = one;
		}
		free(workers);
	}
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
static bool look_from_outside(struct backtrace *backtrace, const struct watched *watched, const struct ask *ask)
{
	struct target target;
	struct error err;

	if (ask->status != STATUS_NOT_ATTACHED || ask->error.code != -ETIMEDOUT ||
	    target_describe(&target, watched->pid, TARGET_BASIC, &err) < 0 || target.state == 'T' || target.state == 't')
		return false;
	return stuck_write(&backtrace->output.buffer, &target, backtrace->options.timeout_ns, backtrace->json);
}

/* One look at all of them. Returns a status; *interrupted: by a signal. */
static int look(struct backtrace *backtrace, int signals_descriptor, bool *interrupted)
{
	struct ask *asks = memory_zeroed(backtrace->count * sizeof(*asks) + 1);
	int status;

	for (size_t i = 0; i < backtrace->count; i++) {
		struct watched *watched = &backtrace->watched[i];

		watched->answered = false;
		report_begin(&watched->now, watched->pid, backtrace->json);
		ask_open(&asks[i], watched->pid, &backtrace->request, &backtrace->options, &handler, watched);
	}
	status = ask_run(asks, backtrace->count, signals_descriptor);
	for (size_t i = 0; i < backtrace->count; i++) {
		*interrupted = *interrupted || asks[i].cancelled;
		ask_close(&asks[i]);
	}
	for (size_t i = 0; i < backtrace->count && backtrace->full; i++)
		if (backtrace->watched[i].answered)
			add_native(backtrace, &backtrace->watched[i]);
	for (size_t i = 0; i < backtrace->count; i++)
		if (!backtrace->watched[i].answered && look_from_outside(backtrace, &backtrace->watched[i], &asks[i]) &&
		    status == asks[i].status)
			status = STATUS_DONE;
	free(asks);
	return status;
}

static void show(struct backtrace *backtrace)
{
	bool first = true;

	for (size_t i = 0; i < backtrace->count; i++) {
		struct watched *watched = &backtrace->watched[i];

		if (!watched->answered) {
			report_free(&watched->now);
			continue;
		}
		if (!first && !backtrace->json)
			buffer_add_char(&backtrace->output.buffer, '\n');
		first = false;
		if (backtrace->thread && !backtrace->json && watched->now.count == 0 && !watched->before.pid)
			message("process %d: no thread has the name or id %s", (int)watched->pid, backtrace->thread);
		report_write(&watched->now, watched->before.pid ? &watched->before : NULL, &backtrace->style,
		             &backtrace->output.buffer);
		report_free(&watched->before);
		watched->before = watched->now;
		memset(&watched->now, 0, sizeof(watched->now));
	}
	output_flush(&backtrace->output);
}

/* False: a signal came instead. */
static bool wait_until(uint64_t at_ns, int signals_descriptor)
{
	struct pollfd signals = {.fd = signals_descriptor, .events = POLLIN};
	uint64_t now_ns;
	bool by_process;

	while ((now_ns = clock_now_ns()) < at_ns) {
		uint64_t left_ms = (at_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;

		if (poll(&signals, 1, left_ms < INT32_MAX ? (int)left_ms : INT32_MAX) != 0 && signals_take(&by_process))
			return false;
	}
	return true;
}

static int run(struct backtrace *backtrace)
{
	int signals_descriptor = signals_install(), status = STATUS_DONE;
	uint64_t next_ns = clock_now_ns();
	bool interrupted = false;

	for (uint64_t round = 1;; round++) {
		choose(backtrace);
		status = backtrace->count ? look(backtrace, signals_descriptor, &interrupted) : STATUS_NOT_ATTACHED;
		show(backtrace);
		if (interrupted || status != STATUS_DONE || output_is_over(&backtrace->output) ||
		    round == (backtrace->every_ns ? backtrace->rounds : 1))
			break;
		next_ns += backtrace->every_ns;
		if (!wait_until(next_ns, signals_descriptor))
			break;
		if (!backtrace->json)
			buffer_add_char(&backtrace->output.buffer, '\n');
	}
	if (output_close(&backtrace->output) < 0) {
		message("%s", backtrace->output.error.text);
		return STATUS_FAILED;
	}
	return interrupted && backtrace->every_ns ? STATUS_DONE : status;
}

static int backtrace_run(int argc, char **argv)
{
	struct backtrace backtrace = {0};
	int status;

	options_init(&backtrace.options);
	backtrace.options.positional = NULL;
	status = options_parse(&argp, argc, argv, &backtrace.options);
	if (status == 0 && backtrace.options.pids.count == 0) {
		message("backtrace needs -p PID");
		status = STATUS_USAGE;
	}
	if (status == 0 && backtrace.rounds && !backtrace.every_ns) {
		message("--count says how often --every looks; give that, too");
		status = STATUS_USAGE;
	}
	if (status == 0) {
		const char *thread = backtrace.thread ? backtrace.thread : "";

		backtrace.request = (struct command){.kind = COMMAND_BACKTRACE};
		backtrace.request.request.flags = backtrace.fibers ? BACKTRACE_FIBERS : 0;
		backtrace.request.request.limit = backtrace.limit;
		backtrace.request.request.name = (struct slice){thread, strlen(thread)};
		backtrace.request.request.text = (struct slice){"", 0};
		output_open(&backtrace.output, NULL, false, NULL);
		status = run(&backtrace);
		forget(backtrace.watched, backtrace.count);
	}
	options_free(&backtrace.options);
	return status;
}

const struct subcommand cmd_backtrace = {
	.name = "backtrace",
	.alias = "bt",
	.arguments = "-p PID",
	.summary = "where every thread is",
	.run = backtrace_run,
};
