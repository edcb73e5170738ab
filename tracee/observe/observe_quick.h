#ifndef RBPROBE_OBSERVE_QUICK_H
#define RBPROBE_OBSERVE_QUICK_H

#include "tracee/base/ticks.h"
#include "tracee/frame/frame_direct.h"
#include "tracee/observe/call.h"
#include "tracee/observe/probe.h"
#include "tracee/observe/tally.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"

/*
 * What observe_call() and observe_return() come to where nothing is out of the ordinary: no values, no new fiber, no frames that
 * vanished, room in the ring. Event context. Both say whether that was so; where not, nothing has happened yet, and the caller
 * goes the long way.
 *
 * Here no Ruby code runs, nothing allocates and no other thread gets in between, so the session need not be held.
 */

/* Nothing is recorded any more: the client has left, or the session is being disarmed. */
static inline bool observe_is_over(const struct session *session)
{
	return atomic_load_explicit(&session->gone, memory_order_relaxed) || session->detaching;
}

static inline bool observe_is_ordinary(const struct session *session, const struct fiber_state *fiber)
{
	return !observe_is_over(session) && !fiber->suppress_depth;
}

/* Whether an open call further out than the frame at hand is over, though no event told of its end. */
static inline bool observe_is_gone(const struct open_call *call)
{
	return call->told && frame_direct_is_gone(call->frame, call->probe->callee_id, call->probe->owner);
}

/* Puts a call that is shown onto the stack, at its free place. What depends on how calls are sent is the caller's to set. */
static inline void observe_quick_open(struct session *session, struct probe *probe, struct call_stack *stack,
                                      struct open_call *call, uintptr_t frame, bool told)
{
	session->calls++;
	probe->calls++;
	stack->depth++;
	stack->shown++;
	call->frame = frame;
	call->probe = probe;
	call->retries = 0;
	call->told = told;
	call->roles = 1u << ROLE_SHOWN;
	call->values_size = 0;
}

/*
 * The shortest way, for probes of which it is known when they are armed: see enum probe_way. Where the client has left meanwhile,
 * it does no harm. frame: of the call, not 0. told: frame_direct_is_call_of() says that this is its frame.
 */
static inline __attribute__((always_inline)) bool observe_plain_call(struct probe *probe, struct fiber_state *fiber,
                                                                     uintptr_t frame, bool told)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct open_call *call = &stack->calls[stack->depth];

	if (__builtin_expect(probe->way == WAY_LONG || session->detaching || fiber->suppress_depth, 0))
		return false;
	if (probe->way == WAY_COUNTED) {
		session->calls++;
		probe->calls++;
		probe->tally->calls++;
		return true;
	}
	if (__builtin_expect(stack->depth == stack->size || !stack->defined ||
	                             (stack->depth && (call[-1].frame <= frame || observe_is_gone(&call[-1]))),
	                     0))
		return false;
	observe_quick_open(session, probe, stack, call, frame, told);
	call->start = RING_LATER;
	call->tally = probe->tally;
	call->inner = 0;
	call->began = ticks_now_of_tsc();
	return true;
}

/* The end of the innermost call, which is of that probe and began so; way: the probe's. */
static inline __attribute__((always_inline)) bool observe_plain_end(struct session *session, enum probe_way way,
                                                                    struct call_stack *stack, struct open_call *call)
{
	uint64_t elapsed = ticks_now_of_tsc() - call->began;

	/* Where it has been running for so long, its start may be shown already. */
	if (way == WAY_DECIDED && (elapsed >= session->slow_ticks || call->start != RING_LATER))
		return false;
	stack->shown--;
	if (--stack->depth)
		call[-1].inner += elapsed;
	if (way == WAY_DECIDED)
		session->left_out++;
	else
		tally_add_later(session->tallies, call->tally, elapsed, call->inner);
	return true;
}

/* The same where that it is the innermost call has to be seen. */
static inline __attribute__((always_inline)) bool observe_plain_return(const struct probe *probe, struct fiber_state *fiber,
                                                                       uintptr_t frame)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct open_call *call = &stack->calls[stack->depth - 1];

	if (__builtin_expect(probe->way <= WAY_COUNTED || session->detaching || fiber->suppress_depth || stack->depth == 0 ||
	                             call->retries || call->frame != frame || call->roles != 1u << ROLE_SHOWN ||
	                             call->probe != probe,
	                     0))
		return false;
	return observe_plain_end(session, probe->way, stack, call);
}

/* A call of a session that counts. told: see below. */
static inline bool observe_quick_count(struct probe *probe, struct fiber_state *fiber, uintptr_t frame, bool told)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct open_call *call = &stack->calls[stack->depth];

	if (__builtin_expect(!observe_is_ordinary(session, fiber) || session->asks_at_start || session->counts_long ||
	                             probe->only_kind_of != Qundef || probe->waiting || probe->keeps_binding,
	                     0))
		return false;
	if (probe->counts_only) {
		session->calls++;
		probe->calls++;
		probe->tally->calls++;
		return true;
	}
	if (__builtin_expect(
		    stack->depth == stack->size || (stack->depth && (call[-1].frame <= frame || observe_is_gone(&call[-1]))), 0))
		return false;
	observe_quick_open(session, probe, stack, call, frame, told);
	call->start = RING_LATER;
	call->tally = probe->tally;
	call->inner = 0;
	call->began = ticks_now();
	return true;
}

/* The end of the innermost call of a session that counts. False: whether it meets the conditions has to be found out. */
static inline bool observe_quick_tally(const struct probe *probe, struct call_stack *stack, struct open_call *call)
{
	struct session *session = probe->session;
	uint64_t elapsed = ticks_now() - call->began, inner = elapsed;

	if (__builtin_expect(session->asks_at_end, 0)) {
		if (elapsed >= session->slow_ticks)
			return false;
		session->left_out++;
		inner = call->inner;
	} else {
		tally_add_later(session->tallies, call->tally, elapsed, call->inner);
	}
	stack->shown--;
	if (--stack->depth)
		call[-1].inner += inner;
	return true;
}

/* A call that is counted apart. */
static inline void observe_count_apart(struct probe *probe)
{
	probe->session->counted++;
	probe->counted++;
	probe->calls++;
}

/*
 * A call whose values are shown without calling anything. As observe_quick_call(), which leaves calls with values to it; seen:
 * with its frame, not 0.
 */
bool observe_quick_call_with_values(struct probe *probe, struct fiber_state *fiber, const struct seen_call *seen, bool told);

/* frame: of the call, not 0. told: frame_direct_is_call_of() says that this is its frame. */
static inline bool observe_quick_call(struct probe *probe, struct fiber_state *fiber, uintptr_t frame, bool told)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct open_call *call = &stack->calls[stack->depth];
	uint64_t now;

	if (probe->tally)
		return observe_quick_count(probe, fiber, frame, told);
	if (__builtin_expect(probe->only_counted, 0)) {
		if (!observe_is_ordinary(session, fiber) || probe->only_kind_of != Qundef)
			return false;
		observe_count_apart(probe);
		return true;
	}
	if (__builtin_expect(!observe_is_ordinary(session, fiber) || session->asks_at_start || probe->expressions ||
	                             (session->options.flags & TRACE_MEASURES) || probe->only_kind_of != Qundef ||
	                             probe->waiting || probe->keeps_binding || !stack->defined || stack->depth == stack->size ||
	                             (stack->depth && (call[-1].frame <= frame || observe_is_gone(&call[-1]))) ||
	                             !ring_has_room(&session->ring, 0),
	                     0))
		return false;
	observe_quick_open(session, probe, stack, call, frame, told);
	call->began = now = ticks_now();
	if (session->manner == CALLS_STREAMED || probe->always) {
		const struct ring_record record = {.kind = RING_START, .method = probe->ref, .fiber = fiber->ref, .time = now};

		call->start = ring_push_start(&session->ring, &record, NULL, 0);
		session->pushed += probe->always && call->start != RING_NOWHERE;
		return true;
	}
	call->start = RING_LATER;
	return true;
}

/* A return with a value that nobody asked for. frame: of the call, not 0. */
static inline bool observe_quick_return(const struct probe *probe, struct fiber_state *fiber, uintptr_t frame)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct open_call *call = &stack->calls[stack->depth - 1];
	uint64_t now;

	/* In this order: a compiler that reads two fields at once, which were written one by one, makes the processor wait. */
	if (__builtin_expect(!observe_is_ordinary(session, fiber) || stack->depth == 0 || call->retries || call->frame != frame ||
	                             call->roles != 1u << ROLE_SHOWN || call->probe != probe || session->ends_long,
	                     0))
		return false;
	if (probe->tally)
		return observe_quick_tally(probe, stack, call);
	now = ticks_now();
	if (call->start == RING_LATER) {
		if (now - call->began >= session->slow_ticks)
			return false;
		session->left_out++;
	} else if (call->start != RING_NOWHERE) {
		const struct ring_record record = {
			.kind = RING_END, .ending = ENDING_RETURNED, .method = probe->ref, .fiber = fiber->ref, .time = now};

		ring_push_end(&session->ring, call->start, &record, NULL, 0);
	}
	stack->depth--;
	stack->shown--;
	stack->arena_used -= call->values_size;
	return true;
}

#endif
