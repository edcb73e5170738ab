#ifndef RBPROBE_TRACE_PERMISSION_H
#define RBPROBE_TRACE_PERMISSION_H

#include "target.h"

#include "proto/error.h"

#include <stdbool.h>

/*
 * Why the kernel does not let us trace a process: it just says EPERM for half a dozen reasons. Fills err with the one that applies and its
 * remedy, and returns a negative code. `code` is what ptrace gave.
 */
int trace_permission_explain(const struct target *target, int code, struct error *err);

/* Whether only another rbprobe is in the way, which will be gone in a moment. */
bool trace_permission_waits_for_us(const struct target *target);

/* The same in a word or two, before trying. NULL: nothing is known to be in the way. */
const char *trace_permission_obstacle(const struct target *target);

#endif
