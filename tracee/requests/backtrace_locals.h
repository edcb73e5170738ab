#ifndef RBPROBE_BACKTRACE_LOCALS_H
#define RBPROBE_BACKTRACE_LOCALS_H

#include "tracee/base/msgpack_builder.h"
#include "tracee/frame/frame_snapshot.h"

/*
 * The local variables of the frames in a backtrace, as text that is made without calling the application. Job context, GVL held,
 * under rb_protect.
 */

struct backtrace_locals {
	bool wanted;
	const char *missing; /* why the thread or fiber at hand has none; NULL: it has them */
	uint64_t began_ns;
	struct frame_snapshot snapshot;
};

/* Once for a request. */
void backtrace_locals_begin(struct backtrace_locals *locals);

/*
 * The locations of a thread or fiber, and the variables of its frames where these are wanted; for the rest see
 * frame_snapshot_take(). backtrace_locals_end() comes after each.
 */
VALUE backtrace_locals_take(struct backtrace_locals *locals, enum builtin_method how, VALUE receiver, uintptr_t context,
                            bool is_running, long (*first)(VALUE locations));
void backtrace_locals_end(struct backtrace_locals *locals);

/* Those of one location, into the map that is open. */
void backtrace_locals_add(const struct backtrace_locals *locals, struct msgpack_builder *answer, long location);

#endif
