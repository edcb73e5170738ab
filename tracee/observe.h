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
/* A call that cannot be shown, and is counted as lost. */
void observe_call_lost(struct probe *probe);
void observe_return(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                    const void *anchor);

/*
 * The same for engine patch, which knows the frame, and has the call itself in its hands. observe_begin() says whether the call is followed now; then, and only then,
 * observe_over() has to come when it ends. Where another thread has sent something to this one meanwhile, both raise it, after leave(data): that must not raise,
 * nor set rb_errinfo().
 */
struct leaving {
	void (*leave)(void *data);
	void *data;
};
bool observe_begin(struct probe *probe, struct fiber_state *fiber, const struct seen_call *call, const struct leaving *leaving);
/* For the session in this slot. end is complete, also its value. */
void observe_over(unsigned slot, struct fiber_state *fiber, const struct frame_end *end, const struct leaving *leaving);
/* Instead of that, where the thread is about to raise: no value is made. */
void observe_abandoned(unsigned slot, struct fiber_state *fiber, uintptr_t frame);

/* A fiber is collected: calls that are still open end here. True where all clients that know it are told. During GC. */
bool observe_fiber_died(struct fiber_state *fiber);

#endif
