#ifndef RBPROBE_BACKTRACE_STATE_H
#define RBPROBE_BACKTRACE_STATE_H

#include "tracer/base/buffer.h"

#include <msgpack.h>
#include <stdbool.h>

/*
 * What a thread is doing, in words: from its status, its frames and what it waits for. Says only what is known: a
 * thread that sleeps in a method that is not known to sleep is "sleeping in" that method and no more.
 */

/* What the system says of its native thread. */
struct native_state {
	/*
	 * Before the process's bell was rung. That wakes the main thread: the job may run on it, and it would seem to be running.
	 */
	bool was_asleep;
	bool on_descriptor;    /* and waited on one descriptor */
	struct slice waits_on; /* the thread, Queue, socket or file; empty: not known, or none */
};

/*
 * It waits without a limit in one of Ruby's own methods: for a lock, a thread's end, a Queue, a ConditionVariable, or in sleep.
 * So nothing from outside wakes it but a signal, or C code.
 */
bool backtrace_state_is_endless(const msgpack_object *thread, const struct native_state *native);

/* What the target says that the thread waits for, but for a Mutex: 'thread 10637 "worker"'. Nothing where it does not. */
void backtrace_waits_on_add(struct buffer *buffer, const msgpack_object *thread);

/* thread: a DATA map of type "thread". */
void backtrace_state_add(struct buffer *buffer, const msgpack_object *thread, const struct native_state *native);

#endif
