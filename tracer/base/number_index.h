#ifndef RBPROBE_NUMBER_INDEX_H
#define RBPROBE_NUMBER_INDEX_H

#include <stddef.h>
#include <stdint.h>

/*
 * From numbers of any size to places in somebody's array. A hash table with open addressing, at most half full. All zero: empty.
 * Ends the program without memory, as buffers do.
 */

#define NUMBER_INDEX_NONE UINT32_MAX

struct number_index {
	struct number_place {
		uint64_t number;
		uint32_t place; /* NUMBER_INDEX_NONE: nothing is here */
	} * places;
	size_t room; /* a power of two */
	uint32_t count;
};

/* NUMBER_INDEX_NONE: it is not in it. */
uint32_t number_index_get(const struct number_index *index, uint64_t number);
/* Adds it, or changes its place, which is not NUMBER_INDEX_NONE. */
void number_index_put(struct number_index *index, uint64_t number, uint32_t place);
void number_index_remove(struct number_index *index, uint64_t number);
/* Empties it; memory stays. */
void number_index_clear(struct number_index *index);
void number_index_free(struct number_index *index);

#endif
