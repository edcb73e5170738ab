/*
 * Which exceptions and objects a session shows: the conditions of its trace that are not about a call. Context: event, GVL held,
 * but for mark_conditions_open(). Where an object is made nothing may be allocated, nor anything of Ruby's be called: there a
 * thread is known by its native id, or by what a job has found out before.
 */

#include "tracee/observe/marks.h"

#include "tracee/base/ticks.h"
#include "tracee/frame/frame.h"
#include "tracee/observe/observe_quick.h"
#include "tracee/vm/fiber.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Also nothing: no thread is asked for. */
static bool is_id(struct slice thread)
{
	return strspn(thread.bytes ? thread.bytes : "", "0123456789") == thread.size;
}

void mark_conditions_open(struct session *session)
{
	const struct decider *decider = session->decider;

	session->mark_state->asks = decider && (decider->within || decider->outside || decider->conditions.thread.size ||
	                                        decider->conditions.every || decider->conditions.rate);
	if (session->mark_state->allocation_count && decider && !is_id(decider->conditions.thread))
		mark_threads_open(session);
}

/* An event: where it happens. */
struct place {
	const struct call_stack *stack;
	uintptr_t frame; /* frame_of_call(); 0: not known */
};

/* So many calls are open. Those that began deeper than this frame are over, though no event told of it. */
static uint32_t depth_of(const struct place *place)
{
	uint32_t from = 0, to = place->stack->depth;

	while (place->frame && from < to) {
		uint32_t middle = from + (to - from) / 2;
		uintptr_t frame = place->stack->calls[middle].frame;

		if (frame && frame < place->frame)
			to = middle;
		else
			from = middle + 1;
	}
	return to;
}

/* Further out than this nobody looks whether a call is really open. */
#define OPEN_LOOK_MAX 256u

/* Whether a call with this role is open. One that a SystemStackError has unwound stays on the stack for a while. */
static bool is_inside(const struct place *place, enum selector_role role)
{
	uint32_t depth, end;

	if (!(role == ROLE_WITHIN ? place->stack->within : place->stack->outside))
		return false;
	depth = depth_of(place);
	end = depth > OPEN_LOOK_MAX ? depth - OPEN_LOOK_MAX : 0;
	for (uint32_t i = depth; i > end; i--) {
		const struct open_call *call = &place->stack->calls[i - 1];

		/* Its frame's place is in use: it is the event's, or further out. */
		if (call->roles & 1u << role && (!place->frame || !call->frame || !observe_is_gone(call)))
			return true;
	}
	return end > 0;
}

static bool is_in_scope(const struct decider *decider, const struct place *place)
{
	return (!decider->within || is_inside(place, ROLE_WITHIN)) && (!decider->outside || !is_inside(place, ROLE_OUTSIDE));
}

/* For any event that begins no call. */
static uintptr_t frame_of_event(rb_trace_arg_t *trace_arg)
{
	return frame_of_call(trace_arg, 0, NULL);
}

enum mark_verdict mark_verdict_counted(struct session *session, enum mark_kind kind)
{
	struct mark_quota *quota = &session->mark_state->quotas[kind];

	if (!session->mark_state->asks)
		return MARK_SHOWN;
	return decide_is_counted_in(session->decider, &quota->met, &quota->window, ticks_now()) ? MARK_SHOWN : MARK_LEFT_OUT;
}

enum mark_verdict mark_verdict_raise(struct session *session, struct fiber_state *fiber, rb_trace_arg_t *trace_arg)
{
	const struct decider *decider = session->decider;
	struct call_stack *stack = &fiber->stacks[session->slot];

	if (!session->mark_state->asks)
		return MARK_SHOWN;
	if (!is_in_scope(decider, &(struct place){stack, frame_of_event(trace_arg)}) ||
	    (decider->conditions.thread.size && !decide_is_thread_meant(session, stack, NULL)))
		return MARK_LEFT_OUT;
	return mark_verdict_counted(session, MARK_RAISE);
}

static enum mark_verdict verdict_of_thread(const struct session *session)
{
	struct slice thread = session->decider->conditions.thread;

	if (!is_id(thread))
		return mark_threads_verdict(session);
	return strtoul(thread.bytes, NULL, 10) == (unsigned long)syscall(SYS_gettid) ? MARK_SHOWN : MARK_LEFT_OUT;
}

enum mark_verdict mark_verdict_allocation(struct session *session, const struct fiber_state *fiber, bool told,
                                          rb_trace_arg_t *trace_arg)
{
	static const struct call_stack nothing_open;
	const struct decider *decider = session->decider;

	if (!session->mark_state->asks)
		return MARK_SHOWN;
	if (decider->within || decider->outside) {
		if (!fiber && !told)
			return MARK_UNKNOWN;
		if (!is_in_scope(decider, &(struct place){fiber ? &fiber->stacks[session->slot] : &nothing_open,
		                                          frame_of_event(trace_arg)}))
			return MARK_LEFT_OUT;
	}
	return decider->conditions.thread.size ? verdict_of_thread(session) : MARK_SHOWN;
}

void mark_count_unshown(struct session *session, enum mark_verdict verdict)
{
	session->mark_count++;
	if (verdict == MARK_LEFT_OUT)
		session->marks_left_out++;
	else
		session->marks_lost++;
}
