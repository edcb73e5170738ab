#ifndef RBPROBE_OBSERVE_QUICK_H
#define RBPROBE_OBSERVE_QUICK_H

#include "fiber.h"
#include "frame_direct.h"
#include "selection.h"
#include "session.h"
#include "ticks.h"

/*
 * What observe_call() and observe_return() come to where nothing is out of the ordinary: no values, no new fiber, no frames that vanished, room in the ring. Event
 * context. Both say whether that was so; where not, nothing has happened yet, and the caller goes the long way.
 *
 * Here no Ruby code runs, nothing allocates and no other thread gets in between, so the session need not be held.
 */

static inline bool observe_is_ordinary(const struct session *session, const struct fiber_state *fiber)
{
	return !atomic_load_explicit(&session->gone, memory_order_relaxed) && !session->detaching && !fiber->own;
}

/* Whether an open call further out than the frame at hand is over, though no event told of its end. */
static inline bool observe_is_gone(const struct open_call *call)
{
	return call->told && frame_direct_is_gone(call->frame, call->probe->callee_id, call->probe->owner);
}

/* frame: of the call, not 0. told: frame_direct_is_call_of() says that this is its frame. */
static inline bool observe_quick_call(struct probe *probe, struct fiber_state *fiber, uintptr_t frame, bool told)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct open_call *call = &stack->calls[stack->depth];
	struct ring_record record = {.kind = RING_START, .method = probe->ref, .fiber = fiber->ref};

	if (__builtin_expect(!observe_is_ordinary(session, fiber) || probe->expressions || probe->only_kind_of != Qundef ||
	                             probe->waiting || !stack->defined || stack->depth == stack->size ||
	                             (stack->depth && (call[-1].frame <= frame || observe_is_gone(&call[-1]))) ||
	                             !ring_has_room(&session->ring, 0),
	                     0))
		return false;
	session->calls++;
	stack->depth++;
	call->frame = frame;
	call->probe = probe;
	call->retries = 0;
	call->told = told;
	record.time = ticks_now();
	call->start = ring_push_start(&session->ring, &record, NULL, 0);
	return true;
}

/* A return with a value that nobody asked for. frame: of the call, not 0. */
static inline bool observe_quick_return(const struct probe *probe, struct fiber_state *fiber, uintptr_t frame)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	const struct open_call *call = &stack->calls[stack->depth - 1];
	struct ring_record record = {.kind = RING_END, .ending = ENDING_RETURNED, .method = probe->ref, .fiber = fiber->ref};

	if (__builtin_expect(!observe_is_ordinary(session, fiber) || stack->depth == 0 || call->frame != frame ||
	                             call->probe != probe || call->retries || (session->options.flags & TRACE_RESULT),
	                     0))
		return false;
	stack->depth--;
	record.time = ticks_now();
	if (call->start != RING_NOWHERE)
		ring_push_end(&session->ring, call->start, &record, NULL, 0);
	return true;
}

#endif
