#ifndef RBPROBE_OBSERVE_H
#define RBPROBE_OBSERVE_H

#include "tracee/observe/call.h"
#include "tracee/observe/probe.h"

#include <ruby.h>
#include <ruby/debug.h>

struct fiber_state;
struct frame_end;
struct session;

/*
 * From the VM's events to the session's records. Event context: the GVL is held, inside the traced call. fiber is
 * fiber_current_state(), which the callback asks for first: without one it is in another Ractor. anchor is FRAME_ANCHOR() of the
 * TracePoint's own C function. The path without values allocates nothing but what a deeper stack of calls needs.
 */
void observe_call(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                  const void *anchor);
/* The same for a line of a method (RUBY_EVENT_LINE), which is an event of its own and has no end. */
void observe_line(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, const void *anchor);
/*
 * Notes what has to be done for calls of the probe. Behind all that a probe is armed with, and again where its kinds, its
 * expressions or what it waits for change. Job or event context.
 */
void observe_choose_way(struct probe *probe);
/* A call that cannot be shown, and is counted as lost. */
void observe_call_lost(struct probe *probe);
void observe_return(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                    const void *anchor);

/*
 * The same for engine patch, which knows the frame, and has the call itself in its hands. observe_c_call() says whether the call
 * is followed now; then, and only then, observe_c_return() has to come when it ends. Where another thread has sent something to
 * this one meanwhile, both raise it, after leave(data): that must not raise, nor set rb_errinfo().
 */
struct leaving {
	void (*leave)(void *data);
	void *data;
};
/* Both are for what observe_quick_call() and observe_quick_return() leave to them. */
bool observe_c_call(struct probe *probe, struct fiber_state *fiber, const struct seen_call *call, const struct leaving *leaving);
/* For the session in this slot. end is complete, also its value; call is what observe_c_call() got. */
void observe_c_return(unsigned slot, struct fiber_state *fiber, const struct frame_end *end, const struct seen_call *call,
                      const struct leaving *leaving);
/* Instead of that, where the thread is about to raise: no value is made. */
void observe_abandoned(unsigned slot, struct fiber_state *fiber, uintptr_t frame);

/*
 * Who sees to what probes wait for when a class has its name (probe->waiting). Returns what aside_protect() does; raises nothing.
 * At Init.
 */
void observe_register_names(int (*look)(struct probe *probe));

/* The session goes on in a forked child: the calls that were open are the parent's. Async-signal-safe. */
void observe_fork_child(struct session *session);

/*
 * The trace is over: calls that are open, and of which nothing is in the ring, are left out. Job context, or as the process
 * exits.
 */
void observe_settle(struct session *session);

/*
 * The client has to know a fiber before it sees its events. Nothing is let in meanwhile that others send to the thread. Event
 * context, of any kind of event that may allocate; raises nothing. False: it does not know it.
 */
bool observe_introduce(struct session *session, struct fiber_state *fiber);
/* --overflow=block: waits until the client has read, so that a record of this size fits. Event context. */
void observe_wait_for_room(struct session *session, size_t payload_size);

/* A fiber is collected: calls that are still open end here. True where all clients that know it are told. During GC. */
bool observe_fiber_died(struct fiber_state *fiber);

#endif
