#ifndef RBPROBE_GC_HOOK_H
#define RBPROBE_GC_HOOK_H

#include <ruby.h>
#include <ruby/debug.h>
#include <stdbool.h>

/*
 * Hooks for the VM's events of its garbage collector.
 *
 * In Ruby 3.0 and 3.1 a new Ractor's first thread allocates before it has a frame, and an event of GC that comes then follows a
 * NULL pointer (gc_event_hook_body() of gc.c; mended in 3.2): the process would crash. So there no hook is added where there are
 * several Ractors, and all are removed when the first one is about to be made.
 */

/* Adds a hook; the same one again does no harm. False: it cannot be, or may not. Job context; raises nothing. */
bool gc_hook_add(rb_event_hook_func_t function, rb_event_flag_t events);
/* The same for one that is given the VM's trace argument: void (*)(VALUE, const rb_trace_arg_t *). */
bool gc_hook_add_raw(rb_event_hook_func_t function, rb_event_flag_t events);
void gc_hook_remove(rb_event_hook_func_t function);
/*
 * Where no session is left, takes the watch for Ractors away: hooks come and go as long as there is one. Whether it is still on
 * then, as it cannot be taken away now. Job context; raises nothing.
 */
bool gc_hook_sweep(void);
/* Event context. */
bool gc_hook_is_on(rb_event_hook_func_t function);
/* In a forked child, which does not have the threads that were making Ractors. Async-signal-safe. */
void gc_hook_fork_child(void);

/* Why hooks are not added, or have been removed. */
#define GC_HOOK_WHY                                                                                                              \
	"before Ruby 3.2 the process could crash if garbage collection were observed while a Ractor starts: times in GC, "       \
	"collections and allocations are not shown"

#endif
