#ifndef RBPROBE_PROFILE_WATCH_H
#define RBPROBE_PROFILE_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What the CPU clocks of threads say at a tick of a profile. A sample is taken some time after its tick: these tell whether a
 * thread ran at the tick. Only threads that have used CPU time lately are watched, and so many at most.
 */

#define PROFILE_WATCHED_MAX 32u

struct profile_tick {
	uint64_t at_ns; /* 0: there was none */
	uint32_t count;
	pid_t threads[PROFILE_WATCHED_MAX];
	uint64_t cpu_ns[PROFILE_WATCHED_MAX];
};

struct profile_watch {
	_Atomic uint32_t count;
	_Atomic pid_t threads[PROFILE_WATCHED_MAX];
	_Atomic uint32_t ticks; /* so many; the last one is in the place that this number has */
	struct profile_tick places[2];
};

/* From now on these threads, at most PROFILE_WATCHED_MAX. Job context. */
void profile_watch_set(struct profile_watch *watch, const pid_t *threads, uint32_t count);
/* A tick: reads the clocks. The profile's clock thread alone. */
void profile_watch_tick(struct profile_watch *watch, uint64_t latest_ns);
/* What the last tick saw. Job context. */
void profile_watch_last(struct profile_watch *watch, struct profile_tick *tick);

/* The thread's CPU time at the tick; false: it was not watched. */
bool profile_tick_cpu_ns(const struct profile_tick *tick, pid_t thread, uint64_t *cpu_ns);

#endif
