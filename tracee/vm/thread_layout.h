#ifndef RBPROBE_THREAD_LAYOUT_H
#define RBPROBE_THREAD_LAYOUT_H

#include <ruby.h>

#include <stdbool.h>

/*
 * What no Ruby API tells of a thread: its execution context, and the Mutex it waits for. The VM's structures hold them at places
 * that differ between Rubies. They are looked for where something known must be (the thread that runs this, a Mutex that it has
 * just locked), noted in layout.h, checked again for each thread, and not told where a check fails. Memory is read through the
 * kernel, which does not fault. Job context, GVL held, under rb_protect where nothing else is said.
 */

/* Finds the rows of layout.h about threads and contexts; false: they were not found. Raises nothing. */
bool thread_layout_find(void);

/*
 * The context of the fiber that the thread runs, as it stands in the thread. NULL: not known yet, or the thread is dead. GVL
 * held, any context: nothing is looked for or checked.
 */
uintptr_t *thread_running_context(VALUE thread);

/* The execution context (rb_execution_context_t), or NULL: not known. Valid as long as the GVL is held. */
void *thread_context(VALUE thread);

/* That of any fiber, running or not; 0: not known. Event context, too, once it has been known. */
uintptr_t thread_fiber_context(VALUE fiber);

/* Whether thread_mutex_wait() can tell anything at all. */
bool thread_mutex_known(void);

struct mutex_wait {
	VALUE mutex; /* Qnil: it waits for none, or that is not known */
	VALUE owner; /* one of `threads`; Qnil: not known, such as a fiber that does not run now */
};

/* Which Mutex a sleeping thread waits for; threads is an Array of all. */
struct mutex_wait thread_mutex_wait(VALUE thread, VALUE threads);

/* Which of the threads holds a Mutex; Qnil: none, or not known. After thread_mutex_known(). */
VALUE thread_mutex_owner(VALUE mutex, VALUE threads);

/* The Mutex that a Monitor has; Qnil: not known. After thread_mutex_known(). */
VALUE thread_mutex_within(VALUE object);

#endif
