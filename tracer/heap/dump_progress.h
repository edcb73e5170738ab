#ifndef RBPROBE_DUMP_PROGRESS_H
#define RBPROBE_DUMP_PROGRESS_H

#include "tracer/base/buffer.h"
#include "tracer/base/progress_line.h"

#include <stdbool.h>
#include <stdint.h>

/* A line of progress: a bar, and how many objects there are. */
struct dump_progress {
	struct progress_line line;
	uint64_t total;
	uint64_t began_ns;
};

void dump_progress_begin(struct dump_progress *progress, bool wanted, uint64_t total);
/* done: of `total`; bytes: received. Writes now and then. */
void dump_progress_update(struct dump_progress *progress, uint64_t done, uint64_t bytes);
/* Takes the line away. */
void dump_progress_end(struct dump_progress *progress);

/* How many '\n' there are. Some GB/s: the whole of a dump goes through it. */
uint64_t dump_count_lines(const char *bytes, size_t size);

/* "1,234,567" and "12.3 MiB". */
void dump_add_count(struct buffer *buffer, uint64_t count);
void dump_add_size(struct buffer *buffer, uint64_t bytes);

#endif
