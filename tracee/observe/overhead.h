#ifndef RBPROBE_OVERHEAD_H
#define RBPROBE_OVERHEAD_H

#include "tracee/base/ticks.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What observing methods takes of the process, all sessions together, as a share of its CPU time over the last moment.
 *
 * It has three parts. What the VM does for an event before it calls us is measured once, with a method of our own. What we do is
 * measured on one event of 128. Making values, and the expressions of --if and --by, which may run the user's code, are measured
 * each time; but as the rest where nothing is called.
 */

#define OVERHEAD_SAMPLE 128u

extern struct overhead {
	uint64_t events;       /* of the VM, and calls and returns of patched functions */
	uint64_t own_ticks;    /* without values */
	uint64_t values_ticks; /* of making values, where that was measured: each time, or */
	uint64_t values_rest;  /* on one event of OVERHEAD_SAMPLE; then these stand for the others */
	uint64_t sample_max;   /* ticks: what took longer was interrupted by others */
	uint64_t long_ticks;   /* values that took longer were perhaps, too; */
	uint32_t long_makings; /* of so many the kernel is asked */
} overhead;                    /* under the GVL */

/* Whether this event is one of those that are measured. Event context. */
static inline bool overhead_sampled(void)
{
	return __builtin_expect(++overhead.events % OVERHEAD_SAMPLE == 0, 0);
}

/* The same of the event that was asked for last. */
static inline bool overhead_is_sampled(void)
{
	return overhead.events % OVERHEAD_SAMPLE == 0;
}

/* Around what is done for it; without an end, where the event is left by a jump, nothing is measured. */
struct overhead_sample {
	bool on;
	uint64_t began, values;
};

static inline struct overhead_sample overhead_sample_begin(bool sampled)
{
	return sampled ? (struct overhead_sample){true, ticks_now(), overhead.values_ticks}
	               : (struct overhead_sample){.on = false};
}

static inline void overhead_sample_end(struct overhead_sample sample)
{
	uint64_t took, values;

	if (__builtin_expect(!sample.on, 1))
		return;
	took = ticks_now() - sample.began;
	values = overhead.values_ticks - sample.values;
	took = took > values ? took - values : 0;
	overhead.own_ticks += (took < overhead.sample_max ? took : overhead.sample_max) * OVERHEAD_SAMPLE;
}

/*
 * Around the making of values that may call something, which is measured each time. What takes long was perhaps only interrupted
 * by other processes. So it counts as a millisecond, and of those that come next the kernel is asked.
 */
struct overhead_making {
	uint64_t began;
	bool asked;
	uint64_t cpu_ns;
	long interruptions;
};

/* The rare part of both. */
void overhead_making_ask(struct overhead_making *making);
uint64_t overhead_making_long(const struct overhead_making *making, uint64_t took);

static inline struct overhead_making overhead_making_begin(uint64_t now)
{
	struct overhead_making making = {.began = now};

	if (__builtin_expect(overhead.long_makings != 0, 0))
		overhead_making_ask(&making);
	return making;
}

static inline void overhead_making_end(struct overhead_making making, uint64_t ended)
{
	uint64_t took = ended - making.began;

	if (__builtin_expect(took > overhead.long_ticks, 0))
		took = overhead_making_long(&making, took);
	overhead.values_ticks += took;
}

/* Values that were made without calling anything, in an event that is measured. */
static inline void overhead_add_sampled_values(uint64_t took)
{
	overhead.values_ticks += took;
	overhead.values_rest += (took < overhead.sample_max ? took : overhead.sample_max) * (OVERHEAD_SAMPLE - 1);
}

/* Measures what the VM takes for an event, once. Job context; raises nothing. Takes less than a millisecond. */
void overhead_calibrate(void);

/* What has been since the last one. */
struct overhead_look {
	double share;  /* of the process's CPU time, 0 to 1 */
	double values; /* the part of it that making values took */
};

/* From how many percent on a job has to look; over 100: never. GVL. */
void overhead_watch(unsigned minimum_percent);
/* A forked child has no sessions. Async-signal-safe. */
void overhead_fork_child(void);
/* Whether the share is that large, so that a job has to look. For job_due_register(). Any thread. */
bool overhead_is_due(void);
/* What made it due. False: it was not. Job context. */
bool overhead_take(struct overhead_look *look);

#endif
