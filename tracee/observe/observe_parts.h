#ifndef RBPROBE_OBSERVE_PARTS_H
#define RBPROBE_OBSERVE_PARTS_H

#include "proto/wire.h"
#include "tracee/observe/observe.h"
#include "tracee/observe/overhead.h"
#include "tracee/vm/quiet.h"

#include <ruby.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the observe_*.c share, and nobody else sees: observe_start.c (calls that begin, lines), observe_end.c (calls that end),
 * observe_patched.c (both, of patched C functions), observe_values.c and observe_fiber.c. Event context, GVL held.
 */

struct call_stack;
struct open_call;

/* Values that are being made. They may run Ruby code, and so let other threads' events and our own jobs in between. */
struct making {
	struct session *session;
	struct fiber_state *fiber;
	struct quiet quiet; /* a patched method is not called by a hook of the VM's */
	char *buffer;
	size_t size;
	int jump;
	struct overhead_making measured;
	uint64_t ended; /* ticks; 0: not known yet */
};

/*
 * making_end() has to come, whatever is made in between. jump: of what the thread is about to do; 0: nothing. now: in ticks.
 * in_hook: it is known that the VM runs a hook, so that nobody hears anything.
 */
void making_begin(struct making *making, struct session *session, struct fiber_state *fiber, int jump, uint64_t now,
                  bool in_hook);
void making_end(struct making *making);

/* The client has to know a fiber before it sees its events. Returns a state for rb_jump_tag(), or 0. */
int observe_announce(struct session *session, struct fiber_state *fiber);

/* Whether calls on this receiver are to be shown. */
bool observe_is_meant(const struct probe *probe, VALUE receiver);

/* The start of a call, with its values. Whether the call is open now. */
bool observe_start_call(struct probe *probe, struct fiber_state *fiber, const struct seen_call *seen, const void *payload,
                        size_t payload_size);

/* The same, with the values that its probe asks for. *jump is set to a state for rb_jump_tag(), or stays. */
bool observe_start(struct probe *probe, struct fiber_state *fiber, struct seen_call *seen, int *jump);

/*
 * What comes before the start of a call: it may run Ruby code of ours, and let in what other threads send to this one. Whether
 * the call may be followed. *jump is set to a state for rb_jump_tag(), or stays.
 */
bool observe_prepare(struct probe *probe, struct fiber_state *fiber, VALUE receiver, int *jump);

/* After that: whether the conditions let the call begin; seen->hidden: not for itself. *jump as above. */
bool observe_is_followed(struct probe *probe, struct fiber_state *fiber, struct seen_call *seen, int *jump);

/* The end of a call whose start is in the ring, or kept. time: in ticks. */
void observe_push_end(struct session *session, struct fiber_state *fiber, const struct open_call *call, enum ending ending,
                      uint64_t time, const void *payload, size_t payload_size);

/* A call of which nothing is shown. */
void observe_count_lost(struct session *session);

/* Frames that are gone without an event, as those that a SystemStackError unwinds. */
void observe_end_unseen(struct session *session, struct fiber_state *fiber, struct call_stack *stack);

/* Those that are over, whatever began at this frame. */
void observe_end_gone(struct session *session, struct fiber_state *fiber, struct call_stack *stack, uintptr_t frame);

/* The end of the innermost open call, without values. */
void observe_end_call(struct session *session, struct fiber_state *fiber, struct call_stack *stack, const struct frame_end *end);

/* Whether Ruby code may run at the end of a call: for its values, or a condition. */
bool observe_has_values(const struct session *session, const struct frame_end *end);

/* The end of the innermost open call where that is so. Returns a state for rb_jump_tag(), or 0. */
int observe_end_call_with_values(struct session *session, struct fiber_state *fiber, struct call_stack *stack,
                                 const struct frame_end *end, const struct seen_call *seen);

#endif
