#ifndef RBPROBE_PROFILE_RETAINED_H
#define RBPROBE_PROFILE_RETAINED_H

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Objects of a profile that are still alive: each is noted once it has been looked at, and forgotten when the GC frees it.
 * Nothing here keeps them alive. Context: job, GVL held, where nothing else is said.
 */

struct profile_retained;

struct profile_retained_object {
	VALUE object; /* 0: none */
	uint32_t thread, stack;
	uint64_t stands_for;
};

/* NULL: no memory, or the GC's events cannot be heard. */
struct profile_retained *profile_retained_start(void);
void profile_retained_stop(struct profile_retained *retained);
void profile_retained_free(struct profile_retained *retained);
/* As profile_allocations_abandon(). */
void profile_retained_abandon(void);
/* In GC, when objects have been moved. */
void profile_retained_moved(struct profile_retained *retained);

/* False: there is no room. */
bool profile_retained_add(struct profile_retained *retained, const struct profile_retained_object *object);
/* All that are alive, one after the other: *at begins with 0. NULL: there are no more. */
const struct profile_retained_object *profile_retained_next(const struct profile_retained *retained, uint32_t *at);

#endif
