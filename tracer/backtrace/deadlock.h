#ifndef RBPROBE_DEADLOCK_H
#define RBPROBE_DEADLOCK_H

#include "tracer/backtrace/backtrace_report.h"

/*
 * Threads that wait for each other in a circle, and so for ever: for a Mutex or Monitor that another one holds, or for another
 * one to end (Thread#join, Thread#value). Which thread it is that one waits for is the target's word; the
 * circle is only real if all of them were looked at in one moment, as they are.
 */

/* Calls `each` for every circle: numbers of stacks, each waiting for the next one and the last for the first. */
void deadlocks_find(const struct report *report, void (*each)(void *context, const size_t *circle, size_t count), void *context);

/* For people, and as JSON lines. */
void deadlocks_write(const struct report *report, struct buffer *out);

#endif
