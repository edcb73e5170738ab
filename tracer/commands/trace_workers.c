/* The workers of a process that was traced in vain. See trace_workers.h. */

#include "tracer/commands/trace_workers.h"

#include "proto/clock.h"
#include "tracer/base/message.h"
#include "tracer/base/proc_file.h"
#include "tracer/process/children.h"
#include "tracer/process/target_copy.h"

#include <stdlib.h>
#include <unistd.h>

#define IDLE_NS (3 * NS_PER_S)
#define SLACK_NS (100 * NS_PER_MS) /* ticks are coarse, and the target has armed before it says so */
#define NAMED_MAX 16u

/* Whether nothing was seen of what could have been. Calls that are only counted are not told of in between. */
static bool has_seen_nothing(const struct trace_target *traced)
{
	const struct options *options = traced->run->options;

	return traced->armed_ns && traced->stream && traced->stream->calls + traced->stream->lines == 0 &&
	       !(options->trace.flags & TRACE_COUNT) && options->selectors.count > 0 && !options->quiet;
}

/* Whether the process was forked while the trace went on, or so much before, or has ended. */
static bool is_new(const struct trace_target *traced, pid_t pid, uint64_t now_ns, uint64_t slack_ns)
{
	uint64_t start_ticks, age_ns;
	char state;

	if (proc_stat_read(pid, &state, &start_ticks) != 0)
		return true;
	age_ns = (target_ticks_now() - start_ticks) * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	return age_ns < now_ns - traced->armed_ns + slack_ns;
}

static bool has_copy(pid_t pid)
{
	pid_t *pids;
	size_t count = descendants_find(pid, &pids);
	bool any = false;

	for (size_t i = 0; i < count && !any; i++)
		any = copy_role_of(pids[i]) != COPY_NONE;
	free(pids);
	return any;
}

/* Whether a child of the process has ended since the trace began; not known where it may have been a copy, or nobody looked. */
static bool has_ended_children(struct trace_target *traced)
{
	traced->had_copy = traced->had_copy || has_copy(traced->pid);
	return traced->ended_known && !traced->had_copy && proc_children_faults(traced->pid) > traced->ended_children;
}

/* Children that come and go, such as those that do one job each. */
static void say_it_forks(struct trace_target *traced)
{
	output_flush(traced->output);
	message_often("process %d has made no such call so far; it forks child processes (one for each job?): --follow-forks "
	              "traces these, too, from the fork on",
	              (int)traced->pid);
	traced->workers_told = true;
}

static void look(struct trace_target *traced)
{
	pid_t *children;
	size_t all = children_find(traced->pid, &children), count = 0;
	uint64_t now_ns = clock_now_ns();
	bool follows = traced->run->options->trace.flags & TRACE_FOLLOW_FORKS;
	struct buffer list = {0};

	for (size_t i = 0; i < all; i++)
		if (!is_new(traced, children[i], now_ns, follows ? SLACK_NS : 0))
			children[count++] = children[i];
	for (size_t i = 0; i < count && i < NAMED_MAX; i++)
		buffer_add_format(&list, "%s%d", i ? "," : "", (int)children[i]);
	if (count > 0) {
		output_flush(traced->run->output);
		message_often("process %d has made no such call so far; it has %zu child process%s that %s Ruby (workers?); "
		              "to trace %s%s: %s-p %.*s",
		              (int)traced->pid, count, count == 1 ? "" : "es", count == 1 ? "is" : "are",
		              count > NAMED_MAX ? "the first of " : "", count == 1 ? "it" : "them",
		              traced->run->launched ? "" : "--children, or ", (int)list.size, list.bytes);
		traced->workers_told = true;
	} else if (!follows && (all || has_ended_children(traced)))
		say_it_forks(traced);
	buffer_free(&list);
	free(children);
}

uint64_t trace_workers_wake_ns(const struct trace_target *traced)
{
	uint64_t since_ns = traced->workers_looked_ns ? traced->workers_looked_ns : traced->armed_ns;

	return !traced->over && !traced->workers_told && has_seen_nothing(traced) ? since_ns + IDLE_NS : UINT64_MAX;
}

void trace_workers_step(struct trace_target *traced, uint64_t now_ns)
{
	if (traced->armed_ns && !traced->ended_known) {
		/* In this order: a copy that ends in between is in the number. */
		traced->had_copy = has_copy(traced->pid);
		traced->ended_children = proc_children_faults(traced->pid);
	}
	traced->ended_known = traced->armed_ns;
	if (now_ns < trace_workers_wake_ns(traced))
		return;
	traced->workers_looked_ns = now_ns;
	look(traced);
}

void trace_workers_finish(struct trace_target *traced)
{
	if (has_seen_nothing(traced) && !traced->workers_told && !(traced->has_end && traced->end.left_out))
		look(traced);
}
