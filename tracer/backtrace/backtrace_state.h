#ifndef RBPROBE_BACKTRACE_STATE_H
#define RBPROBE_BACKTRACE_STATE_H

#include "tracer/base/buffer.h"

#include <msgpack.h>
#include <stdbool.h>

/*
 * What a thread is doing, in words: from its status, its frames and what it waits for. Says only what is known: a
 * thread that sleeps in a method that is not known to sleep is "sleeping in" that method and no more.
 */

/*
 * thread: a DATA map of type "thread". was_asleep: what the system said of its native thread before the process's bell
 * was rung, which wakes the main
 * thread: the job may run on it, and it would seem to be running.
 */
void backtrace_state_add(struct buffer *buffer, const msgpack_object *thread, bool was_asleep);

#endif
