#ifndef RBPROBE_SINK_OTLP_H
#define RBPROBE_SINK_OTLP_H

#include "tracer/stream/sink.h"

/*
 * Calls as spans of OpenTelemetry: a trace for each outermost call of a fiber, in which every other one has the call around it as
 * its parent. What else happens (exceptions, --gc, lines) are events of the innermost span, or spans of their own outside of all.
 */

extern const struct sink_ops sink_otlp;

struct otlp_manner {
	/* Takes the bytes of a request away, a TracesData with so many spans. */
	void (*give)(void *owner, struct buffer *request, uint64_t spans);
	/* Once in a while: looks whether that goes well. May set output->status, which ends the run. */
	void (*look)(void *owner, struct output *output);
	void *owner;
};

struct sink *sink_otlp_new(struct output *output, const struct sink_style *style, const struct otlp_manner *manner);

/*
 * Which process a stream is of, before its first event. resource: packed; its bytes are taken away. Of a
 * live one the sink finds out itself.
 */
void sink_otlp_process(struct sink *sink, const struct stream *stream, struct buffer *resource);

#endif
