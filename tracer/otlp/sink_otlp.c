/*
 * The sink that makes spans of calls. See sink_otlp.h. What the end of a call needs of its start, its numbers and its values,
 * waits in fiber->kept, and after that what has happened in it: packed events.
 */

#ifdef HAVE_LIBPROTOBUF_C

#define _GNU_SOURCE
#include "tracer/otlp/otlp_resource.h"
#include "tracer/otlp/sink_otlp_parts.h"

#include "proto/clock.h"

#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define BATCH_COUNT 4096u
#define BATCH_SIZE (1u << 20)
#define BATCH_NS NS_PER_S
#define LOOK_NS (200 * NS_PER_MS)

/* --- Processes and their batches */

static struct process *process_of(struct otlp_sink *otlp, const struct stream *stream)
{
	for (size_t i = 0; i < otlp->count; i++)
		if (otlp->processes[i].stream == stream) {
			struct process found = otlp->processes[i];

			/* The next event is most often of the same one. */
			otlp->processes[i] = otlp->processes[0];
			otlp->processes[0] = found;
			return &otlp->processes[0];
		}
	return NULL;
}

static void send_batch(struct otlp_sink *otlp, struct process *process)
{
	struct buffer request = {0};
	uint64_t count = process->batch.count;

	if (!count)
		return;
	span_batch_request(&process->batch, &request);
	otlp->manner->give(otlp->manner->owner, &request, count);
}

static void process_drop(struct otlp_sink *otlp, struct process *process)
{
	send_batch(otlp, process);
	span_batch_free(&process->batch);
	*process = otlp->processes[--otlp->count];
}

void sink_otlp_process(struct sink *sink, const struct stream *stream, struct buffer *resource)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;
	struct process *process = process_of(otlp, stream);

	if (process)
		process_drop(otlp, process);
	otlp->processes = memory_resize(otlp->processes, (otlp->count + 1) * sizeof(*otlp->processes));
	process = &otlp->processes[otlp->count++];
	*process = (struct process){.stream = stream, .pid = stream->pid, .batch = {.resource = *resource}};
	*resource = (struct buffer){0};
}

static void on_record(struct sink *sink, struct stream *stream, const struct record *record, const uint8_t *bytes, size_t size)
{
	struct buffer resource = {0};

	(void)bytes;
	(void)size;
	if (record->kind != RECORD_HELLO)
		return;
	otlp_resource_live(&resource, stream->pid, record->hello.ruby_version);
	sink_otlp_process(sink, stream, &resource);
}

void otlp_add_span(struct otlp_sink *otlp, const struct stream *stream, const Otlp__Span *span)
{
	struct process *process = process_of(otlp, stream);

	if (!process)
		return;
	if (!process->batch.count)
		process->batch.since_ns = clock_now_ns();
	span_batch_add(&process->batch, &span->base);
	if (process->batch.count >= BATCH_COUNT || process->batch.bytes.size >= BATCH_SIZE)
		send_batch(otlp, process);
}

/* --- Numbers */

/* xorshift128+; its seed is random. */
static uint64_t random_number(struct otlp_sink *otlp)
{
	uint64_t x = otlp->random[0], y = otlp->random[1];

	otlp->random[0] = y;
	x ^= x << 23;
	otlp->random[1] = x ^ y ^ (x >> 17) ^ (y >> 26);
	return otlp->random[1] + y;
}

void otlp_random(struct otlp_sink *otlp, uint8_t *to, size_t size)
{
	/* All zero means none. */
	for (size_t i = 0; i < size; i += sizeof(uint64_t)) {
		uint64_t number = random_number(otlp) | 1;

		memcpy(to + i, &number, sizeof(number));
	}
}

struct kept otlp_kept(const struct fiber *fiber, const struct call *call)
{
	struct kept kept;

	memcpy(&kept, fiber->kept.bytes + call->kept, sizeof(kept));
	return kept;
}

/* The innermost open call that is shown; NULL: none is. */
const struct call *otlp_around(const struct fiber *fiber)
{
	for (uint32_t i = fiber->depth; i > 0; i--)
		if (!fiber->calls[i - 1].skipped)
			return &fiber->calls[i - 1];
	return NULL;
}

/* Those of a call that begins now: a new trace, or that of the call around it. */
static struct span_ids new_ids(struct otlp_sink *otlp, const struct fiber *fiber)
{
	const struct call *parent = otlp_around(fiber);
	struct span_ids ids;

	if (parent)
		memcpy(ids.trace, otlp_kept(fiber, parent).ids.trace, sizeof(ids.trace));
	else
		otlp_random(otlp, ids.trace, sizeof(ids.trace));
	otlp_random(otlp, ids.span, sizeof(ids.span));
	return ids;
}

uint64_t otlp_wall_ns(struct otlp_sink *otlp, const struct stream *stream, uint64_t time_ns)
{
	uint64_t ns = (uint64_t)((int64_t)time_ns + stream->wall_offset_ns);

	if (ns > otlp->last_ns)
		otlp->last_ns = ns;
	return ns;
}

static void on_start(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;
	struct kept kept = {.ids = new_ids(otlp, fiber),
	                    .value_count = event->values.count,
	                    .value_size = event->values.count ? (uint32_t)(event->values.end - event->values.bytes) : 0};

	(void)call;
	otlp_wall_ns(otlp, fiber->stream, event->time_ns);
	buffer_add(&fiber->kept, (const char *)&kept, sizeof(kept));
	if (kept.value_size)
		buffer_add(&fiber->kept, (const char *)event->values.bytes, kept.value_size);
}

/* An open call, up to its end. It is not among the open ones of the fiber any more. */
static void end_call(struct otlp_sink *otlp, struct fiber *fiber, const struct call *call, struct ended ended)
{
	struct kept kept = otlp_kept(fiber, call);
	const struct call *outer = otlp_around(fiber);
	const char *values = fiber->kept.bytes + call->kept + sizeof(kept);
	struct kept parent;

	if (outer)
		parent = otlp_kept(fiber, outer);
	ended.ids = &kept.ids;
	ended.parent = outer ? &parent.ids : NULL;
	ended.start_ns = otlp_wall_ns(otlp, fiber->stream, call->start_ns);
	ended.retries = call->retries;
	ended.values = (struct values){(const uint8_t *)values, (const uint8_t *)values + kept.value_size, kept.value_count};
	ended.events = values + kept.value_size;
	ended.event_count = kept.events;
	ended.dropped = kept.dropped;
	if (ended.end_ns < ended.start_ns)
		ended.end_ns = ended.start_ns;
	otlp_call(otlp, fiber, call->method, &ended);
	fiber->kept.size = call->kept;
}

static void on_end(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;
	struct ended ended = {.ending = event->ending, .outcome = event->values};

	ended.end_ns = otlp_wall_ns(otlp, fiber->stream, call->start_ns + duration_ns);
	end_call(otlp, fiber, call, ended);
}

/* It goes on; this is until when it was seen. */
static void on_open(struct sink *sink, struct fiber *fiber, struct call *call)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;
	struct ended ended = {.open = true, .end_ns = otlp->last_ns};

	end_call(otlp, fiber, call, ended);
}

static void on_whole(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;
	const struct call *outer = otlp_around(fiber);
	struct span_ids ids = new_ids(otlp, fiber);
	struct ended ended = {.ids = &ids, .ending = event->ending, .values = event->values, .outcome = event->outcome};
	struct kept parent;

	if (outer) {
		parent = otlp_kept(fiber, outer);
		ended.parent = &parent.ids;
	}
	ended.start_ns = otlp_wall_ns(otlp, fiber->stream, event->time_ns);
	ended.end_ns = otlp_wall_ns(otlp, fiber->stream, event->time_ns + event->duration_ns);
	otlp_call(otlp, fiber, method, &ended);
}

/* --- Its life */

static uint64_t wake_ns(const struct sink *sink)
{
	const struct otlp_sink *otlp = (const struct otlp_sink *)sink;
	uint64_t ns = otlp->look_ns;

	for (size_t i = 0; i < otlp->count; i++)
		if (otlp->processes[i].batch.count && otlp->processes[i].batch.since_ns + BATCH_NS < ns)
			ns = otlp->processes[i].batch.since_ns + BATCH_NS;
	return ns;
}

static void wake(struct sink *sink, uint64_t now_ns)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;

	for (size_t i = 0; i < otlp->count; i++)
		if (otlp->processes[i].batch.count && now_ns >= otlp->processes[i].batch.since_ns + BATCH_NS)
			send_batch(otlp, &otlp->processes[i]);
	if (now_ns < otlp->look_ns)
		return;
	otlp->look_ns = now_ns + LOOK_NS;
	otlp->manner->look(otlp->manner->owner, sink->output);
}

static void on_summary(struct sink *sink, const struct sink_summary *summary)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;

	for (size_t i = 0; i < otlp->count; i++)
		if (otlp->processes[i].pid == summary->pid) {
			process_drop(otlp, &otlp->processes[i]);
			return;
		}
}

static void on_close(struct sink *sink)
{
	struct otlp_sink *otlp = (struct otlp_sink *)sink;

	while (otlp->count)
		process_drop(otlp, &otlp->processes[otlp->count - 1]);
	free(otlp->processes);
}

struct sink *sink_otlp_new(struct output *output, const struct sink_style *style, const struct otlp_manner *manner)
{
	struct sink *sink = sink_new(&sink_otlp, output, style);
	struct otlp_sink *otlp = (struct otlp_sink *)sink;

	otlp->manner = manner;
	if (getrandom(otlp->random, sizeof(otlp->random), 0) != sizeof(otlp->random))
		otlp->random[0] = clock_now_ns() ^ (uint64_t)getpid() << 32;
	otlp->random[1] |= 1;
	return sink;
}

const struct sink_ops sink_otlp = {
	.name = "otlp",
	.size = sizeof(struct otlp_sink),
	.start = on_start,
	.end = on_end,
	.whole = on_whole,
	.mark = otlp_on_mark,
	.line = otlp_on_line,
	.open = on_open,
	.lost = otlp_on_lost,
	.wake_ns = wake_ns,
	.wake = wake,
	.record = on_record,
	.summary = on_summary,
	.close = on_close,
};

#endif
