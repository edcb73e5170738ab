/* What threads do. See thread_states.h. */

#include "tracer/stream/thread_states.h"

#include "tracer/base/number_index.h"
#include "tracer/stream/sink.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define THREADS_MAX 16384u /* at a time */
#define NAMES_MAX 4096u
#define SHARED_MAX 64u

struct thread {
	uint64_t key, since_ns;
	uint32_t number, native_id;
	enum thread_doing doing, held;
	uint64_t held_from_ns, held_to_ns; /* 0: nothing is */
	bool known, told;                  /* what it does; a span of it */
};

struct name {
	uint32_t native_id;
	struct buffer text;
};

struct thread_states {
	struct thread *items;
	struct number_index by_key, by_native_id; /* the last one with that native id */
	struct name *names; /* of threads, also of those that have ended; a native id that is given again has the last one */
	struct number_index name_places; /* by native id */
	uint32_t name_count, name_room;
	uint32_t count, room, numbers;
	uint64_t began_ns, last_ns;  /* the first change, of all or after a gap, and the last one; 0: there is none */
	uint32_t shared[SHARED_MAX]; /* native threads that have been of two threads which lived at a time */
	uint32_t shared_count;       /* SHARED_MAX: all are taken for such */
};

const char *thread_doing_name(enum thread_doing doing)
{
	static const char *const names[THREAD_DOINGS] = {[THREAD_RUNS] = "running",
	                                                 [THREAD_WAITS] = "waiting for the GVL",
	                                                 [THREAD_BLOCKED] = "blocked",
	                                                 [THREAD_IO] = "I/O",
	                                                 [THREAD_SLEEPS] = "sleeping",
	                                                 [THREAD_LOCKED] = "waiting for a thread",
	                                                 [THREAD_PROCESS] = "waiting for a process",
	                                                 [THREAD_GC] = "GC"};

	return names[doing];
}

const char *thread_doing_word(enum thread_doing doing)
{
	static const char *const words[THREAD_DOINGS] = {
		[THREAD_RUNS] = "running",    [THREAD_WAITS] = "waiting", [THREAD_BLOCKED] = "blocked", [THREAD_IO] = "io",
		[THREAD_SLEEPS] = "sleeping", [THREAD_LOCKED] = "thread", [THREAD_PROCESS] = "process", [THREAD_GC] = "gc"};

	return words[doing];
}

static struct thread *thread_of(struct thread_states *threads, uint64_t key)
{
	uint32_t place = number_index_get(&threads->by_key, key);

	if (place != NUMBER_INDEX_NONE)
		return &threads->items[place];
	if (threads->count == THREADS_MAX)
		return NULL;
	if (threads->count == threads->room) {
		threads->room = threads->room ? 2 * threads->room : 32;
		threads->items = memory_resize(threads->items, threads->room * sizeof(*threads->items));
	}
	number_index_put(&threads->by_key, key, threads->count);
	threads->items[threads->count] = (struct thread){.key = key, .number = threads->numbers++};
	return &threads->items[threads->count++];
}

static struct thread_states *states_of(struct stream *stream)
{
	if (!stream->threads)
		stream->threads = memory_zeroed(sizeof(*stream->threads));
	return stream->threads;
}

static struct thread *with_native_id(const struct thread_states *threads, uint32_t native_id)
{
	uint32_t place = number_index_get(&threads->by_native_id, native_id);

	return place == NUMBER_INDEX_NONE ? NULL : &threads->items[place];
}

static struct name *name_of(const struct thread_states *threads, uint32_t native_id)
{
	uint32_t place = number_index_get(&threads->name_places, native_id);

	return place == NUMBER_INDEX_NONE ? NULL : &threads->names[place];
}

void thread_states_fiber(struct stream *stream, const struct record_fiber *fiber)
{
	struct thread_states *threads = states_of(stream);
	struct name *name = name_of(threads, fiber->native_id);
	struct thread *thread;

	if (!fiber->root || !fiber->native_id || !fiber->thread_name.size || (!name && threads->name_count == NAMES_MAX))
		return;
	if (!name && threads->name_count == threads->name_room) {
		threads->name_room = threads->name_room ? 2 * threads->name_room : 16;
		threads->names = memory_resize(threads->names, threads->name_room * sizeof(*threads->names));
	}
	if (!name) {
		number_index_put(&threads->name_places, fiber->native_id, threads->name_count);
		name = &threads->names[threads->name_count++];
		*name = (struct name){.native_id = fiber->native_id};
	}
	name->text.size = 0;
	buffer_add_slice(&name->text, fiber->thread_name);
	thread = with_native_id(threads, fiber->native_id);
	if (thread)
		thread->told = false;
}

static bool is_shared(const struct thread_states *threads, uint32_t native_id)
{
	for (uint32_t i = 0; i < threads->shared_count; i++)
		if (threads->shared[i] == native_id)
			return true;
	return threads->shared_count == SHARED_MAX;
}

static void tell(struct stream *stream, struct thread *thread, enum thread_doing doing, uint64_t from_ns, uint64_t to_ns)
{
	const struct thread_span span = {.number = thread->number,
	                                 .native_id = thread->native_id,
	                                 .first = !thread->told,
	                                 .shared = is_shared(stream->threads, thread->native_id),
	                                 .doing = doing,
	                                 .from_ns = from_ns,
	                                 .to_ns = to_ns};

	if (to_ns <= from_ns)
		return;
	thread->told = true;
	if (stream->sink && stream->sink->ops->thread)
		stream->sink->ops->thread(stream->sink, stream, &span);
}

/* What was held back until the thread had its native id. */
static void tell_held(struct stream *stream, struct thread *thread)
{
	tell(stream, thread, thread->held, thread->held_from_ns, thread->held_to_ns);
	thread->held_from_ns = thread->held_to_ns = 0;
}

/* Others wake a thread, and do not say its native id; it does so by itself in a moment. */
static void end_span(struct stream *stream, struct thread *thread, uint64_t to_ns)
{
	if (!thread->known)
		return;
	if (!thread->native_id && !thread->held_to_ns) {
		thread->held = thread->doing;
		thread->held_from_ns = thread->since_ns;
		thread->held_to_ns = to_ns;
		return;
	}
	tell_held(stream, thread);
	tell(stream, thread, thread->doing, thread->since_ns, to_ns);
}

/* What it did until its first change. */
static enum thread_doing before(enum state_event event)
{
	switch (event) {
	case STATE_RUNS:
		return THREAD_WAITS;
	case STATE_WAITS:
	case STATE_STARTED:
		return THREAD_BLOCKED;
	case STATE_GC_ENDS:
		return THREAD_GC;
	default:
		return THREAD_RUNS;
	}
}

static enum thread_doing after(enum state_event event)
{
	switch (event) {
	case STATE_WAITS:
		return THREAD_WAITS;
	case STATE_BLOCKED:
	case STATE_STARTED:
		return THREAD_BLOCKED;
	case STATE_IN_IO:
		return THREAD_IO;
	case STATE_SLEEPS:
		return THREAD_SLEEPS;
	case STATE_IN_LOCK:
		return THREAD_LOCKED;
	case STATE_FOR_PROCESS:
		return THREAD_PROCESS;
	case STATE_GC_BEGINS:
		return THREAD_GC;
	default:
		return THREAD_RUNS;
	}
}

/* A thread's end is told before its native thread gets another one. Those that share it are told of anew, by another name. */
static void look_for_sharing(struct thread_states *threads, const struct thread *thread, uint32_t native_id)
{
	struct thread *other = with_native_id(threads, native_id);

	if (!other || other == thread || is_shared(threads, native_id))
		return;
	other->told = false;
	threads->shared[threads->shared_count++] = native_id;
}

static void set_native_id(struct thread_states *threads, struct thread *thread, uint32_t native_id)
{
	look_for_sharing(threads, thread, native_id);
	if (with_native_id(threads, thread->native_id) == thread)
		number_index_remove(&threads->by_native_id, thread->native_id);
	number_index_put(&threads->by_native_id, native_id, (uint32_t)(thread - threads->items));
	thread->native_id = native_id;
	thread->told = false;
}

/* The last one takes its place. */
static void drop(struct thread_states *threads, struct thread *thread)
{
	struct thread *last = &threads->items[--threads->count];
	uint32_t place = (uint32_t)(thread - threads->items);

	number_index_remove(&threads->by_key, thread->key);
	if (with_native_id(threads, thread->native_id) == thread)
		number_index_remove(&threads->by_native_id, thread->native_id);
	if (last == thread)
		return;
	number_index_put(&threads->by_key, last->key, place);
	if (last->native_id && with_native_id(threads, last->native_id) == last)
		number_index_put(&threads->by_native_id, last->native_id, place);
	*thread = *last;
}

/* Of a thread that was there before. Where threads were only looked at, it is not known what it did until then. */
static void begin_thread(const struct stream *stream, struct thread *thread, const struct thread_state *state)
{
	thread->known = true;
	thread->since_ns = stream->states_rate_hz ? state->time_ns : stream->threads->began_ns;
	thread->doing = before(state->event);
}

/* A sample that comes after what the thread itself has told of its collections, and is of the time before that. */
static bool is_old(const struct stream *stream, const struct thread *thread, const struct thread_state *state)
{
	switch (state->event) {
	case STATE_GC_BEGINS:
	case STATE_GC_ENDS:
	case STATE_ENDED:
	case STATE_UNKNOWN:
		return false;
	default:
		return stream->states_rate_hz && thread->known && state->time_ns < thread->since_ns;
	}
}

static void note(struct stream *stream, const struct thread_state *state)
{
	struct thread_states *threads = stream->threads;
	struct thread *thread = thread_of(threads, state->thread);

	if (!thread || is_old(stream, thread, state))
		return;
	if (!threads->began_ns)
		threads->began_ns = state->time_ns;
	if (state->time_ns > threads->last_ns)
		threads->last_ns = state->time_ns;
	if (state->native_id && state->native_id != thread->native_id)
		set_native_id(threads, thread, state->native_id);
	if (!thread->known && state->event != STATE_STARTED && state->event != STATE_ENDED && state->event != STATE_UNKNOWN)
		begin_thread(stream, thread, state);
	/* A sample that has found it where it was. */
	else if (stream->states_rate_hz && thread->known && state->event != STATE_ENDED && thread->doing == after(state->event))
		return;
	end_span(stream, thread, state->time_ns);
	if (state->event == STATE_UNKNOWN) {
		tell_held(stream, thread);
		thread->known = false;
		return;
	}
	thread->known = true;
	thread->since_ns = state->time_ns;
	thread->doing = after(state->event);
	if (state->event != STATE_ENDED)
		return;
	tell_held(stream, thread);
	drop(threads, thread);
}

/* Nobody knows what they did meanwhile. */
static void forget(struct stream *stream, const struct record_states *states)
{
	struct thread_states *threads = stream->threads;
	struct threads_gap gap = {.changes = states->lost, .from_ns = threads->last_ns};

	for (uint32_t i = 0; i < threads->count; i++) {
		end_span(stream, &threads->items[i], threads->last_ns);
		tell_held(stream, &threads->items[i]);
		threads->items[i].known = false;
		threads->items[i].native_id = 0; /* it may have ended */
	}
	number_index_clear(&threads->by_native_id);
	threads->began_ns = 0;
	gap.to_ns = states->count ? states->states[0].time_ns : gap.from_ns;
	if (!gap.from_ns || gap.from_ns > gap.to_ns)
		gap.from_ns = gap.to_ns;
	if (stream->sink && stream->sink->ops->threads_lost)
		stream->sink->ops->threads_lost(stream->sink, stream, &gap);
}

int thread_states_note(struct stream *stream, const struct record_states *states, struct error *err)
{
	(void)err;
	states_of(stream);
	if (states->lost)
		forget(stream, states);
	for (uint32_t i = 0; i < states->count; i++)
		note(stream, &states->states[i]);
	stream->states_lost += states->lost;
	stream->marks[MARK_STATE] += states->count;
	return 0;
}

void thread_states_finish(struct stream *stream)
{
	struct thread_states *threads = stream->threads;

	for (uint32_t i = 0; threads && i < threads->count; i++) {
		end_span(stream, &threads->items[i], threads->last_ns);
		tell_held(stream, &threads->items[i]);
		threads->items[i].known = false;
	}
}

void thread_states_free(struct stream *stream)
{
	for (uint32_t i = 0; stream->threads && i < stream->threads->name_count; i++)
		buffer_free(&stream->threads->names[i].text);
	if (stream->threads) {
		number_index_free(&stream->threads->by_key);
		number_index_free(&stream->threads->by_native_id);
		number_index_free(&stream->threads->name_places);
		free(stream->threads->items);
		free(stream->threads->names);
	}
	free(stream->threads);
	stream->threads = NULL;
}

void thread_states_add_name(const struct stream *stream, uint32_t native_id, struct buffer *to)
{
	const struct name *name = stream->threads ? name_of(stream->threads, native_id) : NULL;

	if (stream->threads && native_id && is_shared(stream->threads, native_id))
		buffer_add_format(to, "one of native thread %" PRIu32, native_id);
	else if (name)
		buffer_add_printable(to, name->text.bytes, name->text.size);
	else if (native_id && native_id == stream->main_native_id)
		buffer_add_text(to, "main");
	else
		buffer_add_format(to, "thread %" PRIu32, native_id);
}

void thread_states_add_track(const struct stream *stream, uint32_t native_id, struct buffer *to)
{
	thread_states_add_name(stream, native_id, to);
	buffer_add_text(to, ": state");
	if (stream->states_rate_hz)
		buffer_add_format(to, ", sampled at %" PRIu32 " Hz", stream->states_rate_hz);
}
