#ifndef RBPROBE_TRACE_SUMMARY_H
#define RBPROBE_TRACE_SUMMARY_H

#include "tracer/commands/trace_target.h"

/* One line a process on what was seen, for the sink and for standard error. */
void trace_summary_say(struct trace_target *traced, const char *reason, uint64_t duration_ns);

/* Sums over all events of a kind. */
void trace_summary_totals(struct trace_target *traced, const struct record_totals *totals);

#endif
