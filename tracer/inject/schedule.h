#ifndef RBPROBE_SCHEDULE_H
#define RBPROBE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Who is given a processor. While rbprobe holds a thread still, both take turns: on a busy machine they would wait longer for
 * a processor, each time, than they then need it. So both go ahead of everybody else meanwhile, where that is permitted (to
 * root), and what they wait nevertheless is counted.
 */

/* The kernel's struct sched_attr, first version. */
struct schedule_place {
	uint32_t size;
	uint32_t policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* Our own is the higher one: what the thread does may be hostile, and we are who ends it. */
enum schedule_precedence {
	SCHEDULE_THEIRS = 1,
	SCHEDULE_OURS = 2,
};

/*
 * Puts a thread (0: the calling one) ahead of all that have no real-time priority; threads that it starts meanwhile begin as
 * others do. True, and the place that it had: schedule_back() is due. False: not permitted, or it is ahead already; nothing
 * has changed.
 */
bool schedule_first(pid_t thread, enum schedule_precedence precedence, struct schedule_place *place);
void schedule_back(pid_t thread, const struct schedule_place *place);

/* What the kernel counts for a thread; a descriptor, or -1 where it does not. */
int schedule_open(pid_t thread);
/* How long the thread has been ready to run and had no processor, in ns since it began; 0 where that is not counted. */
uint64_t schedule_waited_ns(int descriptor);

#endif
