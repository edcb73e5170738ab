#ifndef RBPROBE_EVALUATION_H
#define RBPROBE_EVALUATION_H

#include "tracee/vm/interrupts_mask.h"

#include <ruby.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* Running Ruby code of the user's inside an event, with a time limit. */

/*
 * What others than the fiber that evaluates know of it. It is in that fiber's state: the code may switch to another fiber, and be
 * dropped with its stack. All zero until the first one. Under the GVL.
 */
struct evaluation {
	uint64_t serial; /* of the one that runs; 0: none */
	VALUE thread;
	pthread_t native_thread;
	const uintptr_t *context; /* the fiber's; NULL: not known */
	VALUE mask;               /* what holds interrupts back meanwhile; nil: not known, or it has not begun */
	VALUE exception;          /* what interrupts it; Qnil until it is overdue */
	bool open;                /* an exception that is sent now arrives where it is waited for */
	bool sent;                /* it has been raised in the thread, or cannot be */
	bool ended;               /* by evaluation_end() */
	const void *owner;
	uint64_t deadline_ns;
	struct interrupts_mask around;            /* what that context holds back before and after the code */
	uint32_t pause_ms;                        /* before it is looked at again, where its fiber did not run */
	struct evaluation *next, **previous_next; /* of those that run */
};

/* The fiber is gone. In GC. */
void evaluation_drop(struct evaluation *evaluation);

enum evaluation_outcome {
	EVALUATION_DONE,
	EVALUATION_RAISED,    /* the value is the exception */
	EVALUATION_TIMED_OUT, /* the code was interrupted */
	EVALUATION_ENDED,     /* the same, by evaluation_end() */
	EVALUATION_THREW,     /* it threw to a catch of the application, which it does not reach */
	EVALUATION_JUMPED, /* its thread is killed or interrupted, the process asked to end: *jump is a state for rb_jump_tag() */
};

/*
 * Event context, GVL held, in a fiber that has a state and no other evaluation. `run` may do anything: raise, block, switch
 * threads and fibers. limit_ms 0: none. owner: for evaluation_end().
 */
enum evaluation_outcome evaluate(VALUE (*run)(VALUE), VALUE argument, const void *owner, uint32_t limit_ms, VALUE *value,
                                 int *jump);

/*
 * For what calls Ruby's own methods and nothing of the application's: without a limit; what is meant for the application waits
 * until it is over, and sets *jump beside the outcome.
 */
enum evaluation_outcome evaluate_undisturbed(VALUE (*run)(VALUE), VALUE argument, VALUE *value, int *jump);

/* For what calls no method at all: cheaper, cannot be interrupted. */
enum evaluation_outcome evaluate_quickly(VALUE (*run)(VALUE), VALUE argument, VALUE *value);

void evaluation_init(void);

/*
 * Whether threads that begin are heard of. Those that the code makes would hold interrupts back, too: Timeout kills one and
 * waits for it, up to Ruby 3.1. Job context.
 */
void evaluation_hear_threads(bool hear);

/* Whether some evaluation has passed its time limit. Any thread. */
bool evaluation_overdue(void);
/* Interrupts those that have. Job context. */
void evaluation_cancel_overdue(void);

/*
 * Whether this exception is one that interrupts an evaluation. The VM has delivered it where the evaluation does not see it, in a
 * job: that evaluation, if it still runs, gets another one a little later. Sent again, the exception might arrive when the
 * evaluation has been left, in the application's code. GVL held.
 */
bool evaluation_take_back(VALUE exception);

/*
 * Nobody waits any more for what this owner has under way: it is interrupted as if its time were over, by a job after this one.
 * Job context.
 */
void evaluation_end(const void *owner);

/* The other threads' are gone, and so are those that were about to interrupt them. In the child of a fork; async-signal-safe. */
void evaluation_fork_child(void);

#endif
