#ifndef RBPROBE_SINK_JSON_THREADS_H
#define RBPROBE_SINK_JSON_THREADS_H

#include "tracer/stream/sink.h"

/* What threads do, as lines of JSON: functions of sink_json's. */
void json_thread(struct sink *sink, struct stream *stream, const struct thread_span *span);
void json_threads_lost(struct sink *sink, struct stream *stream, const struct threads_gap *gap);

#endif
