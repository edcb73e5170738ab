#ifndef RBPROBE_NEAREST_H
#define RBPROBE_NEAREST_H

#include <stddef.h>

/* Of several names, the one that was probably meant by what was written: a third of its letters may be wrong. */
struct nearest {
	const char *found; /* NULL: none is near */
	/* private */
	const char *written;
	size_t size;
	unsigned distance;
};

/* What was written stays where it is. */
void nearest_begin(struct nearest *nearest, const char *written, size_t size);
void nearest_consider(struct nearest *nearest, const char *name);

#endif
