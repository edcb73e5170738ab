#ifndef RBPROBE_TARGET_COPY_H
#define RBPROBE_TARGET_COPY_H

#include "tracer/process/target.h"

#include <stdbool.h>
#include <sys/types.h>

/* The copies that the extension makes of processes, as /proc shows them: they have given themselves names. */

enum copy_role {
	COPY_NONE,    /* it is no copy */
	COPY_HELPING, /* writes a dump, or waits for another copy to end: of no interest */
	COPY_FROZEN,  /* of `rbprobe fork` */
};

enum copy_role copy_role_of(pid_t pid);

/*
 * The frozen copy of this target that says it has own_pid in the target's PID namespace, as it is seen from here. Somebody
 * will kill it: so it is one only if its parent's parent is the target, both have the target's user and group, and it began
 * after start_ticks (since boot). 0: there is none, not even a moment later.
 */
pid_t target_frozen_copy(const struct target *target, pid_t own_pid, uint64_t start_ticks);

/* The time now in the unit of target->start_ticks. */
uint64_t target_ticks_now(void);

#endif
