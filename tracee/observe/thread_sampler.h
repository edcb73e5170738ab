#ifndef RBPROBE_THREAD_SAMPLER_H
#define RBPROBE_THREAD_SAMPLER_H

#include "proto/error.h"
#include "tracee/base/state_ring.h"
#include "tracee/observe/thread_table.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * What threads do, where the VM does not tell it: a native thread of ours looks at them so many times a second. It needs no GVL,
 * so it also sees who has it in C code that does not let go of it. What is shorter than a period is not seen, and a change is
 * known to a period. Threads of other Ractors than the main one are not looked at.
 */

/* What samples may take of one processor: where they took more, there are fewer. */
#define SAMPLER_ALLOWED 0.1
#define SAMPLER_ALLOWED_TEXT "10 %%"

/* Whether threads can be looked at in this process. 0, or negative and err. Job context; raises nothing. */
int thread_sampler_check(struct error *err);

/*
 * Begins; does nothing where it runs already. 0, or negative and err. Job context; may raise. The ring stays.
 */
int thread_sampler_start(struct state_ring *ring, uint32_t rate_hz, struct error *err);
/* Tells a last time what each thread does. Where the thread gets no processor to end, the rest is for thread_sampler_clean(). */
void thread_sampler_stop(void);
/* Takes down what is left of a thread that has ended since, or that a forked child has not. Job context. */
void thread_sampler_clean(void);
/*
 * The process exits. Where the VM has not freed its threads yet, it tells a last time what each does. False: it does not run, or
 * has no processor to end. Calls nothing of Ruby's.
 */
bool thread_sampler_exit(bool threads_are_there);
/* Async-signal-safe. True: it ran in the parent, and may be started again by a job. */
bool thread_sampler_fork_child(void);

/* What it has missed since it began. Any thread. */
struct sampler_misses {
	uint64_t late,
		longest_late_ns; /* samples that came so late that a thread may have done more than one thing; by how much */
	uint64_t fewer,
		longest_period_ns; /* samples since they take too much to be as many as asked for; how far apart, at most */
};
struct sampler_misses thread_sampler_misses(void);

/* Learns of the threads that it has seen, and that are not in the table. Job context; may raise. */
void thread_sampler_list(void);

/* At the next sample everything is told, also what has not changed. Any thread. */
void thread_sampler_tell_all(void);

/* How many times a second it was asked for; 0: it does not run. Job context. */
uint32_t thread_sampler_rate_hz(void);
/* Whether it tells in what threads do without the GVL. Job context. */
bool thread_sampler_tells_in_what(void);

/* The thread begins to collect garbage, or is done. In GC. */
void thread_sampler_collects(struct sampled_thread *thread, bool begins);

#endif
