#ifndef RBPROBE_HELD_UP_H
#define RBPROBE_HELD_UP_H

#include "tracer/backtrace/backtrace_report.h"

/*
 * What is no circle, and yet may last for ever, since nobody owns a Queue or a ConditionVariable:
 * - threads that wait for a lock whose owner waits to be woken through one of these;
 * - all threads of the process wait without a limit, so that none can wake another.
 * Both are facts of the moment. Who is to push or to signal is not known, and not said.
 */

/* For people, and as JSON lines. */
void held_up_write(const struct report *report, struct buffer *out);

#endif
