#ifndef RBPROBE_EVALUATION_H
#define RBPROBE_EVALUATION_H

#include "overdue.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/* Running Ruby code of the user's inside an event, with a time limit. */

enum evaluation_outcome {
	EVALUATION_DONE,
	EVALUATION_RAISED,    /* the value is the exception */
	EVALUATION_TIMED_OUT, /* the code was interrupted */
	EVALUATION_ENDED,     /* the same, by evaluation_end() */
	EVALUATION_THREW,     /* it threw to a catch of the application, which it does not reach */
	EVALUATION_JUMPED,    /* its thread is being killed or interrupted: *jump is the state for rb_jump_tag() */
};

/* Event context, GVL held. `run` may do anything: raise, block, switch threads. limit_ms 0: none. owner: for evaluation_end(). */
enum evaluation_outcome evaluate(VALUE (*run)(VALUE), VALUE argument, const void *owner, uint32_t limit_ms, VALUE *value,
                                 int *jump);

/*
 * For what calls Ruby's own methods and nothing of the application's: without a limit; what is meant for the application waits until it is over, and sets *jump
 * beside the outcome.
 */
enum evaluation_outcome evaluate_undisturbed(VALUE (*run)(VALUE), VALUE argument, VALUE *value, int *jump);

/* For what calls no method at all: cheaper, cannot be interrupted. */
enum evaluation_outcome evaluate_quickly(VALUE (*run)(VALUE), VALUE argument, VALUE *value);

void evaluation_init(void);

/* Interrupts those that have. Job context. */
void evaluation_cancel_overdue(void);

/* Nobody waits any more for what this owner has under way: it is interrupted as if its time were over, by a job after this one. Job context. */
void evaluation_end(const void *owner);

#endif
