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
	bool late;
	uint32_t count;
	pid_t threads[PROFILE_WATCHED_MAX];
	uint64_t cpu_ns[PROFILE_WATCHED_MAX];
	uint64_t moved_ns[PROFILE_WATCHED_MAX]; /* when each clock was first seen to say that */
	/* How long each has waited for a processor, ever; UINT64_MAX: not asked. That is asked where ticks are late: on a busy
	   machine a thread that is at work waits for a processor as well, and its clock does not tell it from one that sleeps,
	   until it has stood still for long. It opens a file, which costs more than a sample does otherwise. */
	uint64_t delays_ns[PROFILE_WATCHED_MAX];
};

struct profile_watch {
	_Atomic uint32_t count;
	_Atomic pid_t threads[PROFILE_WATCHED_MAX];
	_Atomic uint32_t ticks; /* so many; the last one is in the place that this number has */
	uint32_t asks;          /* so many ticks more ask for delays; the clock thread's */
	struct profile_tick places[2];
};

/*
 * How long the thread has waited for a processor while it could run, as the kernel counts (/proc/PID/task/TID/schedstat; what it
 * waits for now comes when that is over). UINT64_MAX: it does not tell. Any thread that nobody forks beside:
 * opens a file for it.
 */
uint64_t profile_watch_delay_ns(pid_t thread);

/* From now on these threads, at most PROFILE_WATCHED_MAX. Job context. */
void profile_watch_set(struct profile_watch *watch, const pid_t *threads, uint32_t count);
/* A tick: reads the clocks. It is late after latest_ns. The profile's clock thread alone. */
void profile_watch_tick(struct profile_watch *watch, uint64_t latest_ns);
/* Reads the clocks, whatever they say: the process's is up to date then. The profile's clock thread alone. */
void profile_watch_refresh(const struct profile_watch *watch);
/* What the last tick saw. Job context. */
void profile_watch_last(struct profile_watch *watch, struct profile_tick *tick);

/* The thread's CPU time at the tick, and its delay; false: it was not watched. */
bool profile_tick_thread(const struct profile_tick *tick, pid_t thread, uint64_t *cpu_ns, uint64_t *delay_ns);

#endif
