#ifndef RBPROBE_SINK_RECORD_H
#define RBPROBE_SINK_RECORD_H

#include "tracer/recording/recording.h"
#include "tracer/stream/sink.h"

/* The sink of `rbprobe record`: what processes send is kept as it came, and shown by `rbprobe replay`. */

extern const struct sink_ops sink_record;

/*
 * The recording begins when the first process has been reached. head: without times, programs and hosts, which are filled in; its
 * selectors outlive the sink.
 */
struct sink *sink_record_new(struct output *output, const struct sink_style *style, const struct recording_head *head);
/* Writes what is left. sink_free() frees it. */
void sink_record_end(struct sink *sink);

#endif
