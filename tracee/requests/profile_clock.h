#ifndef RBPROBE_PROFILE_CLOCK_H
#define RBPROBE_PROFILE_CLOCK_H

#include "tracee/requests/profile_watch.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The clock of a profile: a native thread that asks the VM for a sample so many times a second, and adds up the time for which
 * none was taken. See profile_clock.c. Context: GVL held, where nothing else is said.
 */

struct profile_clock;

/* What is to be accounted for since the last sample. */
struct profile_time {
	uint64_t still_ns, still_ticks; /* so long no thread did anything: all were where that sample saw them */
	uint64_t moved_ns, moved_ticks; /* and so long some did; */
	uint64_t period_ns;             /* of a tick */
	struct profile_tick tick;       /* the last one that asked for the sample */
};

/* trigger: asks for the sample, from any thread. NULL: there is no memory, or no thread could be made. */
struct profile_clock *profile_clock_start(uint32_t rate_hz, void (*trigger)(void));
/* Ends the thread, and waits for that a moment. */
void profile_clock_halt(struct profile_clock *clock);
/* The same; the clock is gone then. */
void profile_clock_stop(struct profile_clock *clock);
/* The same in a forked child, which does not have the thread. */
void profile_clock_forget(struct profile_clock *clock);

/* A sample begins. last: none comes after it, so the time since the last tick is its, too. */
void profile_clock_take(struct profile_clock *clock, bool last, struct profile_time *time);
/* It is over. cpu_ns: what it took, of which the clock makes sure that it does not become too much. */
void profile_clock_taken(struct profile_clock *clock, uint64_t cpu_ns);

/* At ticks from now on, the CPU clocks of these threads are looked at: PROFILE_WATCHED_MAX at most. */
void profile_clock_watch(struct profile_clock *clock, const pid_t *threads, uint32_t count);

/* CPU time of all threads but rbprobe's; samples, which theirs take, are in it. Any thread. */
uint64_t profile_clock_application_cpu_ns(const struct profile_clock *clock);
/* What the clock's thread has taken itself. */
uint64_t profile_clock_cpu_ns(const struct profile_clock *clock);
/* Ticks a second until now: fewer than were asked for where samples took too much. */
double profile_clock_rate_hz(const struct profile_clock *clock);
/* How often the main thread was woken for a sample. */
uint64_t profile_clock_woken(const struct profile_clock *clock);

#endif
