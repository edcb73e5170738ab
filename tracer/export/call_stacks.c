/* Recorded calls, added up by stack. See call_stacks.h. on_end(), on_whole() and what they call are done for each call. */

#include "tracer/export/call_stacks.h"

#include "tracer/recording/ended.h"

#include <stdlib.h>
#include <string.h>

#define NODES_MAX (1u << 20) /* different stacks; calls beyond are in the time of the call around them */
#define THREADS_MAX (1u << 16)

struct call_stacks {
	struct profile *profile;
	uint64_t open, folded;
};

struct call_stacks_sink {
	struct sink sink;
	struct call_stacks *stacks;
};

/* What is kept of an open call. */
struct kept_call {
	uint32_t node;
	bool folded;        /* it is that of the call around it */
	uint64_t inside_ns; /* the time of calls inside it */
};

struct call_stacks *call_stacks_new(void)
{
	struct call_stacks *stacks = memory_zeroed(sizeof(*stacks));

	stacks->profile = profile_new();
	return stacks;
}

void call_stacks_free(struct call_stacks *stacks)
{
	if (!stacks)
		return;
	profile_free(stacks->profile);
	free(stacks);
}

const struct profile *call_stacks_profile(const struct call_stacks *stacks)
{
	return stacks->profile;
}

uint64_t call_stacks_open(const struct call_stacks *stacks)
{
	return stacks->open;
}

uint64_t call_stacks_folded(const struct call_stacks *stacks)
{
	return stacks->folded;
}

static struct call_stacks *stacks_of(struct sink *sink)
{
	return ((struct call_stacks_sink *)sink)->stacks;
}

/* A number that is kept in a buffer of the stream's, once it is known. */
static bool is_remembered(const struct buffer *prepared, uint32_t *number)
{
	if (!prepared->size)
		return false;
	memcpy(number, prepared->bytes, sizeof(*number));
	return true;
}

static uint32_t remember(struct buffer *prepared, uint32_t number)
{
	buffer_add(prepared, (const char *)&number, sizeof(number));
	return number;
}

static uint32_t function_of(struct profile *profile, struct method *method)
{
	uint32_t number;

	if (is_remembered(&method->prepared, &number))
		return number;
	return remember(&method->prepared,
	                profile_function_number(profile, method->shown, method->file.bytes ? method->file : (struct slice){"", 0},
	                                        method->file.bytes ? method->line : 0));
}

static uint32_t thread_of(struct profile *profile, struct fiber *fiber)
{
	struct profile_thread thread = {.id = fiber->thread_id,
	                                .native_id = fiber->native_id,
	                                .main = fiber->native_id && fiber->native_id == fiber->stream->main_native_id,
	                                .name = fiber->thread_name};
	uint32_t number;

	if (is_remembered(&fiber->prepared, &number))
		return number;
	thread.process = (uint32_t)(profile_process(profile, fiber->stream->pid, 0) - profile->processes);
	return remember(&fiber->prepared, profile_thread_number(profile, &thread, THREADS_MAX));
}

static struct kept_call kept_of(const struct fiber *fiber, uint32_t depth)
{
	struct kept_call kept = {.node = 0};

	if (depth)
		memcpy(&kept, fiber->kept.bytes + fiber->calls[depth - 1].kept, sizeof(kept));
	return kept;
}

static struct kept_call begin_call(struct call_stacks *stacks, const struct fiber *fiber, struct method *method)
{
	uint32_t around = kept_of(fiber, fiber->depth).node, node = 0;

	if (stacks->profile->nodes[around].depth < CALL_STACKS_LEVELS_MAX)
		node = profile_node_number(stacks->profile, around, function_of(stacks->profile, method), 0, NODES_MAX);
	return (struct kept_call){.node = node ? node : around, .folded = !node};
}

/* Where in fiber->kept those begin that have ended inside the innermost open call. */
static size_t ended_from(const struct fiber *fiber)
{
	return fiber->depth ? fiber->calls[fiber->depth - 1].kept + sizeof(struct kept_call) : 0;
}

/* Where calls are told as they end, those inside of it have come before, and are not below it. */
static void end_call(struct call_stacks *stacks, struct fiber *fiber, const struct kept_call *call, uint64_t start_ns,
                     uint64_t duration_ns)
{
	uint64_t late_ns = ended_take(&fiber->kept, ended_from(fiber), start_ns), inside_ns = call->inside_ns + late_ns;

	if (call->folded) {
		stacks->folded++;
	} else {
		struct profile_sum *sum = profile_sum_add(stacks->profile, thread_of(stacks->profile, fiber), call->node);

		sum->ticks++;
		sum->weights[PROFILE_WALL] += duration_ns > inside_ns ? duration_ns - inside_ns : 0;
	}
	if (fiber->depth) {
		struct kept_call around = kept_of(fiber, fiber->depth);

		if (call->folded)
			around.inside_ns += call->inside_ns;
		else
			around.inside_ns += duration_ns > late_ns ? duration_ns - late_ns : 0;
		memcpy(fiber->kept.bytes + fiber->calls[fiber->depth - 1].kept, &around, sizeof(around));
	}
	ended_add(&fiber->kept, ended_from(fiber), start_ns, duration_ns);
}

static void on_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	struct kept_call kept = begin_call(stacks_of(sink), fiber, call->method);

	(void)event;
	buffer_add(&fiber->kept, (const char *)&kept, sizeof(kept));
}

static void on_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	struct kept_call kept = kept_of(fiber, fiber->depth + 1);

	(void)event;
	fiber->kept.size = call->kept;
	end_call(stacks_of(sink), fiber, &kept, call->start_ns, duration_ns);
}

static void on_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct kept_call call = begin_call(stacks_of(sink), fiber, method);

	end_call(stacks_of(sink), fiber, &call, event->time_ns, event->duration_ns);
}

/* Lines and marks have no time of their own. */
static void on_other(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	(void)sink;
	(void)fiber;
	(void)method;
	(void)event;
}

static void on_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	stacks_of(sink)->open++;
	fiber->kept.size = call->kept;
}

static void on_summary(struct sink *sink, const struct sink_summary *summary)
{
	stacks_of(sink)->profile->lost_calls += summary->lost;
}

static const struct sink_ops sink_call_stacks = {
	.name = "stacks",
	.size = sizeof(struct call_stacks_sink),
	.start = on_start,
	.end = on_end,
	.whole = on_whole,
	.mark = on_other,
	.line = on_other,
	.open = on_open,
	.summary = on_summary,
};

struct sink *call_stacks_sink(struct call_stacks *stacks, struct output *output, const struct sink_style *style)
{
	struct sink *sink = sink_new(&sink_call_stacks, output, style);

	((struct call_stacks_sink *)sink)->stacks = stacks;
	return sink;
}
