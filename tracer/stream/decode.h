#ifndef RBPROBE_DECODE_H
#define RBPROBE_DECODE_H

#include "tracer/stream/stream.h"

#include "proto/error.h"
#include "proto/record.h"

#include <stdint.h>
#include <sys/types.h>

/*
 * The bytes of one target's socket become records. Those that are of calls go to the sink by way of calls.c, everything else
 * goes to the stream's owner.
 */

/* What is not an event. A negative result with err ends the stream. Any may be NULL. */
struct stream_handler {
	int (*hello)(void *owner, const struct record_hello *hello, struct error *err);
	int (*reply)(void *owner, const struct record_reply *reply, struct error *err);
	int (*note)(void *owner, const struct record_note *note, struct error *err);
	int (*match)(void *owner, const struct record_match *match, struct error *err);
	int (*end)(void *owner, const struct record_end *end, struct error *err);
	int (*output)(void *owner, const struct record_output *output, struct error *err);
	int (*data)(void *owner, const struct record_data *data, struct error *err);
	int (*done)(void *owner, const struct record_done *done, struct error *err);
	int (*found)(void *owner, const struct record_found *found, struct error *err);
	int (*totals)(void *owner, const struct record_totals *totals, struct error *err);
};

struct stream *stream_new(pid_t pid, struct sink *sink, struct call_limit *limit, const struct stream_handler *handler,
                          void *owner);
void stream_free(struct stream *stream);

/*
 * Reads what the descriptor has, once, and decodes it. Returns 1 (more may be there), 0 (nothing now), -ENODATA at the end of
 * the stream, -EPROTO and others with err.
 */
int stream_read(struct stream *stream, int fd, struct error *err);

/* The same with bytes that were kept. 0, or negative with err. */
int stream_feed(struct stream *stream, const void *bytes, size_t size, struct error *err);

/* Closes one that is not what was announced: a socket may be one whose closing waits. */
void stream_drop_descriptor(int descriptor);

/* The oldest descriptor that came with the records so far; the caller's to close. -1: none. */
int stream_take_descriptor(struct stream *stream);

#endif
