#ifndef RBPROBE_HEAP_OWN_H
#define RBPROBE_HEAP_OWN_H

#include "tracer/heap/heap_line.h"

#include <stddef.h>

/*
 * Which objects of a dump are rbprobe's: those that the root "rbprobe" refers to, which `rbprobe heap dump` writes as
 * the first line. A zeroed struct has none.
 */
struct heap_own {
	uint64_t *addresses; /* 0: free */
	size_t capacity;     /* a power of two, or 0 */
	size_t count;
};

/* Takes the references of that root; other lines do nothing. */
void heap_own_learn(struct heap_own *own, const struct heap_line *line);
bool heap_own_has(const struct heap_own *own, const struct heap_line *line);
void heap_own_free(struct heap_own *own);

#endif
