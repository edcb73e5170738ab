#ifndef RBPROBE_COUNTER_H
#define RBPROBE_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * How often each of many keys was seen. Knows no Ruby and calls none: a walk over the heap may fill it. A zeroed struct is an
 * empty one. Any context but a signal handler (malloc).
 */
struct counter_entry {
	uintptr_t key; /* 0: free */
	uint64_t count;
};

struct counter {
	struct counter_entry *entries;
	size_t capacity; /* a power of two, or 0 */
	size_t used;
	uint64_t missed; /* seen, but there was no memory for their keys */
};

/* key is not 0. */
void counter_add(struct counter *counter, uintptr_t key);
/* The entries with the highest counts, highest first, into top, which has room for `room`. Returns how many. */
size_t counter_top(const struct counter *counter, struct counter_entry *top, size_t room);
void counter_free(struct counter *counter);

#endif
