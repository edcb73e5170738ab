#ifndef RBPROBE_MEASURES_H
#define RBPROBE_MEASURES_H

#include "tracer/base/buffer.h"

#include "proto/events.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stdint.h>

/* What was measured of a call beside its time: the numbers after the texts of its outcome. */

#define MEASURES_MAX 7u
#define MEASURES_CPU 0u  /* where its number is */
#define MEASURES_SPAN 3u /* where its numbers begin */

struct measures {
	uint32_t flags;                 /* which of TRACE_MEASURES there are; 0: the call came without */
	uint64_t numbers[MEASURES_MAX]; /* in this order, three of a span; EVENT_NOT_KNOWN: the process could not say */
};

/* The application's own span: both halves of its trace's id, and its own. NULL: there was none, or nobody asked. */
static inline const uint64_t *measures_span(const struct measures *measures)
{
	const uint64_t *ids = &measures->numbers[MEASURES_SPAN];

	return measures->flags & TRACE_SPAN && ids[2] != EVENT_NOT_KNOWN ? ids : NULL;
}

struct span_text {
	char trace[33], id[17]; /* hexadecimal */
};

/* False, and two empty texts: there was no span, or nobody asked. */
bool measures_span_text(const struct measures *measures, struct span_text *text);

static inline bool measures_have_numbers(const struct measures *measures)
{
	return measures->flags & ~(uint32_t)(TRACE_SPAN | TRACE_STACK) || measures_span(measures);
}

static inline uint64_t measures_stack(const struct measures *measures)
{
	return measures->flags & TRACE_STACK ? measures->numbers[MEASURES_MAX - 1] : 0;
}

/* Takes those that were asked for (flags) off the values. */
struct measures measures_take(struct values *values, uint32_t flags);
/* The stack alone, which is the last value of a line. */
struct measures measures_take_stack(struct values *values, uint32_t flags);

/* "cpu 0.001200 alloc 120 gc 0.000300 trace 0af7... span b7ad...", after a blank where more than "<" stands before. */
void measures_add_text(struct buffer *to, const struct measures *measures);
/* Members cpu_ns, objects, gc_ns, trace_id and span_id of the object that is open; null: not known. */
void measures_add_json(struct buffer *to, const struct measures *measures);

#endif
