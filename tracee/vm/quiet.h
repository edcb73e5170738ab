#ifndef RBPROBE_QUIET_H
#define RBPROBE_QUIET_H

#include <ruby.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Work of ours that the application does not see: while it lasts, no TracePoint, set_trace_func or rb_add_event_hook of anybody's
 * hears of what the running fiber calls. The VM does the same around its own hooks. Context: job, event and own threads; GVL
 * held, main Ractor.
 */

/* What has to be undone. Lives on the caller's stack. */
struct quiet {
	volatile uintptr_t *place; /* NULL: nothing to undo */
	uintptr_t before;
};

/* Finds out once where the VM notes that a hook runs. Job context; raises nothing. */
void quiet_init(void);

/* Whether all this is known. As quiet_init(). */
bool quiet_works(void);

/* No events of this fiber until quiet_end(), on whatever way the work ends. Calls nest. */
struct quiet quiet_begin(void);

/* Within that: the user's own code runs, which the application may see. */
struct quiet quiet_pause(void);

/* Ends what either of the two began. */
void quiet_end(struct quiet quiet);

/* Whether the running fiber is quiet, but not by us: it is in a hook, or the VM parses. False where that cannot be told. */
bool quiet_is_others(void);

/* The same for the whole life of a thread that has been made and has not run yet, its first and last event included. */
void quiet_thread(VALUE thread);

/* Raises the exception and catches it, unheard; `$!` is the caller's to put back. Whether it was raised. */
bool quiet_raise(VALUE exception);

/*
 * Whether any thread is in a hook just now, of whomever, global or targeted, but for threads of ours that are quiet. A fiber
 * that left its hook for another fiber is not seen. False where that cannot be told. Job context; may raise.
 */
bool quiet_hook_runs(void);

#endif
