#ifndef RBPROBE_EVENT_FLAGS_H
#define RBPROBE_EVENT_FLAGS_H

#include <ruby.h>
#include <ruby/debug.h>

#include <stdbool.h>

/*
 * Enabling a global hook without the rewriting of instructions that the VM does for it: with the events that it remembers as having been enabled
 * before, it rewrites nothing. Job context, GVL held.
 */

/*
 * Whether that can be done: finds out, the first time, where the VM keeps these events, and tries it on code of our own. May raise.
 */
bool event_flags_ready(void);
/* The same: why not, or NULL. */
const char *event_flags_unready(void);
/* Whether it has been tried. */
bool event_flags_tried(void);

/*
 * Until event_flags_release() the VM takes these events for enabled before; code that is compiled meanwhile is made for them. In between, no more may happen than
 * enabling a hook, and what code of our own needs: a hook that the application enables meanwhile would miss its events. event_flags_ready() first.
 */
void event_flags_hold(rb_event_flag_t events);
void event_flags_release(void);

#endif
