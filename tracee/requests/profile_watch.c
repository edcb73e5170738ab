/*
 * CPU clocks of threads at a tick. See profile_watch.h.
 *
 * Ticks are written in two places in turn, so a job that reads the last one is not in the way of the next. Where two more come
 * while it reads, it reads again.
 */

#include "tracee/requests/profile_watch.h"

#include "proto/clock.h"

#define READ_ATTEMPTS 4

void profile_watch_set(struct profile_watch *watch, const pid_t *threads, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		atomic_store_explicit(&watch->threads[i], threads[i], memory_order_relaxed);
	atomic_store_explicit(&watch->count, count, memory_order_release);
}

void profile_watch_tick(struct profile_watch *watch, uint64_t latest_ns)
{
	uint32_t number = atomic_load_explicit(&watch->ticks, memory_order_relaxed) + 1;
	uint32_t count = atomic_load_explicit(&watch->count, memory_order_acquire);
	struct profile_tick *tick = &watch->places[number & 1];

	tick->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		tick->threads[tick->count] = atomic_load_explicit(&watch->threads[i], memory_order_relaxed);
		tick->count += clock_thread_ns(tick->threads[tick->count], &tick->cpu_ns[tick->count]);
	}
	/* Last: a thread whose processor this one has taken goes on soon. */
	tick->at_ns = clock_now_ns();
	if (tick->at_ns > latest_ns)
		tick->at_ns = 0;
	atomic_store_explicit(&watch->ticks, number, memory_order_release);
}

void profile_watch_last(struct profile_watch *watch, struct profile_tick *tick)
{
	for (int i = 0; i < READ_ATTEMPTS; i++) {
		uint32_t number = atomic_load_explicit(&watch->ticks, memory_order_acquire);

		*tick = watch->places[number & 1];
		atomic_thread_fence(memory_order_acquire);
		if (atomic_load_explicit(&watch->ticks, memory_order_relaxed) == number)
			return;
	}
	*tick = (struct profile_tick){0};
}

bool profile_tick_cpu_ns(const struct profile_tick *tick, pid_t thread, uint64_t *cpu_ns)
{
	for (uint32_t i = 0; i < tick->count; i++) {
		if (tick->threads[i] != thread)
			continue;
		*cpu_ns = tick->cpu_ns[i];
		return true;
	}
	return false;
}
