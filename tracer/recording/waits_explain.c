/*
 * Why a call took long: what its thread did during it, and who held the GVL while it waited for it. The call that held it is the
 * shortest one that was open for most of that time: the innermost that explains it.
 */

#include "tracer/base/json.h"
#include "tracer/recording/waits_parts.h"

#include <stdlib.h>

#define MOST 0.8 /* of the time for which an outer call was open */

struct stretch {
	uint64_t from_ns, to_ns;
};

struct cause {
	uint64_t ns[THREAD_DOINGS]; /* of the call's time */
	struct stretch *waits;      /* for the GVL, in the order of time */
	uint32_t count, room;
	const struct waits_thread *holder; /* NULL: nobody is known to have held it */
	uint64_t held_ns;
	const struct waits_held *call; /* NULL: none of the holder's is known */
	uint64_t call_ns;
};

static uint64_t overlap(uint64_t from_ns, uint64_t to_ns, uint64_t other_from_ns, uint64_t other_to_ns)
{
	uint64_t from = from_ns > other_from_ns ? from_ns : other_from_ns, to = to_ns < other_to_ns ? to_ns : other_to_ns;

	return to > from ? to - from : 0;
}

/* With the waits together. */
static uint64_t overlap_of_waits(const struct cause *cause, uint64_t from_ns, uint64_t to_ns)
{
	uint32_t low = 0, high = cause->count;
	uint64_t sum = 0;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (cause->waits[middle].to_ns <= from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < cause->count && cause->waits[low].from_ns < to_ns; low++)
		sum += overlap(cause->waits[low].from_ns, cause->waits[low].to_ns, from_ns, to_ns);
	return sum;
}

static void look_at_own(struct cause *cause, const struct waits_process *process, const struct waits_place *place)
{
	uint64_t end_ns = place->start_ns + place->duration_ns;

	for (uint32_t i = 0; i < process->span_count; i++) {
		const struct waits_span *span = &process->spans[i];
		uint64_t ns = overlap(span->from_ns, span->to_ns, place->start_ns, end_ns);

		if (!ns || process->threads[span->number].native_id != place->native_id)
			continue;
		cause->ns[span->doing] += ns;
		if (span->doing != THREAD_WAITS)
			continue;
		if (cause->count == cause->room) {
			cause->room = cause->room ? 2 * cause->room : 16;
			cause->waits = memory_resize(cause->waits, cause->room * sizeof(*cause->waits));
		}
		cause->waits[cause->count++] = (struct stretch){span->from_ns > place->start_ns ? span->from_ns : place->start_ns,
		                                                span->to_ns < end_ns ? span->to_ns : end_ns};
	}
}

static void look_for_holder(struct cause *cause, const struct waits_process *process, const struct waits_place *place)
{
	uint64_t *held_ns = memory_zeroed((process->thread_count + 1) * sizeof(*held_ns));

	for (uint32_t i = 0; i < process->span_count; i++) {
		const struct waits_span *span = &process->spans[i];

		if (span->doing == THREAD_RUNS || span->doing == THREAD_GC)
			held_ns[span->number] += overlap_of_waits(cause, span->from_ns, span->to_ns);
	}
	for (uint32_t i = 0; i < process->thread_count; i++) {
		if (process->threads[i].native_id == place->native_id || held_ns[i] <= cause->held_ns)
			continue;
		cause->held_ns = held_ns[i];
		cause->holder = &process->threads[i];
	}
	free(held_ns);
}

static void look_for_call(struct cause *cause, const struct waits_process *process)
{
	uint64_t most_ns = 0, least_ns = UINT64_MAX;

	for (uint32_t i = 0; i < process->call_count; i++) {
		const struct waits_held *call = &process->calls[i];
		uint64_t ns =
			call->native_id == cause->holder->native_id ? overlap_of_waits(cause, call->from_ns, call->to_ns) : 0;

		most_ns = ns > most_ns ? ns : most_ns;
	}
	for (uint32_t i = 0; i < process->call_count; i++) {
		const struct waits_held *call = &process->calls[i];
		uint64_t ns =
			call->native_id == cause->holder->native_id ? overlap_of_waits(cause, call->from_ns, call->to_ns) : 0;

		if (!ns || (double)ns < MOST * (double)most_ns || call->to_ns - call->from_ns >= least_ns)
			continue;
		least_ns = call->to_ns - call->from_ns;
		cause->call = call;
		cause->call_ns = ns;
	}
}

/* Which of its threads a call is of is not known. */
static bool is_shared(const struct waits_process *process, uint32_t native_id)
{
	for (uint32_t i = 0; i < process->thread_count; i++)
		if (process->threads[i].native_id == native_id && process->threads[i].shared)
			return true;
	return false;
}

static struct cause find(const struct waits *waits, const struct waits_place *place)
{
	const struct waits_process *process = &waits->processes[place->process];
	struct cause cause = {0};

	if (place->native_id)
		look_at_own(&cause, process, place);
	if (cause.count)
		look_for_holder(&cause, process, place);
	if (cause.holder && cause.holder->native_id)
		look_for_call(&cause, process);
	return cause;
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

void waits_explain(const struct waits *waits, const struct waits_place *place, struct buffer *to)
{
	struct cause cause;
	struct slice call;

	if (is_shared(&waits->processes[place->process], place->native_id)) {
		buffer_add_text(to, "what it waited for is not known, as several threads share its native one");
		return;
	}
	cause = find(waits, place);
	call = cause.call ? waits->words.texts[cause.call->name] : (struct slice){"", 0};
	buffer_add_format(to, "waited %.6f s of %.6f for the GVL", seconds(cause.ns[THREAD_WAITS]), seconds(place->duration_ns));
	if (cause.holder)
		buffer_add_format(to, ", held by %s for %.6f s", cause.holder->name ? cause.holder->name : "another thread",
		                  seconds(cause.held_ns));
	if (call.size) {
		buffer_add_text(to, " in ");
		buffer_add_slice(to, call);
	}
	buffer_add_format(to, "; ran %.6f s, GC %.6f s", seconds(cause.ns[THREAD_RUNS]), seconds(cause.ns[THREAD_GC]));
	for (int i = THREAD_BLOCKED; i < THREAD_GC; i++)
		if (cause.ns[i])
			buffer_add_format(to, ", %s %.6f s", thread_doing_name(i), seconds(cause.ns[i]));
	if (waits->processes[place->process].rate_hz)
		buffer_add_format(to, " (sampled at %u Hz)", waits->processes[place->process].rate_hz);
	free(cause.waits);
}

void waits_explain_json(const struct waits *waits, const struct waits_place *place, struct buffer *to)
{
	struct cause cause;

	if (is_shared(&waits->processes[place->process], place->native_id))
		return;
	cause = find(waits, place);
	waits_add_json(cause.ns, to);
	waits_add_rate_json(&waits->processes[place->process], to);
	if (cause.holder) {
		json_open_object(json_key(to, "held_by"));
		json_member_uint(to, "thread", cause.holder->native_id);
		if (cause.holder->name)
			json_member_string(to, "name", cause.holder->name);
		json_member_uint(to, "held_ns", cause.held_ns);
		if (cause.call)
			json_member_text(to, "method", waits->words.texts[cause.call->name]);
		json_close_object(to);
	}
	free(cause.waits);
}
