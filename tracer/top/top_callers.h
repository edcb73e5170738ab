#ifndef RBPROBE_TOP_CALLERS_H
#define RBPROBE_TOP_CALLERS_H

#include "tracer/base/buffer.h"
#include "tracer/stream/callers.h"
#include "tracer/stream/sink.h"

#include <stddef.h>
#include <stdint.h>

/* Who calls a method, added up over its calls: a tree whose branches lead outwards. */

#define TOP_CALLERS_MAX 20000u /* frames; what is beyond them is in no branch */

struct top_caller {
	struct buffer text; /* "Order#save  lib/x.rb:12", printable */
	uint64_t calls;
	struct top_caller *inner, *first,
		*beside; /* towards the method; the first of its own callers; the next one of its siblings */
};

struct top_callers {
	struct top_caller root; /* the method itself */
	size_t count;
	uint64_t unknown; /* calls of which the process could not say who made them */
};

/* A call, by its innermost calling frame; NULL: not known. */
void top_callers_add(struct top_callers *callers, const struct caller *caller);
/* Lines with parts of the whole, those with the most first. Not those below half a percent. */
void top_callers_write(struct top_callers *callers, struct buffer *to);
void top_callers_free(struct top_callers *callers);

/* A sink that adds up who made the calls. Its style has to have the flags of the trace. */
struct top_callers_sink {
	struct sink sink;
	struct top_callers callers;
};

extern const struct sink_ops sink_top_callers;

#endif
