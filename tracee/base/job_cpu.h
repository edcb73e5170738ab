#ifndef RBPROBE_JOB_CPU_H
#define RBPROBE_JOB_CPU_H

#include "proto/clock.h"

#include <stdint.h>
#include <time.h>

/*
 * The CPU time of a thread without that of rbprobe's jobs on it, which run inside whatever call is under way there. Any context
 * but signal handlers.
 */

/* What the jobs on this thread have taken that are over, in nanoseconds. */
extern __thread uint64_t job_cpu_ns;

static inline uint64_t job_cpu_without_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - job_cpu_ns;
}

#endif
