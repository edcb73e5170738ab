#ifndef RBPROBE_TRACE_WORKERS_H
#define RBPROBE_TRACE_WORKERS_H

#include "tracer/commands/trace_target.h"

#include <stdint.h>

/*
 * A process that only forks workers, as Puma's master does, makes none of the calls that its workers make. Where a trace of it
 * has seen nothing, its children that are Ruby are named. Of one that forks while it is traced, as those do that have a child for
 * each job, that is said.
 */

/* When that is to be looked for while the trace goes on; UINT64_MAX: no more. */
uint64_t trace_workers_wake_ns(const struct trace_target *traced);
/* Looks, if it is time. */
void trace_workers_step(struct trace_target *traced, uint64_t now_ns);
/* At the end of the trace. */
void trace_workers_finish(struct trace_target *traced);

#endif
