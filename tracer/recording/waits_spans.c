/*
 * What the threads of a process did, one stretch after the other, and of each wait for the GVL who held it: what
 * waits_explain.c says of a single call, for all waits of a process at once.
 *
 * Stretches and calls are ordered by their beginning. Those with the GVL also have the latest end up to them, by which the first
 * that reaches into a wait is found; calls have the one around them.
 */

#include "tracer/recording/waits_parts.h"

#include <stdlib.h>

#define MOST 0.8 /* as in waits_explain.c */
#define NO_CALL UINT32_MAX

struct holding {
	uint64_t from_ns, to_ns, latest_ns;
	uint32_t number; /* of the thread */
};

struct held_call {
	const struct waits_held *call;
	uint32_t around; /* NO_CALL: none */
};

struct look {
	const struct waits *waits;
	const struct waits_process *process;
	struct holding *holdings;
	uint32_t holding_count;
	struct held_call *calls; /* of one thread after the other */
	uint64_t *held_ns;       /* by the thread's number; all 0 between two waits */
};

static uint64_t overlap(uint64_t from_ns, uint64_t to_ns, const struct waits_span *wait)
{
	uint64_t from = from_ns > wait->from_ns ? from_ns : wait->from_ns, to = to_ns < wait->to_ns ? to_ns : wait->to_ns;

	return to > from ? to - from : 0;
}

static int compare_holdings(const void *one, const void *other)
{
	const struct holding *a = one, *b = other;

	return (a->from_ns > b->from_ns) - (a->from_ns < b->from_ns);
}

/* The outer one of two that begin at the same time comes first. */
static int compare_calls(const void *one, const void *other)
{
	const struct waits_held *a = ((const struct held_call *)one)->call, *b = ((const struct held_call *)other)->call;

	if (a->native_id != b->native_id)
		return a->native_id > b->native_id ? 1 : -1;
	if (a->from_ns != b->from_ns)
		return a->from_ns > b->from_ns ? 1 : -1;
	return (a->to_ns < b->to_ns) - (a->to_ns > b->to_ns);
}

static void order_holdings(struct look *look)
{
	uint64_t latest_ns = 0;

	look->holdings = memory_zeroed((look->process->span_count + 1) * sizeof(*look->holdings));
	for (uint32_t i = 0; i < look->process->span_count; i++) {
		const struct waits_span *span = &look->process->spans[i];

		if (span->doing == THREAD_RUNS || span->doing == THREAD_GC)
			look->holdings[look->holding_count++] = (struct holding){span->from_ns, span->to_ns, 0, span->number};
	}
	qsort(look->holdings, look->holding_count, sizeof(*look->holdings), compare_holdings);
	for (uint32_t i = 0; i < look->holding_count; i++) {
		latest_ns = look->holdings[i].to_ns > latest_ns ? look->holdings[i].to_ns : latest_ns;
		look->holdings[i].latest_ns = latest_ns;
	}
}

static void order_calls(struct look *look)
{
	uint32_t count = look->process->call_count, around = NO_CALL;

	look->calls = memory_zeroed((count + 1) * sizeof(*look->calls));
	for (uint32_t i = 0; i < count; i++)
		look->calls[i].call = &look->process->calls[i];
	qsort(look->calls, count, sizeof(*look->calls), compare_calls);
	for (uint32_t i = 0; i < count; i++) {
		const struct waits_held *call = look->calls[i].call;

		while (around != NO_CALL && (look->calls[around].call->native_id != call->native_id ||
		                             look->calls[around].call->to_ns <= call->from_ns))
			around = look->calls[around].around;
		look->calls[i].around = around;
		around = i;
	}
}

/* The thread that held the GVL for most of the wait; NULL: none is known. */
static const struct waits_thread *holder_of(const struct look *look, const struct waits_span *wait, uint64_t *held_ns)
{
	uint32_t low = 0, high = look->holding_count, found = 0;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (look->holdings[middle].latest_ns <= wait->from_ns)
			low = middle + 1;
		else
			high = middle;
	}
	*held_ns = 0;
	for (uint32_t i = low; i < look->holding_count && look->holdings[i].from_ns < wait->to_ns; i++) {
		const struct holding *holding = &look->holdings[i];

		if (holding->number == wait->number)
			continue;
		look->held_ns[holding->number] += overlap(holding->from_ns, holding->to_ns, wait);
		if (look->held_ns[holding->number] > *held_ns) {
			*held_ns = look->held_ns[holding->number];
			found = holding->number;
		}
	}
	for (uint32_t i = low; i < look->holding_count && look->holdings[i].from_ns < wait->to_ns; i++)
		look->held_ns[look->holdings[i].number] = 0;
	return *held_ns ? &look->process->threads[found] : NULL;
}

/* The first of the thread's calls that begins at this time or later, or the first one of those that follow. */
static uint32_t first_call(const struct look *look, uint32_t native_id, uint64_t time_ns)
{
	uint32_t low = 0, high = look->process->call_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct waits_held *call = look->calls[middle].call;

		if (call->native_id < native_id || (call->native_id == native_id && call->from_ns < time_ns))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The next one that may have been open during the wait: first the calls that began before it, from the inside out. */
static uint32_t next_call(const struct look *look, uint32_t at, uint32_t first, uint32_t end)
{
	if (at < first)
		return look->calls[at].around != NO_CALL ? look->calls[at].around : first < end ? first : NO_CALL;
	return at + 1 < end ? at + 1 : NO_CALL;
}

/* The shortest one that was open for most of the time. */
static struct slice call_of(const struct look *look, uint32_t native_id, const struct waits_span *wait)
{
	uint32_t first = first_call(look, native_id, wait->from_ns), end = first_call(look, native_id, wait->to_ns),
		 begin = first;
	uint64_t most_ns = 0, least_ns = UINT64_MAX;
	struct slice name = {"", 0};

	if (first && look->calls[first - 1].call->native_id == native_id)
		begin = first - 1;
	else if (first == end)
		return name;
	for (uint32_t i = begin; i != NO_CALL; i = next_call(look, i, first, end)) {
		uint64_t ns = overlap(look->calls[i].call->from_ns, look->calls[i].call->to_ns, wait);

		most_ns = ns > most_ns ? ns : most_ns;
	}
	for (uint32_t i = begin; i != NO_CALL; i = next_call(look, i, first, end)) {
		const struct waits_held *call = look->calls[i].call;
		uint64_t ns = overlap(call->from_ns, call->to_ns, wait);

		if (!ns || (double)ns < MOST * (double)most_ns || call->to_ns - call->from_ns >= least_ns)
			continue;
		least_ns = call->to_ns - call->from_ns;
		name = look->waits->words.texts[call->name];
	}
	return name;
}

static struct waits_cause cause_of(const struct look *look, const struct waits_span *span)
{
	struct waits_cause cause = {.call = {"", 0}};
	const struct waits_thread *holder = span->doing == THREAD_WAITS ? holder_of(look, span, &cause.held_ns) : NULL;

	if (!holder)
		return cause;
	cause.holder = holder->name ? holder->name : "another thread";
	if (holder->native_id && !holder->shared)
		cause.call = call_of(look, holder->native_id, span);
	return cause;
}

static void give(const struct look *look, const struct waits_reader *reader)
{
	bool *told = memory_zeroed(look->process->thread_count + 1);

	for (uint32_t i = 0; i < look->process->span_count; i++) {
		const struct waits_span *kept = &look->process->spans[i];
		const struct waits_thread *thread = &look->process->threads[kept->number];
		const struct waits_cause cause = cause_of(look, kept);
		const struct thread_span span = {.number = kept->number,
		                                 .native_id = thread->native_id,
		                                 .first = !told[kept->number],
		                                 .shared = thread->shared,
		                                 .doing = kept->doing,
		                                 .from_ns = kept->from_ns,
		                                 .to_ns = kept->to_ns};

		told[kept->number] = true;
		reader->span(reader->owner, look->process->stream, &span, &cause);
	}
	free(told);
}

void waits_take(struct waits *waits, pid_t pid, const struct waits_reader *reader)
{
	for (uint32_t i = 0; i < waits->count; i++) {
		struct waits_process *process = &waits->processes[i];
		struct look look = {.waits = waits, .process = process};

		if (process->pid != pid || !process->stream)
			continue;
		waits_name_threads(process);
		look.held_ns = memory_zeroed((process->thread_count + 1) * sizeof(*look.held_ns));
		order_holdings(&look);
		order_calls(&look);
		give(&look, reader);
		free(look.holdings);
		free(look.calls);
		free(look.held_ns);
		waits_drop_spans(waits, process);
	}
}
