/*
 * CPU clocks of threads at a tick. See profile_watch.h.
 *
 * Ticks are written in two places in turn, so a job that reads the last one is not in the way of the next. Where two more come
 * while it reads, it reads again.
 */

#include "tracee/requests/profile_watch.h"

#include "proto/clock.h"
#include "proto/task_file.h"
#include "tracee/base/fork_gate.h"

#include <inttypes.h>
#include <stdio.h>

#define READ_ATTEMPTS 4
#define ASKED_AFTER 8u             /* ticks after one that was late ask, too: the machine is busy */
#define SLEEPS_NS (50 * NS_PER_MS) /* so long its clock stands still: whoever waits for a processor has had one by then */

void profile_watch_set(struct profile_watch *watch, const pid_t *threads, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		atomic_store_explicit(&watch->threads[i], threads[i], memory_order_relaxed);
	atomic_store_explicit(&watch->count, count, memory_order_release);
}

uint64_t profile_watch_delay_ns(pid_t thread)
{
	char text[128];
	uint64_t ran_ns, delay_ns;

	if (task_file_read_own(thread, "schedstat", text, sizeof(text)) <= 0)
		return UINT64_MAX;
	/* Kernels that do not count say that it never ran. */
	if (sscanf(text, "%" SCNu64 " %" SCNu64, &ran_ns, &delay_ns) != 2 || ran_ns == 0)
		return UINT64_MAX;
	return delay_ns;
}

/* In the clock's thread a fork may come at any time, and its child would have the file for its life. */
static uint64_t delay_ns_without_a_fork(pid_t thread)
{
	uint64_t delay_ns;

	if (!fork_gate_try_enter())
		return UINT64_MAX;
	delay_ns = profile_watch_delay_ns(thread);
	fork_gate_leave();
	return delay_ns;
}

/* When the thread's clock was first seen to say cpu_ns, as it does now. */
static uint64_t moved_ns(const struct profile_tick *before, uint32_t guess, pid_t thread, uint64_t cpu_ns, uint64_t now_ns)
{
	for (uint32_t i = 0; i < before->count; i++) {
		uint32_t at = (guess + i) % before->count;

		if (before->threads[at] == thread)
			return before->cpu_ns[at] == cpu_ns ? before->moved_ns[at] : now_ns;
	}
	return now_ns;
}

void profile_watch_tick(struct profile_watch *watch, uint64_t latest_ns)
{
	uint32_t number = atomic_load_explicit(&watch->ticks, memory_order_relaxed) + 1;
	uint32_t count = atomic_load_explicit(&watch->count, memory_order_acquire);
	struct profile_tick *tick = &watch->places[number & 1];
	const struct profile_tick *before = &watch->places[(number & 1) ^ 1];
	uint64_t now_ns = clock_now_ns();

	tick->late = now_ns > latest_ns;
	watch->asks = tick->late ? ASKED_AFTER : watch->asks - (watch->asks > 0);
	tick->count = 0;
	for (uint32_t i = 0; i < count; i++) {
		pid_t thread = atomic_load_explicit(&watch->threads[i], memory_order_relaxed);
		uint32_t at = tick->count;
		bool asks;

		if (!clock_thread_ns(thread, &tick->cpu_ns[at]))
			continue;
		tick->threads[at] = thread;
		tick->moved_ns[at] = moved_ns(before, at, thread, tick->cpu_ns[at], now_ns);
		asks = watch->asks && now_ns - tick->moved_ns[at] < SLEEPS_NS;
		tick->delays_ns[at] = asks ? delay_ns_without_a_fork(thread) : UINT64_MAX;
		tick->count++;
	}
	/* Last: a thread whose processor this one has taken goes on soon. */
	tick->at_ns = clock_now_ns();
	atomic_store_explicit(&watch->ticks, number, memory_order_release);
}

void profile_watch_refresh(const struct profile_watch *watch)
{
	uint32_t count = atomic_load_explicit(&watch->count, memory_order_acquire);
	uint64_t unused;

	for (uint32_t i = 0; i < count; i++)
		clock_thread_ns(atomic_load_explicit(&watch->threads[i], memory_order_relaxed), &unused);
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

bool profile_tick_thread(const struct profile_tick *tick, pid_t thread, uint64_t *cpu_ns, uint64_t *delay_ns)
{
	for (uint32_t i = 0; i < tick->count; i++) {
		if (tick->threads[i] != thread)
			continue;
		*cpu_ns = tick->cpu_ns[i];
		*delay_ns = tick->delays_ns[i];
		return true;
	}
	return false;
}
