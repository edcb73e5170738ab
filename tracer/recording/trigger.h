#ifndef RBPROBE_TRIGGER_H
#define RBPROBE_TRIGGER_H

#include "tracer/stream/stream.h"

#include "proto/command.h"

/* What a flight recorder waits for: `record --until`. All that is set must be met by one call, line or exception. */
struct trigger {
	const char *text;              /* as it was written */
	uint64_t slow_ns;              /* the call took at least so long; 0: any time */
	struct slice raised;           /* an exception of this class left the call (meant.h); NULL: however it ended */
	struct slice raise;            /* an exception of this class was raised (a mark); NULL: it is about calls or lines */
	struct slice thread;           /* in such a thread; empty: in any */
	const struct selector *method; /* a call of such a method, or such a line; NULL: of any */
};

#define TRIGGERS_MAX 16u

struct triggers {
	struct trigger items[TRIGGERS_MAX];
	uint32_t count;
};

/*
 * The first that is met, or NULL. Each adds to `why` what has met it, in words, when it is met. method->prepared is theirs.
 * outcome: what came with the end.
 */
const struct trigger *triggers_call(const struct triggers *triggers, const struct fiber *fiber, struct method *method,
                                    enum ending ending, struct values outcome, uint64_t duration_ns, struct buffer *why);
const struct trigger *triggers_line(const struct triggers *triggers, const struct fiber *fiber, struct method *line,
                                    struct buffer *why);
const struct trigger *triggers_mark(const struct triggers *triggers, const struct fiber *fiber, const struct method *mark,
                                    struct values values, struct buffer *why);

#endif
