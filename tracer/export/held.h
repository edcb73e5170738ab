#ifndef RBPROBE_HELD_H
#define RBPROBE_HELD_H

#include "tracer/recording/waits.h"

/*
 * Who held the GVL while a thread waited for it, for formats that draw what threads do. It is known only after the wait has been
 * told: the holder's stretch of time, and its call, end later. So what threads did is kept, and written when the process is done,
 * or where it would take too much.
 */

struct held_sink {
	struct sink sink;    /* the format's own struct begins with this one */
	struct waits *waits; /* set by the export; NULL: all is written at once, and without who held it */
	void (*write)(struct sink *sink, const struct stream *stream, const struct thread_span *span,
	              const struct waits_cause *cause);
};

/* For the format's own functions of the same names. */
void held_thread(struct sink *sink, struct stream *stream, const struct thread_span *span);
void held_call(struct sink *sink, const struct fiber *fiber, const struct method *method, uint64_t start_ns,
               uint64_t duration_ns);
void held_summary(struct sink *sink, const struct sink_summary *summary);

#endif
