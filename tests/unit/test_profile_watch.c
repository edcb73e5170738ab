/* Which threads the kernel is asked about at a tick that is late: those that may be at work. */

#define _GNU_SOURCE
#include "tracee/requests/profile_watch.h"

#include "proto/clock.h"
#include "unit.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t now_ns, cpu_ns[2]; /* of this thread, and of the other */
static pid_t threads[2];

/* In the place of libc's. */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	uint64_t ns = now_ns;

	for (int i = 0; i < 2; i++)
		if (clock == (clockid_t)((~(unsigned)threads[i] << 3) | 4 | 2))
			ns = cpu_ns[i];
	*time = (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
	return 0;
}

static pthread_barrier_t begins, ends;

static void *other(void *unused)
{
	threads[1] = (pid_t)syscall(SYS_gettid);
	pthread_barrier_wait(&begins);
	pthread_barrier_wait(&ends);
	return unused;
}

static struct profile_tick tick_at(struct profile_watch *watch, uint64_t at_ns, bool late)
{
	struct profile_tick tick;

	now_ns = at_ns;
	profile_watch_tick(watch, late ? at_ns - 1 : at_ns);
	profile_watch_last(watch, &tick);
	assert_int_equal(tick.count, 2);
	assert_int_equal(tick.at_ns, at_ns);
	return tick;
}

static bool is_asked(const struct profile_tick *tick, int thread)
{
	uint64_t at_tick_ns, delay_ns;

	assert_true(profile_tick_thread(tick, threads[thread], &at_tick_ns, &delay_ns));
	assert_int_equal(at_tick_ns, cpu_ns[thread]);
	return delay_ns != UINT64_MAX;
}

static void one_that_has_stood_still_for_long_is_not_asked_about(void **state)
{
	static struct profile_watch watch;
	struct profile_tick tick;
	pthread_t thread;

	(void)state;
	threads[0] = (pid_t)syscall(SYS_gettid);
	pthread_barrier_init(&begins, NULL, 2);
	pthread_barrier_init(&ends, NULL, 2);
	assert_int_equal(pthread_create(&thread, NULL, other, NULL), 0);
	pthread_barrier_wait(&begins);
	if (profile_watch_delay_ns(threads[0]) == UINT64_MAX)
		skip(); /* the kernel counts no delays */
	profile_watch_set(&watch, threads, 2);

	tick = tick_at(&watch, 1 * NS_PER_S, false);
	assert_false(is_asked(&tick, 0) || is_asked(&tick, 1)); /* nobody, while ticks are on time */
	tick = tick_at(&watch, 1 * NS_PER_S + 10 * NS_PER_MS, true);
	assert_true(is_asked(&tick, 0) && is_asked(&tick, 1));
	for (uint64_t ms = 20; ms < 50; ms += 10) {
		cpu_ns[0] += NS_PER_MS;
		tick = tick_at(&watch, 1 * NS_PER_S + ms * NS_PER_MS, true);
		assert_true(is_asked(&tick, 0) && is_asked(&tick, 1));
	}
	cpu_ns[0] += NS_PER_MS;
	tick = tick_at(&watch, 1 * NS_PER_S + 50 * NS_PER_MS, true);
	assert_true(is_asked(&tick, 0) && !is_asked(&tick, 1));
	/* Where the machine was busy just now, also on time. */
	tick = tick_at(&watch, 1 * NS_PER_S + 60 * NS_PER_MS, false);
	assert_true(is_asked(&tick, 0) && !is_asked(&tick, 1));
	cpu_ns[1] += 1;
	tick = tick_at(&watch, 1 * NS_PER_S + 70 * NS_PER_MS, true);
	assert_true(is_asked(&tick, 0) && is_asked(&tick, 1));

	pthread_barrier_wait(&ends);
	pthread_join(thread, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_has_stood_still_for_long_is_not_asked_about),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
