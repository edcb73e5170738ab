#ifndef RBPROBE_BACKTRACE_WAITS_H
#define RBPROBE_BACKTRACE_WAITS_H

#include "tracee/base/msgpack_builder.h"
#include "tracee/requests/backtrace_sql.h"

#include <ruby.h>

#include <stdbool.h>

/*
 * What threads wait for: a Mutex or Monitor and who holds it, a thread that they join, a Queue, a database's answer. All are
 * looked at in one go, in which no thread runs: a circle of them was one. Told is only what still holds when the thread's frames
 * have been taken. Job context, GVL held, under rb_protect.
 */

enum wait_kind { WAIT_NONE, WAIT_MUTEX, WAIT_MONITOR, WAIT_THREAD, WAIT_OBJECT, WAIT_SLEEP };

/* On the stack, or where the GC looks at whole words. */
struct thread_wait {
	VALUE object; /* the Mutex, Monitor, Thread, Queue, SizedQueue or ConditionVariable */
	VALUE mutex;  /* of a Mutex or Monitor; Qnil */
	VALUE owner;  /* the thread without which the wait does not end; Qnil: not known */
	VALUE kind;   /* enum wait_kind */
	VALUE timed;  /* not 0: it has a limit, or may have one */
};

struct backtrace_waits {
	VALUE mutex_class, monitor_class, condition_class, queue_class, sized_class; /* Qnil: there is none */
	const char *missing; /* why frames cannot be looked into; NULL: they can */
	struct sql_drivers drivers;
	VALUE memory;
	struct thread_wait *all; /* one for each of the threads */
};

/*
 * Finds what is needed, once in a process, and looks at all. Not where a compiler is at work, which would drop its code for that,
 * unless that has happened, or local variables are wanted as well.
 */
void backtrace_waits_begin(struct backtrace_waits *waits, VALUE threads, bool with_locals);
void backtrace_waits_end(struct backtrace_waits *waits);

/*
 * What the thread with that number waited for and still does, into the map that is open. asleep: it sleeps, or did. A Mutex
 * and a join are told of others, too: those are about to sleep, or wake for a moment.
 */
void backtrace_waits_add(const struct backtrace_waits *waits, struct msgpack_builder *answer, VALUE threads, long number,
                         bool asleep);

#endif
