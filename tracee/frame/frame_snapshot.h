#ifndef RBPROBE_FRAME_SNAPSHOT_H
#define RBPROBE_FRAME_SNAPSHOT_H

#include "tracee/vm/builtin_methods.h"

#include <ruby.h>

#include <stdbool.h>
#include <stdint.h>

/*
 * The frames of any thread or fiber, with the local variables of those that are written in Ruby, as they were at one moment: what
 * Thread#backtrace_locations says, and the variables that belong to each of these locations. Nothing of the application runs for
 * that, and no frame is changed: no Binding is made, which would move the variables.
 *
 * Job context, GVL held, under rb_protect. Another thread may run while Ruby is asked for locations: frames that have moved
 * meanwhile are taken anew, or none are.
 */

enum frame_snapshot_state {
	FRAME_SNAPSHOT_READY,
	FRAME_SNAPSHOT_LATER,   /* it has to be tried, and may not be while a hook of the application's is on */
	FRAME_SNAPSHOT_UNKNOWN, /* it was tried: this Ruby does not show it */
};

/* Whether what is needed has been found already. */
bool frame_snapshot_is_known(void);

/* Finds what is needed, once in a process; runs scratch methods, with TracePoints: a compiler drops all of its code. */
enum frame_snapshot_state frame_snapshot_ready(void);

struct frame_snapshot {
	VALUE memory;                /* keeps what is below; found by the GC as long as this is on the stack */
	struct frozen_frame *frames; /* the innermost first */
	long count;
	VALUE *values;     /* of all frames: the instructions of each, and then its variables */
	VALUE numbers;     /* keeps frame_of */
	int32_t *frame_of; /* of a location: which frame it is; -1: none that has variables */
	bool known;
};

/*
 * What `how` says of the receiver, whose context that is: an Array of Thread::Backtrace::Location, or nil. is_running: the job
 * runs on it, so that its frames need not stand still. first: says how many of the locations are the job's own; or NULL.
 * snapshot->known is false where variables cannot be told.
 */
VALUE frame_snapshot_take(struct frame_snapshot *snapshot, enum builtin_method how, VALUE receiver, uintptr_t context,
                          bool is_running, long (*first)(VALUE locations));

struct frame_variable {
	ID name;
	VALUE value;
	bool is_block; /* a block that is no object yet; value is nil */
};

/* How many variables the location has, and those; more: how many there are that were not taken. */
unsigned frame_snapshot_variables(const struct frame_snapshot *snapshot, long location, unsigned *more);
struct frame_variable frame_snapshot_variable(const struct frame_snapshot *snapshot, long location, unsigned number);

/* The memory goes with the GC, too; sooner by this. */
void frame_snapshot_free(struct frame_snapshot *snapshot);

#endif
