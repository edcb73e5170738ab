#ifndef RBPROBE_DECODE_H
#define RBPROBE_DECODE_H

#include "calls.h"

#include "proto/error.h"
#include "proto/record.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The bytes of one target's socket become records. Those that are of calls go to the sink by way of calls.c, everything else
 * goes to the stream's owner.
 */

struct sink;

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
};

struct stream {
	pid_t pid;
	struct sink *sink; /* NULL: events are refused */
	struct call_limit *limit;
	const struct stream_handler *handler;
	void *owner;
	int64_t wall_offset_ns; /* wall clock = the target's monotonic clock + this */
	uint64_t calls;         /* begun and given to the sink */
	uint64_t lost;          /* calls, by the LOST records so far */
	uint64_t open_left_out; /* calls that were still open, and are not shown, as there were too many */
	uint32_t fiber_count;
	struct fiber *shown_fiber; /* the sink's: the one whose lines were printed last */
	bool ended;                /* END has come */
	bool takes_descriptors;    /* set by the owner, where records with descriptors were asked for */

	/* private */
	uint8_t *bytes; /* received and not decoded yet: [begin, end) */
	size_t begin, end;
	int descriptors[4]; /* received and not taken yet, oldest first; -1: none */
	msgpack_zone zone;
	struct ref_table methods;
	struct ref_table fibers;
	struct fiber *last_fiber;
	uint64_t memory;   /* bytes that methods, fibers and open calls take */
	uint64_t sweep_at; /* of these, when replaced methods are looked for that nobody needs */
	uint64_t answered; /* bytes of DATA since the last DONE */
};

/* A target that makes us remember more is none that speaks the truth: a million methods take some 500 MiB. */
#define STREAM_MEMORY_MAX (512ull << 20)
#define STREAM_ANSWER_MAX (64ull << 20)

struct stream *stream_new(pid_t pid, struct sink *sink, struct call_limit *limit, const struct stream_handler *handler,
                          void *owner);
void stream_free(struct stream *stream);

/*
 * Reads what the descriptor has, once, and decodes it. Returns 1 (more may be there), 0 (nothing now), -ENODATA at the end of
 * the stream, -EPROTO and others with err.
 */
int stream_read(struct stream *stream, int fd, struct error *err);

/* Closes one that is not what was announced: a socket may be one whose closing waits. */
void stream_drop_descriptor(int descriptor);

/* The oldest descriptor that came with the records so far; the caller's to close. -1: none. */
int stream_take_descriptor(struct stream *stream);

#endif
