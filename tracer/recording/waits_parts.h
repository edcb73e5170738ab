#ifndef RBPROBE_WAITS_PARTS_H
#define RBPROBE_WAITS_PARTS_H

#include "tracer/recording/waits.h"
#include "tracer/recording/words.h"

/* What waits.c and waits_explain.c share. */

struct waits_thread {
	uint32_t native_id; /* 0: not known */
	bool shared;        /* with other threads */
	char *name;
	uint64_t ns[THREAD_DOINGS], waits, longest_ns;
};

struct waits_span {
	uint64_t from_ns, to_ns;
	uint32_t number; /* of the thread */
	enum thread_doing doing;
};

/* A call that may have held the GVL. */
struct waits_held {
	uint64_t from_ns, to_ns;
	uint32_t native_id, name;
};

struct waits_process {
	const struct stream *stream; /* NULL: it is over */
	pid_t pid;
	uint32_t rate_hz;             /* so often its threads were looked at; 0: the VM told what they do */
	struct waits_thread *threads; /* by number */
	uint32_t thread_count, thread_room;
	struct waits_span *spans; /* in the order in which they ended */
	uint32_t span_count, span_room;
	struct waits_held *calls;
	uint32_t call_count, call_room;
};

struct waits {
	struct waits_process *processes;
	uint32_t count;
	struct words words;
	uint64_t memory, lost, left_out;
};

/* By the names that they have by now. */
void waits_name_threads(const struct waits_process *process);
/* Its stretches of time and its calls. */
void waits_drop_spans(struct waits *waits, struct waits_process *process);

/* "running_ns" and so on: what a thread did, THREAD_DOINGS numbers, as members of the object that is open. */
void waits_add_json(const uint64_t *ns, struct buffer *to);
/* "sampled_hz", where that is so. */
void waits_add_rate_json(const struct waits_process *process, struct buffer *to);

#endif
