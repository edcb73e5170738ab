#ifndef RBPROBE_FRAME_RECEIVER_H
#define RBPROBE_FRAME_RECEIVER_H

/*
 * The receiver of a frame, its method's entry, and the arguments of a method written in C: which Thread is joined, which Queue is
 * waited for, which statement a database is given. Read from frames that stand still: GVL held, of a thread that does not run, or
 * of the one that reads.
 *
 * Facts that this relies on, each tried on a scratch method, seen on 2.7, 3.1 and 3.3:
 * - A frame holds its receiver.
 * - While a method written in C runs, its caller's top of the VM stack points to the receiver, and the arguments follow it, up to
 *   the environment of the method's own frame. Calls by C code (rb_funcall) may have them elsewhere: then no receiver is there.
 */

#include "tracee/frame/frame_direct.h"

#include <ruby.h>

/* Finds the places, once in a process, after frame_snapshot_ready(). Job context; runs scratch methods, raises nothing. */
void frame_receiver_find(void);

static inline bool frame_receiver_is_known(void)
{
	return layout_is_known(LAYOUT_FRAME_RECEIVER);
}

FRAME_READS_STACK static inline VALUE frame_receiver(uintptr_t frame)
{
	return ((const VALUE *)frame)[layout_value(LAYOUT_FRAME_RECEIVER)];
}

/* The method entry of a frame that is a method's own, or, with blocks, of a block's method. NULL: none, or not known. */
const VALUE *frame_method_entry(uintptr_t frame, bool blocks);

/* The arguments of a method written in C; -1: not known. The next outer frame is its caller's. */
int frame_arguments(uintptr_t frame, const VALUE **arguments);

#endif
