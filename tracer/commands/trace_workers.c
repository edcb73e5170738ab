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

/* Those that were forked since are traced with --follow-forks. */
static bool is_followed(const struct trace_target *traced, pid_t pid, uint64_t now_ns)
{
	uint64_t start_ticks, age_ns;
	char state;

	if (!(traced->run->options->trace.flags & TRACE_FOLLOW_FORKS))
		return false;
	if (proc_stat_read(pid, &state, &start_ticks) != 0)
		return true; /* it has ended */
	age_ns = (target_ticks_now() - start_ticks) * (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	return age_ns < now_ns - traced->armed_ns + SLACK_NS;
}

static void look(struct trace_target *traced)
{
	pid_t *children;
	size_t all = children_find(traced->pid, &children), count = 0;
	uint64_t now_ns = clock_now_ns();
	struct buffer list = {0};

	for (size_t i = 0; i < all; i++)
		if (!is_followed(traced, children[i], now_ns))
			children[count++] = children[i];
	for (size_t i = 0; i < count && i < NAMED_MAX; i++)
		buffer_add_format(&list, "%s%d", i ? "," : "", (int)children[i]);
	if (count) {
		output_flush(traced->run->output);
		message_often("process %d has made no such call so far; it has %zu child process%s that %s Ruby (workers?); "
		              "to trace %s%s: %s-p %.*s",
		              (int)traced->pid, count, count == 1 ? "" : "es", count == 1 ? "is" : "are",
		              count > NAMED_MAX ? "the first of " : "", count == 1 ? "it" : "them",
		              traced->run->launched ? "" : "--children, or ", (int)list.size, list.bytes);
		traced->workers_told = true;
	}
	buffer_free(&list);
	free(children);
}

uint64_t trace_workers_wake_ns(const struct trace_target *traced)
{
	return !traced->over && !traced->workers_looked && has_seen_nothing(traced) ? traced->armed_ns + IDLE_NS : UINT64_MAX;
}

void trace_workers_step(struct trace_target *traced, uint64_t now_ns)
{
	if (now_ns < trace_workers_wake_ns(traced))
		return;
	traced->workers_looked = true;
	look(traced);
}

void trace_workers_finish(struct trace_target *traced)
{
	if (has_seen_nothing(traced) && !traced->workers_told && !(traced->has_end && traced->end.left_out))
		look(traced);
}
