#ifndef RBPROBE_CONDITIONS_H
#define RBPROBE_CONDITIONS_H

#include "proto/fields.h"
#include "proto/slice.h"

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Which calls of the selected methods a trace is about; PROTOCOL.md, "TRACE". All that are set must be met. Texts point into
 * memory of the caller or of the decoded message.
 */
struct conditions {
	uint64_t slow_ns;        /* it took at least so long; 0: any time */
	uint64_t slow_cpu_ns;    /* its thread computed at least so long; 0: any time */
	uint32_t every;          /* of those that meet the rest, every so many'th of a method; 0: all */
	uint32_t rate;           /* of those that meet the rest, at most so many a second; 0: all */
	uint32_t depth;          /* so many levels of shown calls; 0: all */
	struct slice raised;     /* a pattern of classes' names: an exception of one left it; NULL: whatever happened; "": any */
	struct slice thread;     /* a pattern of its thread's name, its native id, or "main"; empty: any thread */
	struct slice expression; /* of Ruby, true for it; empty: none */
	uint32_t max_overhead;   /* percent of the process's CPU time that observing may take; 0: any. Not of a call */
};

/* What a selector is for. */
enum selector_role {
	ROLE_SHOWN = 0,
	ROLE_WITHIN = 1,  /* calls are shown only inside a call of it */
	ROLE_OUTSIDE = 2, /* calls are not shown inside a call of it */
	ROLE_COUNT,
};

static inline bool conditions_any(const struct conditions *conditions)
{
	return conditions->slow_ns || conditions->slow_cpu_ns || conditions->every || conditions->rate || conditions->depth ||
	       conditions->raised.bytes || conditions->thread.size || conditions->expression.size;
}

/*
 * An expression between these has the value true or false. A comment at its end ends before the parenthesis. Whether it
 * compiles is asked of the expression alone, as the user wrote it.
 */
#define CONDITIONS_TRUTH_BEGIN "("
#define CONDITIONS_TRUTH_END "\n) ? true : false # --until"

/* The expression without these; other code as it is. */
struct slice conditions_code_alone(struct slice code);

/* Whether code reads this variable, as far as its text tells: not as a method (x.result), an @ivar, a :symbol or a key. */
bool conditions_code_reads(struct slice code, const char *variable);
/* Whether it reads what is known only when a call ends: result, error or elapsed. */
bool conditions_code_at_end(struct slice code);
/* Whether the expression is about how a call ended: result, error or elapsed. */
bool conditions_expression_at_end(const struct conditions *conditions);
/* Whether it may be known only when a call ends that it meets them. */
bool conditions_at_end(const struct conditions *conditions);

/* One element of the TRACE command. */
void conditions_encode(msgpack_packer *packer, const struct conditions *conditions);
void conditions_decode(struct conditions *conditions, struct fields *outer);

#endif
