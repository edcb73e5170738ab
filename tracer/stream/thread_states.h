#ifndef RBPROBE_THREAD_STATES_H
#define RBPROBE_THREAD_STATES_H

#include "tracer/stream/stream.h"

#include "proto/record.h"

/*
 * What the threads of a process do, from the changes that it tells: each change ends a span, which goes to the stream's sink. Of
 * a thread that was there before, the first change says what it did until then, since the first change of any thread. Where
 * changes were lost, spans end at the last one that is known, and others begin after the gap. Where threads were looked at from
 * time to time (stream->states_rate_hz), each is known from the first look on, and a change is what another look finds.
 */

enum thread_doing {
	THREAD_RUNS,    /* it has the GVL */
	THREAD_WAITS,   /* for the GVL */
	THREAD_BLOCKED, /* it does without, in what is not known: one of the next four, or C code that has released it */
	THREAD_IO,      /* in input or output */
	THREAD_SLEEPS,
	THREAD_LOCKED,  /* until another thread does something: a lock, a queue, its end */
	THREAD_PROCESS, /* until a child process ends */
	THREAD_GC,      /* it collects garbage, with the GVL */
	THREAD_DOINGS,
};

struct thread_span {
	uint32_t number;    /* of the thread, in its process; never used again */
	uint32_t native_id; /* 0: not known yet */
	bool first;         /* its first one, or the first since its name is known */
	bool shared;        /* several threads share the native one, so that it does not tell which one it is */
	enum thread_doing doing;
	uint64_t from_ns, to_ns; /* of the target's monotonic clock */
};

/* What is not known of all threads of a process. */
struct threads_gap {
	uint64_t changes;        /* so many were lost */
	uint64_t from_ns, to_ns; /* of the target's monotonic clock: the last change before it, the first after; 0: unknown */
};

/* "running", "waiting for the GVL", "blocked", "I/O", "sleeping", "waiting for a thread", "waiting for a process", "GC" */
const char *thread_doing_name(enum thread_doing doing);
/* "running", "waiting", "blocked", "io", "sleeping", "thread", "process", "gc" */
const char *thread_doing_word(enum thread_doing doing);

/* A fiber is described, perhaps one of a thread whose name nobody knew. */
void thread_states_fiber(struct stream *stream, const struct record_fiber *fiber);
/* A record; 0, or negative with err. */
int thread_states_note(struct stream *stream, const struct record_states *states, struct error *err);
/* Nothing more comes: what threads do still ends with the last change of any. */
void thread_states_finish(struct stream *stream);
void thread_states_free(struct stream *stream);

/*
 * Adds the thread's name, if its fiber has been told of, also where that is gone by now; or "thread 4711". Where threads share
 * native ones (RUBY_MN_THREADS=1), "one of native thread 4711".
 */
void thread_states_add_name(const struct stream *stream, uint32_t native_id, struct buffer *to);
/* What the track of its states is called: "hog: state", "hog: state, sampled at 1000 Hz". */
void thread_states_add_track(const struct stream *stream, uint32_t native_id, struct buffer *to);

#endif
