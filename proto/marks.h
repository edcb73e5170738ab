#ifndef RBPROBE_MARKS_H
#define RBPROBE_MARKS_H

#include "proto/fields.h"
#include "proto/slice.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Marks: what happens in a fiber beside calls, at the depth of the call that is open there. PROTOCOL.md, "TRACE" and "EVENTS".
 * Texts point into memory of the caller or of the decoded message.
 */

/* On the wire; a METHOD says of which kind its marks are. */
enum mark_kind {
	MARK_NONE = 0, /* it is a method, and has calls */
	MARK_RAISE = 1,
	MARK_GC = 2,         /* a collection is over */
	MARK_GC_PAUSE = 3,   /* a long pause that was not the end of one */
	MARK_GVL = 4,        /* a thread has waited for the GVL for long */
	MARK_ALLOCATION = 5, /* an object was made */
	MARK_STATE = 6,      /* what a thread does, which is told by STATES, and never by EVENTS */
	MARK_COUNT,
};

/* Objects that are wanted. */
struct mark_allocation {
	struct slice class; /* a constant's name, "Billing::Order" */
	bool below;         /* also of classes below it */
	uint32_t every;     /* the first, and every so many'th; 1: all */
};

#define MARK_ALLOCATIONS_MAX 8

/* Which marks a trace wants. */
struct mark_options {
	uint32_t kinds;     /* bits by enum mark_kind */
	struct slice raise; /* a pattern of classes' names; empty: exceptions of any class */
	struct mark_allocation allocations[MARK_ALLOCATIONS_MAX];
	uint32_t allocation_count;
	uint32_t state_rate_hz; /* so often threads are looked at, where the VM does not tell what they do; 0: not said */
};

#define STATE_RATE_MAX_HZ 1000u

#define MARK_VALUES_MAX 12
#define MARK_RAISE_STACK 4u /* index of the value */
#define MARK_ALLOCATION_STACK 4u

/* What is told of a mark: its values, in this order. */
struct mark_form {
	const char *name;   /* "raise" */
	const char *plural; /* of the marks, in a summary */
	const char *labels[MARK_VALUES_MAX];
	uint32_t numbers;                    /* bits by value: its text is a decimal number */
	uint32_t nulls;                      /* bits by value: where it was not sent, JSON says that it is not known */
	uint32_t stack;                      /* which one is the number of a CALLER, where the trace asked for stacks; 0: none */
	const char *totals[MARK_VALUES_MAX]; /* of the numbers of a TOTALS record */
};

/* NULL: there is no such kind. */
const struct mark_form *mark_form(uint64_t kind);
uint32_t mark_value_count(const struct mark_form *form);

static inline bool marks_wanted(const struct mark_options *marks, enum mark_kind kind)
{
	return marks->kinds & 1u << kind;
}

/* One element of the TRACE command. */
void marks_encode(msgpack_packer *packer, const struct mark_options *marks);
void marks_decode(struct mark_options *marks, struct fields *outer);

#endif
