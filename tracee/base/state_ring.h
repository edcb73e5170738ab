#ifndef RBPROBE_STATE_RING_H
#define RBPROBE_STATE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * What threads do, from all of them to all who read: a ring whose newest entry takes the place of the oldest. Several threads
 * write at a time, with or without the GVL: an entry takes its number by one atomic addition, and has a check over all of it, so
 * that a reader sees at once whether it is whole and the one that it wants. A reader that is too slow knows how many it has
 * missed. Knows nothing of Ruby; no lock, no system call, no allocation but the first.
 */

#define STATE_RING_ENTRIES 16384u /* a power of two */

struct state_entry {
	uint64_t ticks;
	uint64_t thread;    /* the same for all of one thread while it lives */
	uint32_t native_id; /* of the thread; 0: another one has said it */
	uint8_t event;
};

struct state_ring;

/* NULL: no memory. */
struct state_ring *state_ring_new(void);
void state_ring_push(struct state_ring *ring, const struct state_entry *entry);
/* The number of the next one that is written. */
uint64_t state_ring_next(const struct state_ring *ring);
/* The entry with the number *next, which goes up. False: there is none yet. *lost goes up by those that were overwritten. */
bool state_ring_take(const struct state_ring *ring, uint64_t *next, struct state_entry *entry, uint64_t *lost);

#endif
