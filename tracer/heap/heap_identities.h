#ifndef RBPROBE_HEAP_IDENTITIES_H
#define RBPROBE_HEAP_IDENTITIES_H

#include "tracer/heap/heap_line.h"
#include "tracer/heap/heap_table.h"

#include <stddef.h>

/*
 * Which objects a dump has, to find them again in a later dump of the same process: an object is the same if its
 * address, type and class are, and the GC generation of its allocation, unless the later dump does not know that. The
 * three are kept as a 64-bit hash: 12 bytes an object (with the table's free places 32, for a moment 48, when it has
 * just grown), 16 where sites are kept, too. A zeroed struct is empty.
 */
struct heap_identities {
	bool with_sites;  /* set before the first is added */
	uint64_t *hashes; /* 0: free */
	uint32_t *generations;
	uint32_t *sites; /* NULL: not kept */
	size_t capacity; /* a power of two, or 0 */
	size_t count;
};

/* What a dump says about the allocation of an object. */
struct heap_allocation {
	bool has_generation;
	uint32_t generation;
	uint32_t site; /* a number of the caller's, or HEAP_TABLE_NONE: not recorded, or not kept */
};

void heap_identities_add(struct heap_identities *identities, const struct heap_line *line, uint32_t site);
/* Whether the object is there. Fills *allocation, unless NULL, with what was known when it was added. */
bool heap_identities_find(const struct heap_identities *identities, const struct heap_line *line,
                          struct heap_allocation *allocation);
void heap_identities_free(struct heap_identities *identities);

#endif
