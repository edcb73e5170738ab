#ifndef RBPROBE_NATIVE_SAMPLER_H
#define RBPROBE_NATIVE_SAMPLER_H

#include "tracer/backtrace/thread_snapshot.h"
#include "tracer/native/control.h"
#include "tracer/process/target.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Samples of a process's Ruby threads from outside, by a thread of ours. A thread that has moved since its last sample is stopped
 * for as long as its registers and stacks are copied. One that waits where it waited then is left alone.
 */

struct sampled_thread {
	uint64_t id, context_at;
	uint32_t native_id; /* as the process sees it */
	bool main;
	char name[64];
};

/* Of one moment, and for how much time it stands. */
struct native_sample {
	uint64_t thread; /* its id */
	struct snapshot snapshot;
	struct control_stack control;
	uint64_t ticks, wall_ns, cpu_ns, idle_ns;
};

#define SAMPLER_PAUSES_MAX 4096u

/* What has been counted since the beginning. */
struct sampler_counts {
	uint64_t ticks, stops, not_stopped, no_room;
	uint64_t late_ticks, late_ns;
	uint64_t longest_ns, stopped_ns;     /* of all stops: the longest, and their sum */
	uint32_t pauses[SAMPLER_PAUSES_MAX]; /* ns; of the last stops */
	uint64_t process_cpu_ns;             /* of all its threads; 0: not known */
	uint64_t sampled_cpu_ns;             /* of that, what is in samples */
	uint64_t own_cpu_ns;                 /* of the thread that samples, which is outside of the process */
	uint64_t elapsed_ns;
	uint64_t period_ns;    /* between samples; longer than was asked for where they took too much */
	uint64_t milliperiods; /* thousandths of periods that have passed */
	int refused;           /* why no thread may be stopped; 0: they may */
};

struct sampler;

/* For so long, or until sampler_stop(). NULL: no thread could be made. */
struct sampler *sampler_new(const struct target *target, uint64_t period_ns, uint64_t duration_ns, size_t frame_words);
/* From now on these are its threads. They are copied. */
void sampler_set_threads(struct sampler *sampler, const struct sampled_thread *threads, uint32_t count);
/* The samples since the last call, which the caller frees by sampler_free_samples(). */
uint32_t sampler_take(struct sampler *sampler, struct native_sample **samples, struct sampler_counts *counts);
void sampler_free_samples(struct native_sample *samples, uint32_t count);
/* No sample comes any more. Nothing is stopped then. */
void sampler_stop(struct sampler *sampler);
void sampler_free(struct sampler *sampler);

uint64_t sampler_median_pause_ns(const struct sampler_counts *counts);
/* What the process has used of processors in threads that were not sampled then. */
uint64_t sampler_unseen_cpu_ns(const struct sampler_counts *counts);
/* Samples a second until now. */
double sampler_rate_hz(const struct sampler_counts *counts);

#endif
