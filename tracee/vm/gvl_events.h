#ifndef RBPROBE_GVL_EVENTS_H
#define RBPROBE_GVL_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What the VM tells of threads and the GVL, from Ruby 3.2 on. (One of compat.h's differences between Rubies, in a file of its
 * own.)
 */

enum gvl_event {
	GVL_THREAD_STARTED,
	GVL_WANTED,   /* it begins to wait for the GVL */
	GVL_TAKEN,    /* it has it */
	GVL_RELEASED, /* it has let go of it */
	GVL_THREAD_EXITED,
};

/* Whether this Ruby has such events. */
bool gvl_events_possible(void);

/* Whether a thread still has the GVL at its GVL_RELEASED, as from 3.3 on. */
bool gvl_released_with_gvl(void);

/*
 * thread: the same for all events of a thread while it lives. The hook runs on any thread, mostly but not always the one that the
 * event is of, with or without the GVL, inside the VM's scheduler: it may read and write memory, and nothing else.
 */
void gvl_events_on(void (*hook)(enum gvl_event event, uintptr_t thread));
/* What the events of the thread that runs this say it is. It has the GVL. */
uintptr_t gvl_current_thread(void);

/*
 * Whether some thread has the GVL now, as far as is known: while a hook is on (from 3.2 on; it may be another Ractor's), or where
 * gvl_layout.h has been asked to find it (before). False: none has it, or it is not known. Any thread.
 */
bool gvl_is_held(void);

/* When it returns that hook does not run any more. Both: job context; on() may raise. */
void gvl_events_off(void (*hook)(enum gvl_event event, uintptr_t thread));

/* In a forked child, where hooks of the parent go on. Async-signal-safe. */
void gvl_events_fork_child(void);

#endif
