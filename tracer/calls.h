#ifndef RBPROBE_CALLS_H
#define RBPROBE_CALLS_H

#include "buffer.h"

#include "proto/error.h"
#include "proto/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The records of events become calls. It is known which methods and fibers were announced, and which calls are open in each
 * fiber: so every event gets its method, depth and duration, and goes to the stream's sink. Nothing is allocated per event.
 */

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
	struct buffer prepared;  /* the sink's, which counts it in the stream's memory: what it writes of the method each time */
	struct method *replaced; /* by this one; open calls may still point to it */
	bool is_open;            /* by one that does; for the sweep alone */
};

/* A call that has begun and not ended. */
struct call {
	struct method *method;
	uint64_t start_ns; /* of the target's monotonic clock */
	size_t kept;       /* where in the fiber's `kept` this call's part begins */
	uint32_t retries;  /* how often it was begun anew, in its own frame; known when it ends */
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
	uint64_t counted;       /* bytes of open calls that are in the stream's `memory` */
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

/* Numbers to things, in pages: a target may use large numbers without making us allocate everything below them. */
#define REF_PAGES 4096u
#define REFS_PER_PAGE 4096u

struct ref_table {
	void **pages[REF_PAGES];
};

/* A record each. 0, or negative with err where the target breaks the protocol. */
int calls_method(struct stream *stream, const struct record_method *record, struct error *err);
int calls_fiber(struct stream *stream, const struct record_fiber *record, struct error *err);
int calls_fiber_gone(struct stream *stream, const struct record_fiber_gone *record, struct error *err);
int calls_retried(struct stream *stream, const struct record_retried *record, struct error *err);
int calls_events(struct stream *stream, struct record_events *events, struct error *err);

/* Gives the calls that are still open to the sink, as such. Once, when the stream is over. */
void calls_finish(struct stream *stream);

/* What a stream knows of methods and fibers. */
void calls_free(struct stream *stream);

#endif
