#ifndef RBPROBE_TRACE_SPANS_H
#define RBPROBE_TRACE_SPANS_H

#include "tracer/commands/otlp_run.h"
#include "tracer/commands/trace_files.h"

/* A live trace whose calls go to --otlp, of `rbprobe trace` and `rbprobe exec`. */

struct trace_spans {
	const struct options *options;
	struct otlp_run run;
	struct sink_maker maker;
};

/* What --otlp needs is there, and what cannot go with it is not. 0, or an exit status after a line on stderr. */
int trace_spans_check(const struct options *options);
/* The same return. Without --otlp nothing is opened. spans stays where it is until it is closed. */
int trace_spans_open(struct trace_spans *spans, struct options *options);
/* For trace_loop(); NULL without --otlp: the sinks are those of --format. */
const struct sink_maker *trace_spans_maker(const struct trace_spans *spans);
/* As otlp_run_close(). */
int trace_spans_close(struct trace_spans *spans, int signals, int status);

#endif
