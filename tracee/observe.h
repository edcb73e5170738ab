#ifndef RBPROBE_OBSERVE_H
#define RBPROBE_OBSERVE_H

#include "selection.h"

#include <ruby.h>
#include <ruby/debug.h>

struct fiber_state;

/*
 * From the VM's events to the session's records. Event context: the GVL is held, inside the traced call. fiber is fiber_current_state(), which the
 * callback asks for first: without one it is in another Ractor. anchor is FRAME_ANCHOR() of the TracePoint's own C function. The path without
 * values allocates nothing but what a deeper stack of calls needs.
 */
void observe_call(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                  const void *anchor);
void observe_return(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                    const void *anchor);

/* A fiber is collected: calls that are still open end here. True where all clients that know it are told. During GC. */
bool observe_fiber_died(struct fiber_state *fiber);

#endif
