#ifndef RBPROBE_MEASURES_H
#define RBPROBE_MEASURES_H

#include "tracer/base/buffer.h"

#include "proto/events.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stdint.h>

/* What was measured of a call beside its time: the numbers after the texts of its outcome. */

#define MEASURES_MAX 4u

struct measures {
	uint32_t flags; /* which there are: TRACE_CPU, TRACE_OBJECTS, TRACE_GC, TRACE_STACK; 0 where the call came without */
	uint64_t numbers[MEASURES_MAX]; /* in this order; EVENT_NOT_KNOWN: the process could not say */
};

static inline bool measures_have_numbers(const struct measures *measures)
{
	return measures->flags & ~(uint32_t)TRACE_STACK;
}

static inline uint64_t measures_stack(const struct measures *measures)
{
	return measures->flags & TRACE_STACK ? measures->numbers[MEASURES_MAX - 1] : 0;
}

/* Takes those that were asked for (flags) off the values. */
struct measures measures_take(struct values *values, uint32_t flags);
/* The stack alone, which is the last value of a line. */
struct measures measures_take_stack(struct values *values, uint32_t flags);

/* "cpu 0.001200 alloc 120 gc 0.000300", after a blank where more than "<" stands before. */
void measures_add_text(struct buffer *to, const struct measures *measures);
/* Members cpu_ns, objects and gc_ns of the object that is open; null: not known. */
void measures_add_json(struct buffer *to, const struct measures *measures);

#endif
