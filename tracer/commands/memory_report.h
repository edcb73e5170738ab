#ifndef RBPROBE_MEMORY_REPORT_H
#define RBPROBE_MEMORY_REPORT_H

#include "tracer/base/buffer.h"
#include "tracer/process/process_memory.h"
#include "tracer/process/target.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known about a process's memory at one moment, and showing it. */

struct memory_sample {
	struct process_memory process;
	int64_t wall_ns;
	msgpack_unpacked ruby; /* the target's answer; its `data` is a map */
	msgpack_sbuffer packed;
};

/* Keeps a copy of the answer. memory_sample_free() is for both it and a zeroed one. */
void memory_sample_take(struct memory_sample *sample, const struct target *target, const msgpack_object *answer);
void memory_sample_free(struct memory_sample *sample);

/* How many rows there are at most. */
struct memory_rows {
	size_t sizes, classes; /* sizes of slots; types, and classes */
};

/* One screen. before: the sample before, for the differences, or NULL. width: columns; 0: no limit. */
void memory_report_text(struct buffer *buffer, const struct target *target, const struct memory_sample *sample,
                        const struct memory_sample *before, const struct memory_rows *rows, unsigned width);
/* One line. */
void memory_report_json(struct buffer *buffer, const struct target *target, const struct memory_sample *sample);

#endif
