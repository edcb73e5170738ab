#ifndef RBPROBE_NATIVE_STACKS_H
#define RBPROBE_NATIVE_STACKS_H

#include "proto/frames.h"
#include "tracer/backtrace/native_stack.h"
#include "tracer/native/merge.h"
#include "tracer/native/names.h"
#include "tracer/native/sampler.h"
#include "tracer/process/target.h"
#include "tracer/profile/profile.h"

#include <msgpack.h>
#include <stdint.h>

/*
 * From samples to the answers of a PROFILE request, as the process itself would have given them: so everything that shows a
 * profile shows this one. Stacks, functions and threads are numbered in the order in which they come.
 */

struct stacks_counts {
	uint64_t cut;      /* native frames are missing further out */
	uint64_t unplaced; /* how native frames and Ruby's belong together is not known */
	uint64_t unnamed;  /* Ruby did not say what a frame is called */
};

struct stacks {
	struct profile *numbers;
	uint32_t functions_told, nodes_told, threads_told;
	struct merge_interpreter interpreter;
	struct stacks_counts counts;
	uint64_t own[FRAMES_OWN_MAX]; /* functions of rbprobe's work: what they have called is not shown */
	uint32_t own_count;
	char vm[128]; /* name of the file that has the VM; empty: the program's */
};

void stacks_init(struct stacks *stacks, const struct target *target);
void stacks_free(struct stacks *stacks);
/* "own_functions" of an answer to FRAMES. */
void stacks_learn_own(struct stacks *stacks, const msgpack_object *functions);

/*
 * Adds one map to packed, which is an answer: the samples, whose native frames these are, in their order. threads: all that were
 * known until now. counts: the summary's.
 */
void stacks_tell(struct stacks *stacks, const struct frame_names *names, const struct native_sample *samples, uint32_t count,
                 const struct native_stacks *natives, const struct sampled_thread *threads, uint32_t thread_count,
                 const struct sampler_counts *sampled, msgpack_sbuffer *packed);

#endif
