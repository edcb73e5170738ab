/* What is known in the middle of a session. See session_state.h. */

#define _GNU_SOURCE
#include "tracer/recording/session_state.h"

#include "tracer/recording/texts.h"
#include "tracer/stream/calls.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_SIZE (256u << 10)
#define NAMES_MAX 4096u /* as many as a process keeps in mind */
/* Names of threads that make no calls. All have one ref, and what is kept by that comes behind them. */
#define NAME_OF_THREAD ((enum record_kind)0)

struct announcement {
	enum record_kind kind;
	uint32_t number; /* its own, by which the kind's others refer to it; of a name, made of the thread's native id */
	uint32_t size;
	uint8_t bytes[];
};

struct session_state {
	void *announcements; /* tsearch()'s tree of struct announcement */
};

struct session_state *session_state_new(void)
{
	return memory_zeroed(sizeof(struct session_state));
}

void session_state_free(struct session_state *state)
{
	if (!state)
		return;
	tdestroy(state->announcements, free);
	free(state);
}

static int compare(const void *one, const void *other)
{
	const struct announcement *a = one, *b = other;
	int order = (a->kind > b->kind) - (a->kind < b->kind);

	/* A caller refers to others with lower numbers. */
	return order ? order : (a->number > b->number) - (a->number < b->number);
}

static void forget(struct session_state *state, enum record_kind kind, uint32_t number)
{
	const struct announcement wanted = {.kind = kind, .number = number};
	struct announcement **found = tfind(&wanted, &state->announcements, compare), *announcement;

	if (!found)
		return;
	announcement = *found;
	tdelete(&wanted, &state->announcements, compare);
	free(announcement);
}

static void keep(struct session_state *state, enum record_kind kind, uint32_t number, const uint8_t *bytes, size_t size)
{
	struct announcement *announcement = memory_resize(NULL, sizeof(*announcement) + size);

	forget(state, kind, number);
	*announcement = (struct announcement){.kind = kind, .number = number, .size = (uint32_t)size};
	memcpy(announcement->bytes, bytes, size);
	if (!tsearch(announcement, &state->announcements, compare))
		memory_resize(NULL, SIZE_MAX); /* says so and ends the program */
}

void session_state_note(struct session_state *state, const struct record *record, const uint8_t *bytes, size_t size)
{
	switch (record->kind) {
	case RECORD_METHOD:
		keep(state, RECORD_METHOD, record->method.ref, bytes, size);
		break;
	case RECORD_FIBER:
		if (record->fiber.ref == MARK_REF(MARK_NONE) && record->fiber.thread_name.size)
			keep(state, NAME_OF_THREAD, record->fiber.native_id % NAMES_MAX, bytes, size);
		keep(state, RECORD_FIBER, record->fiber.ref, bytes, size);
		break;
	case RECORD_FIBER_GONE:
		forget(state, RECORD_FIBER, record->fiber_gone.ref);
		break;
	case RECORD_CALLER:
		keep(state, RECORD_CALLER, record->caller.ref, bytes, size);
		break;
	case RECORD_FOUND:
		/* Others come of no process that speaks the truth. */
		if (record->found.selector < SELECTORS_MAX)
			keep(state, RECORD_FOUND, record->found.selector, bytes, size);
		break;
	default:
		break;
	}
}

void session_state_begin(struct fiber *fiber, const struct event *event)
{
	texts_add_values(&fiber->kept, &event->values);
}

void session_state_end(struct fiber *fiber, const struct call *call)
{
	fiber->kept.size = call->kept;
}

struct giving {
	struct buffer records;
	session_state_taker *take;
	void *owner;
};

static void give(struct giving *giving)
{
	if (giving->records.size)
		giving->take(giving->owner, &giving->records);
	giving->records.size = 0;
}

static void add(struct giving *giving, const char *bytes, size_t size)
{
	buffer_add(&giving->records, bytes, size);
	if (giving->records.size >= PIECE_SIZE)
		give(giving);
}

static void give_announcement(const void *node, VISIT visit, void *owner)
{
	const struct announcement *announcement = *(const struct announcement *const *)node;

	if (visit == postorder || visit == leaf)
		add(owner, (const char *)announcement->bytes, announcement->size);
}

/* How often the innermost call was begun anew is said before its end comes. */
static void give_retries(struct giving *giving, const struct fiber *fiber)
{
	uint32_t times = fiber->calls[fiber->depth - 1].retries;
	const struct record record = {.kind = RECORD_RETRIED, .retried = {.fiber = fiber->ref, .times = times}};
	msgpack_sbuffer buffer;

	if (!times)
		return;
	msgpack_sbuffer_init(&buffer);
	record_encode(&buffer, &record);
	add(giving, buffer.data, buffer.size);
	msgpack_sbuffer_destroy(&buffer);
}

static void give_open_calls(const struct fiber *fiber, void *owner)
{
	struct giving *giving = owner;
	struct batch batch;
	msgpack_sbuffer buffer;

	if (!fiber->depth)
		return;
	msgpack_sbuffer_init(&buffer);
	batch_begin(&batch, &buffer, fiber->calls[0].start_ns);
	for (uint32_t i = 0; i < fiber->depth; i++) {
		const struct call *call = &fiber->calls[i];
		size_t end = i + 1 < fiber->depth ? fiber->calls[i + 1].kept : fiber->kept.size;
		struct batch_event event = {.kind = EVENT_START,
		                            .method = call->method->ref,
		                            .fiber = fiber->ref,
		                            .time_ns = call->start_ns,
		                            .values = {fiber->kept.bytes + call->kept, end - call->kept}};

		if (batch_add(&batch, &event))
			continue;
		batch_end(&batch);
		add(giving, buffer.data, buffer.size);
		buffer.size = 0;
		batch_begin(&batch, &buffer, call->start_ns);
		if (batch_add(&batch, &event))
			continue;
		event.values = (struct slice){NULL, 0}; /* they fill a record that is as large as any may be */
		batch_add(&batch, &event);
	}
	batch_end(&batch);
	add(giving, buffer.data, buffer.size);
	msgpack_sbuffer_destroy(&buffer);
	give_retries(giving, fiber);
}

void session_state_give(const struct session_state *state, const struct stream *stream, session_state_taker *take, void *owner)
{
	struct giving giving = {.take = take, .owner = owner};

	twalk_r(state->announcements, give_announcement, &giving);
	calls_each_fiber(stream, give_open_calls, &giving);
	give(&giving);
	buffer_free(&giving.records);
}
