#ifndef RBPROBE_BLOCKED_IN_H
#define RBPROBE_BLOCKED_IN_H

#include <ruby.h>

/* What a thread that lets go of the GVL is about to do: by the method on top of its frames, and no guess. */

enum blocked_in {
	BLOCKED_IN_OTHER, /* a method that says nothing of it, or this Ruby lets nobody look */
	BLOCKED_IN_IO,
	BLOCKED_IN_SLEEP,
	BLOCKED_IN_LOCK,    /* until another thread does something: a lock, a queue, its end */
	BLOCKED_IN_PROCESS, /* until a child process ends */
};

/* Finds the classes that matter, those that are there by now. Job context; may raise. */
void blocked_in_prepare(void);

/* Of the thread that runs this, in its GVL_RELEASED. After blocked_in_prepare(). */
enum blocked_in blocked_in(void);

/* Of one whose innermost frame is a call of that method. Any thread, with or without the GVL. */
enum blocked_in blocked_in_method(VALUE owner, ID method);

#endif
