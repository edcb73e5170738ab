#ifndef RBPROBE_SLICE_SET_H
#define RBPROBE_SLICE_SET_H

#include "proto/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* A set of texts, which belong to somebody else and stay where they are. Knows nothing of Ruby. Zeroed it is empty. */
struct slice_set {
	struct slice *places; /* owned; bytes NULL: free */
	uint32_t size;        /* a power of two */
	uint32_t count;
};

/* False without memory: then nothing has changed. */
bool slice_set_add(struct slice_set *set, struct slice text);
bool slice_set_has(const struct slice_set *set, struct slice text);
void slice_set_free(struct slice_set *set);

#endif
