#ifndef RBPROBE_OBSERVE_H
#define RBPROBE_OBSERVE_H

#include "selection.h"

#include <ruby.h>
#include <ruby/debug.h>

/*
 * From the VM's events to the session's records. Event context: the GVL is held (or the caller is in another Ractor, which is noticed), inside
 * the traced call. anchor is FRAME_ANCHOR() of the TracePoint's own C function. The path without values allocates only when it meets a fiber
 * for the first time.
 */
void observe_call(struct probe *probe, rb_trace_arg_t *trace_arg, rb_event_flag_t event, const void *anchor);
void observe_return(struct probe *probe, rb_trace_arg_t *trace_arg, rb_event_flag_t event, const void *anchor);

struct fiber_state;
/* A fiber is collected with calls open: they end here. During GC. */
void observe_fiber_died(struct fiber_state *fiber);

#endif
