#ifndef RBPROBE_SLICE_H
#define RBPROBE_SLICE_H

#include <stddef.h>

/* Bytes that somebody else owns, not NUL-terminated. */
struct slice {
	const char *bytes;
	size_t size;
};

#endif
