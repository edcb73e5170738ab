/* The threads that a profile has seen. See profile_threads.h. */

#define _GNU_SOURCE
#include "tracee/requests/profile_threads.h"

#include "proto/clock.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/native_id.h"
#include "tracee/vm/own.h"
#include "tracee/vm/string_slice.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 16u
#define OWN_NAME "rbprobe "

void profile_threads_free(struct profile_threads *threads)
{
	free(threads->items);
	*threads = (struct profile_threads){0};
}

void profile_threads_mark(const struct profile_threads *threads)
{
	for (uint32_t i = 0; i < threads->count; i++)
		rb_gc_mark(threads->items[i].thread);
}

void profile_threads_begin(struct profile_threads *threads)
{
	threads->round++;
}

static void learn_name(struct profile_thread *thread)
{
	VALUE string = builtin_call0(BUILTIN_THREAD_NAME, thread->thread);
	struct slice name = string_slice(string);
	char now[sizeof(thread->name)] = "";

	memcpy(now, name.bytes, name.size < sizeof(now) ? name.size : sizeof(now) - 1);
	thread->untold = thread->untold || memcmp(now, thread->name, sizeof(now)) != 0;
	memcpy(thread->name, now, sizeof(now));
	RB_GC_GUARD(string);
}

static struct profile_thread *add(struct profile_threads *threads, VALUE thread)
{
	if (threads->count == PROFILE_THREADS_MAX)
		return NULL;
	if (threads->count == threads->room) {
		uint32_t room = threads->room ? 2 * threads->room : ROOM_FIRST;
		struct profile_thread *larger = realloc(threads->items, room * sizeof(*larger));

		if (!larger)
			return NULL;
		threads->items = larger;
		threads->room = room;
	}
	threads->items[threads->count] = (struct profile_thread){.thread = thread, .number = ++threads->numbers, .untold = true};
	return &threads->items[threads->count++];
}

struct profile_thread *profile_threads_get(struct profile_threads *threads, VALUE thread, uint32_t probably)
{
	struct profile_thread *found = NULL;

	if (probably < threads->count && threads->items[probably].thread == thread)
		found = &threads->items[probably];
	for (uint32_t i = 0; i < threads->count && !found; i++)
		if (threads->items[i].thread == thread)
			found = &threads->items[i];
	if (!found) {
		found = add(threads, thread);
		if (!found)
			return NULL;
		learn_name(found);
		/* Decided once: what has been sampled is told. One that has just been made has no name yet. */
		found->ours = strncmp(found->name, OWN_NAME, strlen(OWN_NAME)) == 0 || own_is_thread(thread);
	}
	found->round = threads->round;
	if (!found->native_id)
		native_id_of(found->thread, &found->native_id);
	return found;
}

void profile_threads_end(struct profile_threads *threads)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < threads->count; i++)
		if (threads->items[i].round == threads->round || threads->items[i].untold)
			threads->items[kept++] = threads->items[i];
	threads->count = kept;
}

/*
 * Whether its clock, which is exact, is that of all that it runs on. From 3.3 on it may go on in another native thread
 * (RUBY_MN_THREADS).
 */
static bool has_its_clock(const struct profile_thread *thread)
{
#ifdef HAVE_RB_PROFILE_THREAD_FRAMES
	uint32_t native_id;

	return native_id_of(thread->thread, &native_id) && native_id == thread->native_id;
#else
	return thread->native_id != 0;
#endif
}

/* Native threads come and go: where all places are taken, the one that no thread has been seen on for longest goes. */
static struct profile_shared_clock *clock_of(struct profile_threads *threads, uint32_t native_id)
{
	struct profile_shared_clock *place = NULL;

	for (uint32_t i = 0; i < threads->clock_count; i++) {
		struct profile_shared_clock *clock = &threads->clocks[i];

		if (clock->native_id == native_id) {
			clock->round = threads->round;
			return clock;
		}
		if (!place || clock->round < place->round)
			place = clock;
	}
	if (threads->clock_count < PROFILE_CLOCKS_MAX)
		place = &threads->clocks[threads->clock_count++];
	*place = (struct profile_shared_clock){.native_id = native_id, .round = threads->round};
	return place;
}

/* What the native thread has used since any thread was seen on it is this one's, which is on it now. NULL: it is on none. */
static struct profile_shared_clock *take_clock(struct profile_threads *threads, struct profile_thread *thread)
{
	struct profile_shared_clock *clock;

	thread->clock_id = 0;
	thread->has_cpu = false;
	if (!native_id_of(thread->thread, &thread->clock_id) || !thread->clock_id)
		return NULL;
	clock = clock_of(threads, thread->clock_id);
	thread->has_cpu = clock->cpu_ns > 0;
	thread->cpu_ns = clock->cpu_ns;
	return clock;
}

void profile_thread_cpu_ns(struct profile_threads *threads, struct profile_thread *thread, uint64_t now_ns,
                           const struct profile_cost *cost)
{
	struct profile_shared_clock *clock = NULL;
	uint64_t own_ns;

	thread->last_ns = 0;
	thread->stands = thread->had_cpu = false;
	thread->clock_id = thread->native_id;
	if (threads->share && !(clock = take_clock(threads, thread)))
		return;
	thread->had_cpu = thread->has_cpu;
	thread->before_ns = thread->cpu_ns;
	if (!thread->clock_id || (!now_ns && !clock_thread_ns((pid_t)thread->clock_id, &now_ns)))
		return;
	own_ns = (pid_t)thread->clock_id == cost->native_id ? cost->cpu_ns : 0;
	if (thread->has_cpu && now_ns > thread->cpu_ns + own_ns)
		thread->last_ns = now_ns - thread->cpu_ns - own_ns;
	thread->stands = thread->has_cpu && !clock && now_ns == thread->cpu_ns && has_its_clock(thread);
	thread->used_ns += thread->last_ns;
	threads->used_ns += thread->last_ns;
	thread->cpu_ns = now_ns;
	thread->has_cpu = true;
	if (clock)
		clock->cpu_ns = now_ns;
}

void profile_threads_tell_clocks(const struct profile_threads *threads, struct msgpack_builder *answer)
{
	builder_array(answer, "clocks");
	for (uint32_t i = 0; i < threads->count; i++) {
		const struct profile_thread *thread = &threads->items[i];

		if (thread->ours || !(thread->has_cpu || threads->share))
			continue;
		builder_uint(answer, NULL, thread->number);
		builder_uint(answer, NULL, thread->used_ns);
	}
	builder_end(answer);
}

void profile_threads_tell(struct profile_threads *threads, struct msgpack_builder *answer)
{
	builder_array(answer, "threads");
	for (uint32_t i = 0; i < threads->count; i++) {
		struct profile_thread *thread = &threads->items[i];

		learn_name(thread);
		if (thread->ours)
			thread->untold = false;
		if (!thread->untold)
			continue;
		builder_map(answer, NULL);
		builder_uint(answer, "thread", thread->number);
		builder_uint(answer, "id", (uint64_t)thread->thread);
		builder_uint(answer, "native_id", thread->native_id);
		builder_text(answer, "name", thread->name, strlen(thread->name));
		builder_bool(answer, "main", thread->thread == rb_thread_main());
		builder_end(answer);
	}
	builder_end(answer);
}

void profile_threads_told(struct profile_threads *threads)
{
	for (uint32_t i = 0; i < threads->count; i++)
		threads->items[i].untold = false;
}
