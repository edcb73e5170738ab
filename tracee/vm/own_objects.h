#ifndef RBPROBE_OWN_OBJECTS_H
#define RBPROBE_OWN_OBJECTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How many objects the process has allocated, without those of rbprobe's work: of values that are rendered, of expressions and of
 * jobs. They are counted for the process, as the VM counts. Where Ruby code of such work lets another fiber or thread run, what
 * is allocated until that comes to work of rbprobe's belongs to neither.
 *
 * Main Ractor, GVL held, but not in GC; runs no Ruby code.
 */

struct fiber_state;

/* Under the GVL: how many sessions want to know it. Without any, nothing is counted. */
extern unsigned own_objects_followers;

/* Job; the first call in a process allocates, and would raise where a Ruby had no such count. */
void own_objects_follow(void);
void own_objects_unfollow(void);

/* Around work of this fiber (NULL: one that has no state). May be nested, and is over with the outermost end. */
void own_objects_work(const struct fiber_state *fiber);
void own_objects_rest(const struct fiber_state *fiber);

static inline void own_objects_begin(const struct fiber_state *fiber)
{
	if (own_objects_followers)
		own_objects_work(fiber);
}

static inline void own_objects_end(const struct fiber_state *fiber)
{
	if (own_objects_followers)
		own_objects_rest(fiber);
}

/* The application's, up to the beginning of the work that this fiber does. */
uint64_t own_objects_without(const struct fiber_state *fiber);

#endif
