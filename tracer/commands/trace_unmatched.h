#ifndef RBPROBE_TRACE_UNMATCHED_H
#define RBPROBE_TRACE_UNMATCHED_H

struct trace_target;

/* Names the tracers that fit nothing of a process yet, when its methods are armed. Selectors are named by the process. */
void trace_unmatched_at_start(const struct trace_target *traced);
/* Names the selectors and tracers that have waited in vain. */
void trace_unmatched_at_end(const struct trace_target *traced);

#endif
