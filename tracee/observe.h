#ifndef RBPROBE_OBSERVE_H
#define RBPROBE_OBSERVE_H

#include "call.h"
#include "selection.h"

#include <ruby.h>
#include <ruby/debug.h>

struct fiber_state;
struct frame_end;

/*
 * From the VM's events to the session's records. Event context: the GVL is held, inside the traced call. fiber is fiber_current_state(), which the
 * callback asks for first: without one it is in another Ractor. anchor is FRAME_ANCHOR() of the TracePoint's own C function. The path without
 * values allocates nothing but what a deeper stack of calls needs.
 */
void observe_call(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                  const void *anchor);
void observe_return(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                    const void *anchor);

/*
 * The same for engine patch, which knows the frame, and has the call itself in its hands. observe_begin() says whether the call is followed now; then, and only then,
 * observe_over() has to come when it ends. *jump is set to a state for rb_jump_tag() where the thread must not go on.
 */
bool observe_begin(struct probe *probe, struct fiber_state *fiber, const struct seen_call *call, int *jump);
/* For the session in this slot. end is complete, also its value. */
void observe_over(unsigned slot, struct fiber_state *fiber, const struct frame_end *end, int *jump);

/* A fiber is collected: calls that are still open end here. True where all clients that know it are told. During GC. */
bool observe_fiber_died(struct fiber_state *fiber);

#endif
