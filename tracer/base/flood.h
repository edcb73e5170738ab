#ifndef RBPROBE_FLOOD_H
#define RBPROBE_FLOOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Lines that differ in names and numbers alone, such as one for each method or worker: the first ones are let through, the others
 * counted.
 */

#define FLOOD_MAX 20u   /* lines of a kind that are let through */
#define FLOOD_KINDS 64u /* of others each line is let through */
#define FLOOD_TEXT 120u /* of the first one, by which the others are called */

struct flood {
	struct flood_kind {
		uint64_t key;
		uint64_t count;
		char first[FLOOD_TEXT];
	} kinds[FLOOD_KINDS];
	size_t used;
};

/* The number of this line among those of its kind, from 1 on; 0: more kinds than are told apart. */
uint64_t flood_count(struct flood *flood, const char *text);

#endif
