#ifndef RBPROBE_HEAP_BIGGEST_H
#define RBPROBE_HEAP_BIGGEST_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The largest objects of those that were offered. Equal ones are ordered by their address, so that the result does not
 * depend on the file's order.
 */

struct heap_object {
	uint64_t address;
	uint64_t memsize;
	uint64_t size; /* bytes of a string, elements of an array or hash */
	bool has_size;
	/* Numbers in the summary that the object was counted in; HEAP_TABLE_NONE: none. */
	uint32_t type;
	uint32_t kind;
	uint32_t site;
};

struct heap_biggest {
	struct heap_object *items; /* a heap: the smallest first */
	uint32_t count;
	uint32_t limit; /* set once, at least 1 */
};

/* Whether an object of this size and address would be taken. */
bool heap_biggest_wants(const struct heap_biggest *biggest, uint64_t memsize, uint64_t address);
void heap_biggest_add(struct heap_biggest *biggest, const struct heap_object *object);
/* The largest first; then nothing may be added any more. */
void heap_biggest_sort(struct heap_biggest *biggest);
void heap_biggest_free(struct heap_biggest *biggest);

#endif
