/* What threads do. See state_ring.h. */

#include "tracee/base/state_ring.h"

#include <stdlib.h>

struct slot {
	_Atomic uint64_t ticks, thread, what, check;
};

struct state_ring {
	_Atomic uint64_t next;
	struct slot slots[STATE_RING_ENTRIES];
};

struct state_ring *state_ring_new(void)
{
	return calloc(1, sizeof(struct state_ring));
}

/* Never that of a slot that is all zero, nor of parts of different entries, but by a chance of one in 2^64. */
static uint64_t check_of(uint64_t number, uint64_t ticks, uint64_t thread, uint64_t what)
{
	uint64_t check = (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

	check = (check ^ ticks) * UINT64_C(0xbf58476d1ce4e5b9);
	check = (check ^ check >> 31 ^ thread) * UINT64_C(0x94d049bb133111eb);
	return (check ^ check >> 29 ^ what) * UINT64_C(0x9e3779b97f4a7c15);
}

void state_ring_push(struct state_ring *ring, const struct state_entry *entry)
{
	uint64_t number = atomic_fetch_add_explicit(&ring->next, 1, memory_order_relaxed);
	struct slot *slot = &ring->slots[number % STATE_RING_ENTRIES];
	uint64_t what = (uint64_t)entry->native_id << 8 | entry->event;

	atomic_store_explicit(&slot->ticks, entry->ticks, memory_order_relaxed);
	atomic_store_explicit(&slot->thread, entry->thread, memory_order_relaxed);
	atomic_store_explicit(&slot->what, what, memory_order_relaxed);
	atomic_store_explicit(&slot->check, check_of(number, entry->ticks, entry->thread, what), memory_order_release);
}

uint64_t state_ring_next(const struct state_ring *ring)
{
	return atomic_load_explicit(&ring->next, memory_order_acquire);
}

bool state_ring_take(const struct state_ring *ring, uint64_t *next, struct state_entry *entry, uint64_t *lost)
{
	for (;;) {
		uint64_t end = state_ring_next(ring), check, what;
		const struct slot *slot = &ring->slots[*next % STATE_RING_ENTRIES];

		if (*next == end)
			return false;
		if (end - *next > STATE_RING_ENTRIES) {
			*lost += end - STATE_RING_ENTRIES - *next;
			*next = end - STATE_RING_ENTRIES;
			continue;
		}
		check = atomic_load_explicit(&slot->check, memory_order_acquire);
		entry->ticks = atomic_load_explicit(&slot->ticks, memory_order_relaxed);
		entry->thread = atomic_load_explicit(&slot->thread, memory_order_relaxed);
		what = atomic_load_explicit(&slot->what, memory_order_relaxed);
		if (check != check_of(*next, entry->ticks, entry->thread, what)) {
			/* It is being written, or was overwritten; one whose writer stands still for half a round is given up. */
			if (state_ring_next(ring) - *next <= STATE_RING_ENTRIES / 2)
				return false;
			++*lost;
			++*next;
			continue;
		}
		entry->native_id = (uint32_t)(what >> 8);
		entry->event = (uint8_t)what;
		++*next;
		return true;
	}
}
