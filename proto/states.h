#ifndef RBPROBE_STATES_H
#define RBPROBE_STATES_H

#include "proto/fields.h"
#include "proto/wire.h"

#include <msgpack.h>
#include <stdint.h>

/* What threads do, on the wire; PROTOCOL.md, "STATES". */

enum state_event {
	STATE_STARTED = 0,
	STATE_WAITS = 1,   /* for the GVL, from now on */
	STATE_RUNS = 2,    /* it has the GVL */
	STATE_BLOCKED = 3, /* it does without, and it is not known what it does: one of 7 to 10, or it computes in C */
	STATE_ENDED = 4,
	STATE_GC_BEGINS = 5, /* while it has the GVL */
	STATE_GC_ENDS = 6,
	STATE_IN_IO = 7, /* it does without the GVL, from now on: in input or output */
	STATE_SLEEPS = 8,
	STATE_IN_LOCK = 9, /* until another thread does something: a lock, a queue, its end */
	STATE_FOR_PROCESS = 10,
	STATE_UNKNOWN = 11, /* from now on it is not known what it does; where threads are looked at */
	STATE_EVENTS,
};

struct thread_state {
	uint64_t thread;    /* the same for all of one thread while it lives */
	uint64_t time_ns;   /* of the target's monotonic clock */
	uint32_t native_id; /* 0: it is not told */
	enum state_event event;
};

#define STATES_MAX 512u /* in a record */

/* What threads do, nearly in the order of time. */
struct record_states {
	uint64_t lost; /* before these */
	uint32_t count;
	const struct thread_state *states;
};

void states_encode(msgpack_packer *packer, const struct record_states *states);
/* The states live in zone. */
void states_decode(struct record_states *states, struct fields *fields, msgpack_zone *zone);

#endif
