#ifndef RBPROBE_SLICE_H
#define RBPROBE_SLICE_H

#include <stddef.h>

/* Bytes that somebody else owns, not NUL-terminated. */
struct slice {
	const char *bytes;
	size_t size;
};

/* The last part of a path. */
static inline struct slice slice_file_name(struct slice path)
{
	size_t from = path.size;

	while (from && path.bytes[from - 1] != '/')
		from--;
	return (struct slice){path.bytes + from, path.size - from};
}

#endif
