#ifndef RBPROBE_MEMORY_REPORT_H
#define RBPROBE_MEMORY_REPORT_H

#include "buffer.h"
#include "target.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is known about a process's memory at one moment, and showing it. */

/* From /proc, in bytes. */
struct process_memory {
	bool known; /* false: /proc could not be read */
	uint64_t resident;
	uint64_t proportional; /* shared pages divided by those who share them */
	uint64_t private_dirty;
	uint64_t swapped;
};

struct memory_sample {
	struct process_memory process;
	int64_t wall_ns;
	msgpack_unpacked ruby; /* the target's answer; its `data` is a map */
	msgpack_sbuffer packed;
};

/* Reads /proc/PID/smaps_rollup, or statm where that may not be read or the kernel has none. */
void process_memory_read(struct process_memory *memory, pid_t pid);

/* Keeps a copy of the answer. memory_sample_free() is for both it and a zeroed one. */
void memory_sample_take(struct memory_sample *sample, const struct target *target, const msgpack_object *answer);
void memory_sample_free(struct memory_sample *sample);

/* One screen. before: the sample before, for the differences, or NULL. top: how many classes. */
void memory_report_text(struct buffer *buffer, const struct target *target, const struct memory_sample *sample,
                        const struct memory_sample *before, size_t top);
/* One line. */
void memory_report_json(struct buffer *buffer, const struct target *target, const struct memory_sample *sample);

#endif
