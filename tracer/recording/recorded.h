#ifndef RBPROBE_RECORDED_H
#define RBPROBE_RECORDED_H

#include "tracer/recording/words.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * The processes of a recording, and for how long each was recorded: one may be in it several times, one after the other, by
 * `record --append`, or as another program after an exec. A zeroed one is empty.
 */
struct recorded {
	struct words pids;
	uint64_t *times_ns; /* by number */
	uint32_t room;
	uint32_t others; /* that are not remembered: there are too many */
	uint64_t longest_ns;
};

/* Of a file that lies. */
#define RECORDED_MEMORY_MAX (16u << 20)

void recorded_add(struct recorded *recorded, pid_t pid, uint64_t duration_ns);
uint32_t recorded_count(const struct recorded *recorded);
/* The only one; 0: there are several, or none. */
pid_t recorded_pid(const struct recorded *recorded);
void recorded_free(struct recorded *recorded);

#endif
