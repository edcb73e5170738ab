#ifndef RBPROBE_TRACER_STREAM_H
#define RBPROBE_TRACER_STREAM_H

#include "tracer/base/buffer.h"

#include "proto/marks.h"
#include "proto/record.h"
#include "proto/slice.h"
#include "proto/wire.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What is known of one target's stream: its methods, fibers and open calls. decode.c reads records from its socket,
 * calls.c makes calls of those that are about calls and gives them to a sink, which shows them. Each of these uses
 * those after it, and this.
 */

struct caller;
struct sink;
struct stream_handler;
struct text_part;
struct thread_states;

/* What values are called. */
struct labels {
	uint32_t count;
	struct slice *names;
	struct slice *shown; /* printable */
};

struct method {
	uint32_t ref;
	struct slice class_name;
	char separator;
	struct slice method_name;
	struct slice file; /* {NULL, 0}: not written in Ruby */
	int32_t line;
	enum engine_id engine;
	const struct mark_form *mark; /* NULL: a method; else its events are such marks, of */
	uint32_t mark_kind;           /* enum mark_kind */
	struct labels labels;         /* of what comes with a start, a mark or a line */
	struct labels locals;         /* of the local variables that come with an end */
	bool is_line;                 /* of a line: its events are no calls */
	bool always;                  /* its calls are shown whether they are slow or not */
	struct slice shown;           /* "Class#name", of a line its place; printable */
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
	uint16_t truths;   /* the sink's: of which triggers the expression was true (trigger.h) */
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
	struct buffer kept;     /* the sink's: what it needs of the open calls, and of those that have ended */
	struct buffer prepared; /* the sink's: what it writes of the fiber each time; emptied when the fiber is described anew */
	struct fiber *held_before, *held_after; /* the sink's: fibers with a call that is held back */
	struct text_part *part;                 /* the sink's: its lines that wait; NULL: none do */
	bool parted; /* the sink's: some lines of its outermost call were shown, and more will come later */
};

/* --count: over all streams of a run. */
struct call_limit {
	bool limited;
	bool whole_trees; /* what happens inside a call that is shown is shown in any case */
	uint64_t left;    /* calls that may still begin */
	uint64_t open;    /* begun and not ended */
};

/* Numbers to things, in pages: a target may use large numbers without making us allocate everything below them. */
#define REF_PAGES 4096u
#define REFS_PER_PAGE 4096u

struct ref_table {
	void **pages[REF_PAGES];
};

struct stream {
	pid_t pid;
	uint32_t main_native_id; /* of its main thread, as the process sees it; set by the owner; 0: not known */
	struct sink *sink;       /* NULL: events are refused */
	struct call_limit *limit;
	const struct stream_handler *handler;
	void *owner;
	int64_t wall_offset_ns;     /* wall clock = the target's monotonic clock + this */
	uint64_t calls;             /* begun and given to the sink */
	uint64_t lines;             /* the same of events of lines */
	uint64_t marks[MARK_COUNT]; /* given to the sink, by kind */
	uint64_t lost;              /* calls, by the LOST records so far */
	uint64_t states_lost;       /* changes of what threads do */
	uint64_t open_left_out;     /* calls that were still open, and are not shown, as there were too many */
	uint64_t counted_ns;        /* figures came, which have been counted for so long; 0: none came */
	uint32_t fiber_count;
	struct fiber *shown_fiber; /* the sink's: the one whose lines were printed last */
	bool ended;                /* END has come */
	bool takes_descriptors;    /* set by the owner, where records with descriptors were asked for */

	struct thread_states *threads; /* thread_states.h; NULL: nothing is known */
	uint32_t states_rate_hz;       /* so often a second threads were looked at; 0: the VM told what they do */

	struct caller **callers; /* callers.h; by their numbers, from 1 on */
	uint32_t caller_count, caller_room;

	/* private */
	uint8_t *bytes; /* received and not decoded yet: [begin, end) */
	size_t begin, end;
	int descriptors[4]; /* received and not taken yet, oldest first; -1: none */
	msgpack_zone zone;
	struct ref_table methods;
	struct ref_table fibers;
	struct fiber *last_fiber;
	uint64_t memory;   /* bytes that methods, fibers, the tables of both and open calls take */
	uint64_t sweep_at; /* of these, when replaced methods are looked for that nobody needs */
	uint64_t answered; /* bytes of DATA since the last DONE */
};

/* A target that makes us remember more is none that speaks the truth: a million methods take some 500 MiB. */
#define STREAM_MEMORY_MAX (512ull << 20)
#define STREAM_ANSWER_MAX (64ull << 20)

#endif
