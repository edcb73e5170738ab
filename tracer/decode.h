#ifndef RBPROBE_DECODE_H
#define RBPROBE_DECODE_H

#include "buffer.h"

#include "proto/error.h"
#include "proto/record.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The bytes of one target's socket become calls. A stream knows the methods and fibers that were announced, and which
 * calls are open in each fiber: so it gives every event its method, depth and duration. Events go straight to a sink,
 * everything else to the stream's owner. Nothing is allocated per event.
 */

struct sink;
struct stream;

struct method {
	uint32_t ref;
	struct slice class_name;
	char separator;
	struct slice method_name;
	struct slice file; /* {NULL, 0}: not written in Ruby */
	uint32_t line;
	enum engine_id engine;
	uint32_t label_count;
	struct slice *labels;
	struct slice shown;         /* "Class#name", printable */
	struct slice *shown_labels; /* printable */
	struct buffer prepared;     /* the sink's: what it writes of the method each time */
	struct method *replaced;    /* by this one; open calls may still point to it */
};

/* A call that has begun and not ended. */
struct call {
	struct method *method;
	uint64_t start_ns; /* of the target's monotonic clock */
	size_t kept;       /* where in the fiber's `kept` this call's part begins */
	bool held;         /* the sink's: not shown yet */
	bool skipped;      /* beyond --count: not the sink's business */
};

/* Times of one session never go backwards; a target that breaks this gets no huge durations shown. */
static inline uint64_t call_duration_ns(const struct call *call, const struct event *end)
{
	return end->time_ns > call->start_ns ? end->time_ns - call->start_ns : 0;
}

struct fiber {
	struct stream *stream;
	uint32_t ref;
	uint64_t thread_id;
	uint32_t native_id;
	struct slice thread_name;
	struct slice created_at; /* "file:line" of a fiber that is not its thread's own */
	bool root;
	struct call *calls;
	uint32_t depth; /* open calls */
	uint32_t capacity;
	struct buffer kept;     /* the sink's: what it needs of the open calls until they end */
	struct buffer prepared; /* the sink's: what it writes of the fiber each time; emptied when the fiber is described anew */
	struct fiber *held_before, *held_after; /* the sink's: fibers with a call that is held back */
};

/* --count: over all streams of a run. */
struct call_limit {
	bool limited;
	uint64_t left; /* calls that may still begin */
	uint64_t open; /* begun and not ended */
};

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
};

/* Numbers to things, in pages: a target may use large numbers without making us allocate everything below them. */
#define REF_PAGES 4096u
#define REFS_PER_PAGE 4096u

struct ref_table {
	void **pages[REF_PAGES];
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
	uint32_t fiber_count;
	struct fiber *shown_fiber; /* the sink's: the one whose lines were printed last */
	bool ended;                /* END has come */

	/* private */
	uint8_t *bytes; /* received and not decoded yet: [begin, end) */
	size_t begin, end;
	int descriptors[4]; /* received and not taken yet, oldest first; -1: none */
	msgpack_zone zone;
	struct ref_table methods;
	struct ref_table fibers;
	struct fiber *last_fiber;
};

struct stream *stream_new(pid_t pid, struct sink *sink, struct call_limit *limit, const struct stream_handler *handler,
                          void *owner);
void stream_free(struct stream *stream);

/*
 * Reads what the descriptor has, once, and decodes it. Returns 1 (more may be there), 0 (nothing now), -ENODATA at the end of
 * the stream, -EPROTO and others with err.
 */
int stream_read(struct stream *stream, int fd, struct error *err);

/* The oldest descriptor that came with the records so far; the caller's to close. -1: none. */
int stream_take_descriptor(struct stream *stream);

/* Gives the calls that are still open to the sink, as such. Once, when the stream is over. */
void stream_finish(struct stream *stream);

#endif
