#ifndef RBPROBE_EVENT_FLAGS_H
#define RBPROBE_EVENT_FLAGS_H

#include <ruby.h>
#include <ruby/debug.h>

#include <stdbool.h>

/*
 * Enabling a global hook without the rewriting of instructions that the VM does for it: with the events that it remembers as
 * having been enabled before, it rewrites nothing. Job context, GVL held.
 */

/*
 * Whether that can be done: finds out, the first time, where the VM keeps these events, and tries it on code of our own. May
 * raise.
 */
bool event_flags_ready(void);
/* The same: why not, or NULL. */
const char *event_flags_unready(void);
/* Whether it has been tried. */
bool event_flags_tried(void);

/* Looks for the place alone, once: before a hook is added for good that is for threads, with which it could not be found. */
void event_flags_look(void);

/*
 * Until event_flags_release() the VM takes these events for enabled before; code that is compiled meanwhile is made for them. In
 * between, no more may happen than enabling a hook, and what code of our own needs: a hook that the application enables meanwhile
 * would miss its events. event_flags_ready() first.
 */
void event_flags_hold(rb_event_flag_t events);
void event_flags_release(void);

/*
 * Light hooks are global ones of these events alone, for which nothing was rewritten. Whatever makes the VM look at its list of
 * hooks would make it rewrite for all that are in it: while any is on, that stands between these two calls, which do nothing
 * otherwise. GVL.
 */
#define EVENT_FLAGS_LIGHT (RUBY_EVENT_C_CALL | RUBY_EVENT_C_RETURN)
extern unsigned event_flags_light_hooks; /* how many are on */
void event_flags_hold_light(void);
void event_flags_release_light(void);

/*
 * After a targeted TracePoint was disabled: that takes the instructions away by which global hooks for CALL and RETURN hear of
 * methods that define_method made of its block, and the VM does not put them back (iseq_remove_local_tracepoint() in iseq.c, 3.0
 * to 4.1-dev). Where there has ever been such a hook of the application's, this has the VM rewrite all code once more. That looks
 * at each object of the heap, and drops what YJIT has compiled.
 */
enum event_flags_mended {
	EVENT_FLAGS_LATER, /* light hooks are on, or other Ractors run */
	EVENT_FLAGS_WELL,  /* there was nothing to do, or nothing that can be done */
	EVENT_FLAGS_REWRITTEN,
};
enum event_flags_mended event_flags_mend(void);

/* compat_restore_global_events() without consequences for hooks that are on. */
void event_flags_restore_global(void);

#endif
