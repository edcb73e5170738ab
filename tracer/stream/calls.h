#ifndef RBPROBE_CALLS_H
#define RBPROBE_CALLS_H

#include "tracer/stream/stream.h"

#include "proto/error.h"
#include "proto/record.h"

/*
 * The records of events become calls. It is known which methods and fibers were announced, and which calls are open in each
 * fiber: so every event gets its method, depth and duration, and goes to the stream's sink. Nothing is allocated per event.
 */

/* A record each. 0, or negative with err where the target breaks the protocol. */
int calls_method(struct stream *stream, const struct record_method *record, struct error *err);
int calls_fiber(struct stream *stream, const struct record_fiber *record, struct error *err);
int calls_fiber_gone(struct stream *stream, const struct record_fiber_gone *record, struct error *err);
int calls_retried(struct stream *stream, const struct record_retried *record, struct error *err);
int calls_events(struct stream *stream, struct record_events *events, struct error *err);

/* Gives the calls that are still open to the sink, as such. Once, when the stream is over. */
void calls_finish(struct stream *stream);

/* The method of that number, or NULL. */
const struct method *calls_method_of(const struct stream *stream, uint32_t ref);

/* Visits all fibers that are known. */
void calls_each_fiber(const struct stream *stream, void (*visit)(const struct fiber *fiber, void *owner), void *owner);

/* What a stream knows of methods and fibers. */
void calls_free(struct stream *stream);

#endif
