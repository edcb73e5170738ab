#ifndef RBPROBE_WAITS_H
#define RBPROBE_WAITS_H

#include "tracer/stream/sink.h"
#include "tracer/stream/thread_states.h"

/*
 * What threads did (`record --timeline`), kept to say of a call what it waited for: the GVL, which another thread held, and in
 * which of its recorded calls. Memory is bounded: what does not fit is counted, and said.
 */

#define WAITS_MEMORY_MAX (256ull << 20)
#define WAITS_CALL_NS (1000 * 1000) /* shorter calls are not named as those that held the GVL */

struct waits;

/* Ends the program without memory, as buffers do. */
struct waits *waits_new(void);
void waits_free(struct waits *waits);

/* Of a sink: what comes. False: there is no room for it. */
bool waits_span(struct waits *waits, const struct stream *stream, const struct thread_span *span);
void waits_lost(struct waits *waits, uint64_t lost);
void waits_call(struct waits *waits, const struct fiber *fiber, const struct method *method, uint64_t start_ns,
                uint64_t duration_ns);
/* As filter_left's call(), with the waits as owner: a call that is not shown may have held the GVL. */
void waits_call_left(void *waits, const struct stream *stream, const struct fiber *fiber, const struct method *method,
                     uint64_t start_ns, uint64_t duration_ns);
/* Nothing more comes of the process. */
void waits_end(struct waits *waits, pid_t pid);

/* A call that may be explained later. */
struct waits_place {
	uint32_t process, native_id;
	uint64_t start_ns, duration_ns;
};
struct waits_place waits_place(struct waits *waits, const struct fiber *fiber, uint64_t start_ns, uint64_t duration_ns);

/* Whether anything is known of any thread. */
bool waits_any(const struct waits *waits);
/* "waited 0.250000 s of 0.300000 for the GVL, held by hog for 0.240000 s in Work#hog; ran ..." */
void waits_explain(const struct waits *waits, const struct waits_place *place, struct buffer *to);
/* The same as members of the object that is open. */
void waits_explain_json(const struct waits *waits, const struct waits_place *place, struct buffer *to);

/* A row for each thread; or an object a line, of type thread_states. */
void waits_table(const struct waits *waits, bool json, struct buffer *to);
/* Changes that the process lost, and what had no room here. */
uint64_t waits_lost_count(const struct waits *waits);
uint64_t waits_left_out(const struct waits *waits);

/* Who held the GVL during a wait for it. */
struct waits_cause {
	const char *holder; /* NULL: not known, or it is no wait */
	uint64_t held_ns;
	struct slice call; /* of the holder's; "": none is known */
};

struct waits_reader {
	void (*span)(void *owner, const struct stream *stream, const struct thread_span *span, const struct waits_cause *cause);
	void *owner;
};

/* Gives, and forgets, what the threads of a process did, for each thread in the order of time. Its stream is still there. */
void waits_take(struct waits *waits, pid_t pid, const struct waits_reader *reader);

#endif
