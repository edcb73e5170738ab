#ifndef RBPROBE_HEAP_IDENTITIES_H
#define RBPROBE_HEAP_IDENTITIES_H

#include "heap_line.h"

#include <stddef.h>

/*
 * Which objects a dump has, to find them again in a later dump of the same process: an object is the same if its address, type and class
 * are, and the GC generation of its allocation, unless the later dump does not know that. The three are kept as a 64-bit hash: 12 bytes an
 * object (with the table's free places 32, for a moment 48, when it has just grown). A zeroed struct is empty.
 */
struct heap_identities {
	uint64_t *hashes; /* 0: free */
	uint32_t *generations;
	size_t capacity; /* a power of two, or 0 */
	size_t count;
};

void heap_identities_add(struct heap_identities *identities, const struct heap_line *line);
bool heap_identities_have(const struct heap_identities *identities, const struct heap_line *line);
void heap_identities_free(struct heap_identities *identities);

#endif
