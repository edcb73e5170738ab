#ifndef RBPROBE_TRIGGER_H
#define RBPROBE_TRIGGER_H

#include "tracer/stream/stream.h"

#include "proto/command.h"

/* What a flight recorder waits for: `record --until`. All that is set must be met by one call, line or exception. */
struct trigger {
	const char *text;              /* as it was written */
	uint64_t slow_ns;              /* the call took at least so long; 0: any time */
	uint64_t slow_cpu_ns;          /* its thread computed at least so long, as far as that is measured; 0: any time */
	struct slice raised;           /* an exception of this class left the call (meant.h); NULL: however it ended */
	struct slice raise;            /* an exception of this class was raised (a mark); NULL: it is about calls or lines */
	struct slice thread;           /* in such a thread; empty: in any */
	const struct selector *method; /* a call of such a method, or such a line; NULL: of any */
	/* What a recording has of the calls around it: */
	const struct selector *within;  /* one is of such a method; NULL: whatever is around it */
	const struct selector *outside; /* neither it nor any of them is of such a method; NULL: the same */
	uint64_t depth;                 /* it is at most so many levels deep, from 1 on; 0: any */
	const char *truth;              /* of this name is a value that is "true" where an expression was; NULL: there is none */
};

#define TRIGGERS_MAX 16u

struct triggers {
	struct trigger items[TRIGGERS_MAX];
	uint32_t count;
	uint32_t measured; /* enum trace_flag: which of TRACE_MEASURES come with the end of a call */
	bool with_truths;  /* one has an expression */
};

/* A call as a trigger sees it when it has ended. */
struct trigger_call {
	struct method *method;
	enum ending ending;
	struct values outcome; /* what came with the end */
	uint64_t duration_ns;
	uint16_t truths; /* triggers_truths() of what came with its start */
};

/* Bits by trigger: whose expression is true, by the values that came with the start of a call or with a line. */
uint16_t triggers_truths(const struct triggers *triggers, const struct method *method, struct values values);

/*
 * The first that is met, or NULL. Each adds to `why` what has met it, in words, when it is met. method->prepared is theirs.
 */
const struct trigger *triggers_call(const struct triggers *triggers, const struct fiber *fiber, const struct trigger_call *call,
                                    struct buffer *why);
const struct trigger *triggers_line(const struct triggers *triggers, const struct fiber *fiber, struct method *line,
                                    struct values values, struct buffer *why);
const struct trigger *triggers_mark(const struct triggers *triggers, const struct fiber *fiber, const struct method *mark,
                                    struct values values, struct buffer *why);

#endif
