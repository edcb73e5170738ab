/* What threads do. See thread_states.h. */

#include "tracer/stream/thread_states.h"

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
	struct name *names; /* of threads, also of those that have ended; a native id that is given again has the last one */
	uint32_t name_count, name_room;
	uint32_t count, room, numbers;
	uint64_t began_ns, last_ns;  /* the first change, of all or after a gap, and the last one; 0: there is none */
	uint32_t hit;                /* the one that was found last */
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
	if (threads->hit < threads->count && threads->items[threads->hit].key == key)
		return &threads->items[threads->hit];
	for (uint32_t i = 0; i < threads->count; i++)
		if (threads->items[i].key == key) {
			threads->hit = i;
			return &threads->items[i];
		}
	if (threads->count == THREADS_MAX)
		return NULL;
	if (threads->count == threads->room) {
		threads->room = threads->room ? 2 * threads->room : 32;
		threads->items = memory_resize(threads->items, threads->room * sizeof(*threads->items));
	}
	threads->hit = threads->count;
	threads->items[threads->count] = (struct thread){.key = key, .number = threads->numbers++};
	return &threads->items[threads->count++];
}

static struct thread_states *states_of(struct stream *stream)
{
	if (!stream->threads)
		stream->threads = memory_zeroed(sizeof(*stream->threads));
	return stream->threads;
}

static struct name *name_of(const struct thread_states *threads, uint32_t native_id)
{
	for (uint32_t i = threads->name_count; i-- > 0;)
		if (threads->names[i].native_id == native_id)
			return &threads->names[i];
	return NULL;
}

void thread_states_fiber(struct stream *stream, const struct record_fiber *fiber)
{
	struct thread_states *threads = states_of(stream);
	struct name *name = name_of(threads, fiber->native_id);

	if (!fiber->root || !fiber->native_id || !fiber->thread_name.size || (!name && threads->name_count == NAMES_MAX))
		return;
	if (!name && threads->name_count == threads->name_room) {
		threads->name_room = threads->name_room ? 2 * threads->name_room : 16;
		threads->names = memory_resize(threads->names, threads->name_room * sizeof(*threads->names));
	}
	if (!name) {
		name = &threads->names[threads->name_count++];
		*name = (struct name){.native_id = fiber->native_id};
	}
	name->text.size = 0;
	buffer_add_slice(&name->text, fiber->thread_name);
	for (uint32_t i = 0; i < threads->count; i++)
		if (threads->items[i].native_id == fiber->native_id)
			threads->items[i].told = false;
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
	if (is_shared(threads, native_id))
		return;
	for (uint32_t i = 0; i < threads->count; i++) {
		if (threads->items[i].native_id != native_id || &threads->items[i] == thread)
			continue;
		threads->items[i].told = false;
		if (!is_shared(threads, native_id))
			threads->shared[threads->shared_count++] = native_id;
	}
}

static void note(struct stream *stream, const struct thread_state *state)
{
	struct thread_states *threads = stream->threads;
	struct thread *thread = thread_of(threads, state->thread);

	if (!thread)
		return;
	if (!threads->began_ns)
		threads->began_ns = state->time_ns;
	if (state->time_ns > threads->last_ns)
		threads->last_ns = state->time_ns;
	if (state->native_id && state->native_id != thread->native_id) {
		look_for_sharing(threads, thread, state->native_id);
		thread->told = false;
	}
	if (state->native_id)
		thread->native_id = state->native_id;
	if (!thread->known && state->event != STATE_STARTED && state->event != STATE_ENDED) {
		thread->known = true;
		thread->since_ns = threads->began_ns;
		thread->doing = before(state->event);
	}
	end_span(stream, thread, state->time_ns);
	thread->known = true;
	thread->since_ns = state->time_ns;
	thread->doing = after(state->event);
	if (state->event != STATE_ENDED)
		return;
	tell_held(stream, thread);
	*thread = threads->items[--threads->count];
}

/* Nobody knows what they did meanwhile. */
static void forget(struct stream *stream, uint64_t lost)
{
	struct thread_states *threads = stream->threads;

	for (uint32_t i = 0; i < threads->count; i++) {
		end_span(stream, &threads->items[i], threads->last_ns);
		tell_held(stream, &threads->items[i]);
		threads->items[i].known = false;
		threads->items[i].native_id = 0; /* it may have ended */
	}
	threads->began_ns = 0;
	if (stream->sink && stream->sink->ops->threads_lost)
		stream->sink->ops->threads_lost(stream->sink, stream, lost);
}

int thread_states_note(struct stream *stream, const struct record_states *states, struct error *err)
{
	(void)err;
	states_of(stream);
	if (states->lost)
		forget(stream, states->lost);
	for (uint32_t i = 0; i < states->count; i++)
		note(stream, &states->states[i]);
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
