#ifndef RBPROBE_PROTO_CLOCK_H
#define RBPROBE_PROTO_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define NS_PER_S 1000000000ull
#define NS_PER_MS 1000000ull
#define NS_PER_US 1000ull

/* Nanoseconds of a clock that the caller knows to exist. Safe in a signal handler. */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/*
 * The CPU time of a thread of this process, by the kernel's number for it; false: there is none. Its clock's number is that of
 * linux/posix-timers.h; pthread_getcpuclockid() wants a pthread_t instead. Safe in a signal handler.
 */
static inline bool clock_thread_ns(pid_t thread, uint64_t *ns)
{
	struct timespec used;

	if (clock_gettime((clockid_t)((~(unsigned)thread << 3) | 4 | 2), &used) != 0)
		return false;
	*ns = (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
	return true;
}

/* The clock of deadlines, and of the target's events. */
static inline uint64_t clock_now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

#endif
