/* Calls of patched C functions. See observe.h. Context: event, GVL held. */

#include "tracee/observe/observe_parts.h"

#include "tracee/frame/frame.h"
#include "tracee/observe/observe_quick.h"
#include "tracee/session/session.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/fiber.h"

/*
 * Values are made outside of the VM's hooks here, which keep $! as it is: behind an ensure it is kept, too, whatever kind of
 * object it is. So a jump, whose object is in $! as well, has to begin within: after the ensure it would be gone.
 */
struct keeping {
	struct probe *probe;
	struct session *session;
	struct fiber_state *fiber;
	struct seen_call call;
	const struct frame_end *end;
	const struct leaving *leaving;
	bool open;
};

static VALUE keep_nothing(VALUE unused)
{
	return unused;
}

static void jump_from(const struct keeping *keeping, int jump)
{
	if (!jump)
		return;
	keeping->leaving->leave(keeping->leaving->data);
	rb_jump_tag(jump);
}

static VALUE begin_keeping(VALUE argument)
{
	struct keeping *keeping = (struct keeping *)argument;
	struct probe *probe = keeping->probe;
	struct session *session = probe->session;
	int jump = 0;

	session_hold_for(session, keeping->fiber);
	keeping->open = observe_prepare(probe, keeping->fiber, keeping->call.receiver, &jump) &&
	                observe_is_followed(probe, keeping->fiber, &keeping->call, &jump) &&
	                observe_start(probe, keeping->fiber, &keeping->call, &jump);
	if (jump && keeping->open)
		observe_abandoned(session->slot, keeping->fiber, keeping->call.frame);
	session_release_for(session, keeping->fiber);
	jump_from(keeping, jump);
	return Qnil;
}

static VALUE end_keeping(VALUE argument)
{
	struct keeping *keeping = (struct keeping *)argument;

	jump_from(keeping,
	          observe_end_call_with_values(keeping->session, keeping->fiber, &keeping->fiber->stacks[keeping->session->slot],
	                                       keeping->end, &keeping->call));
	return Qnil;
}

bool observe_c_call(struct probe *probe, struct fiber_state *fiber, const struct seen_call *call, const struct leaving *leaving)
{
	struct keeping keeping = {.probe = probe, .fiber = fiber, .call = *call, .leaving = leaving};

	if (observe_is_over(probe->session) || (!probe->waiting && !observe_is_meant(probe, call->receiver)))
		return false;
	if (probe->only_counted) {
		observe_count_apart(probe);
		return false;
	}
	if (!probe->waiting && !probe->expressions && !probe->session->asks_at_start && !probe->session->counts_by &&
	    fiber->stacks[probe->session->slot].defined)
		return observe_start_call(probe, fiber, call, NULL, 0);
	rb_ensure(keep_nothing, Qnil, begin_keeping, (VALUE)&keeping);
	return keeping.open;
}

void observe_c_return(unsigned slot, struct fiber_state *fiber, const struct frame_end *seen_end, const struct seen_call *call,
                      const struct leaving *leaving)
{
	struct call_stack *stack = &fiber->stacks[slot];
	struct frame_end known = *seen_end;
	const struct frame_end *end = &known;
	struct session *session;

	known.own = compat_thread_frames_with_c();
	/* Where the session has ended meanwhile, nothing is left of its calls. */
	if (stack->depth == 0)
		return;
	session = stack->calls[stack->depth - 1].probe->session;
	if (observe_is_over(session))
		return;
	while (stack->depth && stack->calls[stack->depth - 1].frame < end->frame)
		observe_end_unseen(session, fiber, stack);
	if (stack->depth == 0 || stack->calls[stack->depth - 1].frame != end->frame)
		return;
	if (observe_has_values(session, end)) {
		struct keeping keeping = {.session = session, .fiber = fiber, .call = *call, .end = end, .leaving = leaving};

		rb_ensure(keep_nothing, Qnil, end_keeping, (VALUE)&keeping);
	} else {
		observe_end_call(session, fiber, stack, end);
	}
}
