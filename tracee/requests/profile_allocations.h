#ifndef RBPROBE_PROFILE_ALLOCATIONS_H
#define RBPROBE_PROFILE_ALLOCATIONS_H

#include "proto/error.h"
#include "proto/slice.h"
#include "tracee/base/msgpack_builder.h"
#include "tracee/requests/profile_stacks.h"
#include "tracee/requests/profile_sums.h"
#include "tracee/requests/profile_threads.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Which stacks make objects. One profile at a time has this; profile_allocations.c says how it looks, and how its cost is
 * bounded. Context: job, GVL held, where nothing else is said.
 */

struct profile_allocations;

struct profile_allocation_options {
	struct slice class; /* a constant's name; a '+' after it: also of classes below it. Empty: all */
	bool retained;      /* only those that are still alive at the end */
	uint64_t every;     /* about every so many'th object is looked at; 0: as is cheap */
};

/* NULL, and err: it is not possible, or there is no such class. May raise. */
struct profile_allocations *profile_allocations_start(struct profile_stacks *stacks,
                                                      const struct profile_allocation_options *options, struct error *err);
/* Nothing is looked at any more. */
void profile_allocations_stop(struct profile_allocations *allocations);
/* The same where the VM cannot be asked: in a forked child, and when it is going down. Async-signal-safe. */
void profile_allocations_abandon(void);
void profile_allocations_free(struct profile_allocations *allocations);
/* In GC. */
void profile_allocations_mark(const struct profile_allocations *allocations);
/* Around work of ours, whose objects do not count. */
void profile_allocations_pause(struct profile_allocations *allocations, bool paused);

/* Adds what was seen since the last time, and keeps its cost in bounds. May raise. */
void profile_allocations_take(struct profile_allocations *allocations, struct profile_threads *threads,
                              struct profile_sums *sums);
/* In GC, when objects have been moved. */
void profile_allocations_moved(struct profile_allocations *allocations);
/* With `retained`: collects garbage, and adds what is alive. After the last profile_allocations_take(). May raise. */
void profile_allocations_take_retained(struct profile_allocations *allocations, struct profile_sums *sums);
/* How many objects that were seen are in no sum. */
uint64_t profile_allocations_lost(const struct profile_allocations *allocations);
/* What looking has cost, so far as it is known. */
uint64_t profile_allocations_cost_ns(const struct profile_allocations *allocations);
/* Adds what there is to say to the summary, a map that is open. */
void profile_allocations_tell(const struct profile_allocations *allocations, struct msgpack_builder *answer);

#endif
