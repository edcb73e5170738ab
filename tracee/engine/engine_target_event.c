/*
 * Events of engine "target". See engine_target.c. Context: event.
 *
 * A site's TracePoint also reports what else runs its instructions, or is written inside of them: an alias, a copy by
 * module_function, a method defined within the method. So each call is compared with the selected name and owner.
 */

#include "tracee/engine/engine_target_sites.h"

#include "tracee/frame/frame.h"
#include "tracee/frame/frame_direct.h"
#include "tracee/observe/observe.h"
#include "tracee/observe/observe_quick.h"
#include "tracee/observe/overhead.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"

#include <ruby/debug.h>

/*
 * The session's probe of that method, among the site's. A method that got its former instructions back has had several: the
 * newest, but for a return the one whose call is open.
 */
static struct probe *probe_in(const struct site *site, const struct session *session, VALUE owner, VALUE callee,
                              const struct fiber_state *returning)
{
	const struct call_stack *stack = returning ? &returning->stacks[session->slot] : NULL;
	const struct probe *open = stack && stack->depth ? stack->calls[stack->depth - 1].probe : NULL;
	struct probe *newest = NULL;

	for (struct probe *probe = probe_table_find(session->probes, owner, callee); probe; probe = probe->former) {
		if (!site_link_of(site, probe))
			continue;
		if (probe == open)
			return probe;
		newest = newest ? newest : probe;
	}
	return newest;
}

/*
 * `alias` in a class finds the original where calls find it: in a module that the class has prepended. A call of such an alias is
 * then, for the VM, one of the module's method by the alias's name.
 */
static struct probe *probe_of_alias(const struct site *site, const struct session *session, VALUE callee, VALUE receiver)
{
	if (site->aliases == 0)
		return NULL;
	for (const struct engine_target_site *link = site->links; link; link = link->next_of_site)
		if (link->aliased && link->probe->session == session && link->probe->armed && link->probe->callee == callee &&
		    RTEST(rb_obj_is_kind_of(receiver, link->probe->owner)))
			return link->probe;
	return NULL;
}

/* The VM is asked what the event is about. */
static void event_asked(struct site *site, VALUE tracepoint, const void *anchor)
{
	rb_trace_arg_t *trace_arg = rb_tracearg_from_tracepoint(tracepoint);
	bool is_return = rb_tracearg_event_flag(trace_arg) == RUBY_EVENT_RETURN;
	struct fiber_state *fiber = fiber_current_state();
	VALUE callee, owner;

	/* In another Ractor nothing but the site itself may be looked at: no GVL protects the rest. */
	if (!fiber) {
		if (!is_return)
			atomic_fetch_add_explicit(&site->foreign_calls, 1, memory_order_relaxed);
		return;
	}
	/* The end of a call is found by its frame: whose it is need not be asked. */
	if (is_return && site->only && frame_identity_known(FRAME_TARGETED)) {
		observe_return(site->only, fiber, trace_arg, RUBY_EVENT_RETURN, anchor);
		return;
	}
	callee = rb_tracearg_callee_id(trace_arg);
	owner = rb_tracearg_defined_class(trace_arg);
	/*
	 * No Ruby code runs but within observe_call() and observe_return(), which hold the session: the next one is still there
	 * behind them.
	 */
	for (struct session *session = session_first(); session; session = session->next) {
		struct probe *probe = probe_in(site, session, owner, callee, is_return ? fiber : NULL);

		if (!probe)
			probe = probe_of_alias(site, session, callee, rb_tracearg_self(trace_arg));
		if (!probe || (probe->let_go && !is_return))
			continue;
		if (is_return)
			observe_return(probe, fiber, trace_arg, RUBY_EVENT_RETURN, anchor);
		else
			observe_call(probe, fiber, trace_arg, RUBY_EVENT_CALL, anchor);
	}
}

/* True where nothing has to be asked: the frame shows what the event is about. */
static inline bool event_read(struct site *site, const void *anchor)
{
	const struct frame_site *place = frame_site_by(&site->places, anchor);
	rb_trace_arg_t *trace_arg = (rb_trace_arg_t *)frame_direct_trace_arg(place, anchor);
	struct probe *probe = site->only;
	struct fiber_state *fiber;
	uintptr_t frame;

	if (!trace_arg || !probe)
		return false;
	fiber = fiber_state_of_context(frame_direct_context(trace_arg));
	if (!fiber)
		return false;
	frame_note_plain(&site->places, place);
	frame = frame_direct_frame(trace_arg);
	if (frame_direct_event(trace_arg) == RUBY_EVENT_CALL) {
		if (!frame_direct_is_call_of(frame, probe->callee_id, probe->owner))
			return false;
		if (probe->let_go)
			return true;
		if (observe_quick_call(probe, fiber, frame, true))
			return true;
		if (!probe->expressions ||
		    !observe_quick_call_with_values(
			    probe, fiber, &(struct seen_call){.frame = frame, .trace_arg = trace_arg, .event = RUBY_EVENT_CALL},
			    true))
			observe_call(probe, fiber, trace_arg, RUBY_EVENT_CALL, anchor);
		return true;
	}
	/* Where frames are unwound, how they end has to be found out. */
	return place->kind == SITE_RETURNED && place->bias == 0 && observe_quick_return(probe, fiber, frame);
}

static __attribute__((noinline)) void event_slowly(struct site *site, VALUE tracepoint, const void *anchor)
{
	struct overhead_sample sample = overhead_sample_begin(overhead_is_sampled());

	if (!event_read(site, anchor))
		event_asked(site, tracepoint, anchor);
	overhead_sample_end(sample);
}

/* The same for a probe that has a way: calls no function, which makes it twice as fast. */
static inline __attribute__((always_inline)) bool event_plain(const struct site *site, struct probe *probe, const void *anchor)
{
	const rb_trace_arg_t *trace_arg = frame_plain_trace_arg(&site->places, SITE_CALL, anchor);
	bool may_return = !trace_arg;
	struct fiber_state *fiber;

	if (may_return)
		trace_arg = frame_plain_trace_arg(&site->places, SITE_RETURNED, anchor);
	if (__builtin_expect(!trace_arg, 0))
		return false;
	fiber = fiber_noted(fiber_notes, frame_direct_context(trace_arg));
	if (__builtin_expect(!fiber, 0))
		return false;
	if (frame_direct_event(trace_arg) == RUBY_EVENT_CALL)
		return frame_direct_is_call_of(frame_direct_frame(trace_arg), probe->callee_id, probe->owner) &&
		       observe_plain_call(probe, fiber, frame_direct_frame(trace_arg), true);
	return may_return && observe_plain_return(probe, fiber, frame_direct_frame(trace_arg));
}

void engine_target_event(VALUE tracepoint, void *data)
{
	const void *anchor = FRAME_ANCHOR();
	struct site *site = data;
	struct probe *probe = site->only;

	watched_code_event(&site->watched);
	if (!overhead_sampled() && probe && probe->way != WAY_LONG && event_plain(site, probe, anchor))
		return;
	event_slowly(site, tracepoint, anchor);
}
