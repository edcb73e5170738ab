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

/* Whether there are several Ractors by now: then nothing that moves is followed. In each job; may raise. */
void profile_retained_look(struct profile_retained *retained);

/* False: there is no room. */
bool profile_retained_add(struct profile_retained *retained, const struct profile_retained_object *object);
/*
 * Before add and next. Before Ruby 3.2 nothing is heard from when the application makes a Ractor (gc_hook.h) until this is called
 * and there is but one: then what was noted is forgotten, and counted. False: nothing can be heard now.
 */
bool profile_retained_watch(struct profile_retained *retained);
/* For how many objects those stood that were forgotten so. */
uint64_t profile_retained_unwatched(const struct profile_retained *retained);
/*
 * After the last collection: forgets what is no object any more. Up to 3.4 the collections of other Ractors are not heard, which
 * may also have given whole pages back.
 */
void profile_retained_settle(struct profile_retained *retained);
/* All that are alive, one after the other: *at begins with 0. NULL: there are no more. */
const struct profile_retained_object *profile_retained_next(const struct profile_retained *retained, uint32_t *at);

#endif
