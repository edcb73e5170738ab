#ifndef RBPROBE_ARMING_H
#define RBPROBE_ARMING_H

#include <ruby.h>

#include <stdbool.h>

/*
 * rb_protect, during which methods are armed, or the VM is tried out: what is called on the way is not shown to any session. Job
 * context.
 */
VALUE arming_protect(VALUE (*run)(VALUE), VALUE argument, int *failed);

/*
 * Whether this thread does that now: the methods that are defined on the way are our own, to find out about the VM or to hold
 * expressions. GVL, any context.
 */
bool arming_is_under_way(void);

/* In a forked child there are no other threads that do. Async-signal-safe. */
void arming_fork_child(void);

#endif
