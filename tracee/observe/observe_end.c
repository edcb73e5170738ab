/* From an event to the end of a call; ends that nobody saw. See observe.h. Context: event, GVL held; GC, where a fiber dies. */

#include "tracee/observe/observe_parts.h"

#include "tracee/base/ticks.h"
#include "tracee/frame/frame.h"
#include "tracee/observe/callers.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/expression.h"
#include "tracee/observe/kept.h"
#include "tracee/observe/measure.h"
#include "tracee/observe/observe_quick.h"
#include "tracee/observe/tally_tree.h"
#include "tracee/session/session.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/interrupts.h"

/* The start of a call that is shown after all. Its values are still in the arena: it was the innermost one. */
static void push_late_start(struct session *session, const struct fiber_state *fiber, const struct call_stack *stack,
                            struct open_call *call)
{
	struct ring_record record = {.kind = RING_START, .method = call->probe->ref, .fiber = fiber->ref, .time = call->began};

	if (session->options.overflow == OVERFLOW_BLOCK)
		observe_wait_for_room(session, call->values_size);
	call->start = ring_push_start(&session->ring, &record, stack->arena + stack->arena_used, call->values_size);
	session->pushed += call->start != RING_NOWHERE;
}

/* A call that was taken off the stack, where calls are counted. The others as below. */
static void count_end(struct session *session, struct fiber_state *fiber, struct call_stack *stack, const struct open_call *call,
                      uint64_t time, const struct ended_call *ended, int *jump)
{
	uint64_t elapsed = call->inner;

	if (call->start == RING_LATER && (!session->asks_at_end || decide_end(fiber, call, time, ended, jump))) {
		/* The expression that decided let other threads run, and what was counted has been sent meanwhile. */
		if (session->tallies->told) {
			session->left_out++;
			return;
		}
		/* Its time is that of the call around it. */
		if (call->roles & CALL_FOLDED) {
			tally_tree_fold(session->tallies->tree, call);
			return;
		}
		elapsed = time - call->began;
		tally_add_later(session->tallies, call->tally, elapsed, call->inner);
		if (ended && ended->end && ended->end->ending == FRAME_RAISED)
			call->tally->errors++;
		if (session->options.flags & TRACE_MEASURES)
			tally_add_measured(call->tally, ended ? ended->measured : NULL);
	}
	if (stack->depth)
		stack->calls[stack->depth - 1].inner += elapsed;
}

/*
 * Whether anything is to be said of the end of a call that was taken off the stack: then its start is in the ring. ended: NULL
 * where nobody saw it. *jump is set to a state for rb_jump_tag(), or stays.
 */
static bool is_shown(struct session *session, struct fiber_state *fiber, struct call_stack *stack, struct open_call *call,
                     uint64_t time, const struct ended_call *ended, int *jump)
{
	if (session->manner == CALLS_COUNTED) {
		count_end(session, fiber, stack, call, time, ended, jump);
		return false;
	}
	if (call->roles & CALL_KEPT) {
		/* It may be shown because of a call around it. */
		call->met = kept_is_told(stack, call) || decide_end(fiber, call, time, ended, jump);
		return true;
	}
	if (call->start == RING_LATER && decide_end(fiber, call, time, ended, jump))
		push_late_start(session, fiber, stack, call);
	return call->start < RING_LATER;
}

void observe_push_end(struct session *session, struct fiber_state *fiber, const struct open_call *call, enum ending ending,
                      uint64_t time, const void *payload, size_t payload_size)
{
	struct ring_record record = {.kind = RING_END,
	                             .ending = (uint8_t)ending,
	                             .method = call->probe->ref,
	                             .fiber = fiber->ref,
	                             .duration = call->retries,
	                             .time = time};

	if (call->roles & CALL_KEPT) {
		kept_end(session, fiber, call, ending, time, payload, payload_size);
		return;
	}
	/* A record of a whole call has no place for them. */
	if (call->retries)
		ring_release(&session->ring);
	ring_push_end(&session->ring, call->start, &record, payload, payload_size);
}

/* A call of which nothing is shown. */
void observe_count_lost(struct session *session)
{
	session->calls++;
	ring_count_lost(&session->ring, ticks_now());
}

/* Frames that are gone without an event, as those that a SystemStackError unwinds. */
void observe_end_unseen(struct session *session, struct fiber_state *fiber, struct call_stack *stack)
{
	struct open_call call = call_stack_pop(stack);
	uint64_t time = ticks_now();
	int jump = 0;

	if (is_shown(session, fiber, stack, &call, time, NULL, &jump))
		observe_push_end(session, fiber, &call, ENDING_UNKNOWN, time, NULL, 0);
}

/* Those that are over, whatever began at this frame. */
void observe_end_gone(struct session *session, struct fiber_state *fiber, struct call_stack *stack, uintptr_t frame)
{
	while (frame && stack->depth) {
		const struct open_call *innermost = &stack->calls[stack->depth - 1];

		if (innermost->frame > frame ? !observe_is_gone(innermost) : innermost->frame == frame)
			return;
		observe_end_unseen(session, fiber, stack);
	}
}

/* The open call that a return event is about, NULL for one that began before we came; what lies deeper is ended on the way. */
static const struct open_call *find_call(struct session *session, struct fiber_state *fiber, struct call_stack *stack,
                                         const struct probe *probe, uintptr_t frame)
{
	uint32_t depth = stack->depth;

	if (frame) {
		while (stack->depth && stack->calls[stack->depth - 1].frame < frame)
			observe_end_unseen(session, fiber, stack);
		if (stack->depth && stack->calls[stack->depth - 1].frame == frame &&
		    probe_is_same_method(stack->calls[stack->depth - 1].probe, probe))
			return &stack->calls[stack->depth - 1];
		return NULL;
	}
	while (depth && !probe_is_same_method(stack->calls[depth - 1].probe, probe))
		depth--;
	if (depth == 0)
		return NULL;
	while (stack->depth > depth)
		observe_end_unseen(session, fiber, stack);
	return &stack->calls[depth - 1];
}

static enum ending ending_of(enum frame_ending ending)
{
	static const enum ending endings[] = {
		[FRAME_ENDED] = ENDING_UNKNOWN, [FRAME_RETURNED] = ENDING_RETURNED, [FRAME_RAISED] = ENDING_RAISED,
		[FRAME_THROWN] = ENDING_THROWN, [FRAME_KILLED] = ENDING_KILLED,
	};

	return endings[ending];
}

/* Whether a call that was taken off the stack is to be measured now: not where it will not be shown. */
static bool is_measured(const struct session *session, const struct open_call *call, uint64_t time)
{
	return session->options.flags & TRACE_MEASURES && call->start != RING_NOWHERE &&
	       (call->start != RING_LATER || call->roles & CALL_KEPT || time - call->began >= session->slow_ticks);
}

/* The end of the innermost open call, without values. */
void observe_end_call(struct session *session, struct fiber_state *fiber, struct call_stack *stack, const struct frame_end *end)
{
	struct open_call call = call_stack_pop(stack);
	uint64_t time = ticks_now();
	bool is_to_measure = is_measured(session, &call, time);
	struct measured measured;
	char numbers[MEASURE_SIZE_MAX];
	size_t size = 0;
	int jump = 0;

	if (is_to_measure)
		measure_end(&measured, fiber, &call, session->options.flags);
	if (!is_shown(session, fiber, stack, &call, time,
	              &(struct ended_call){.end = end, .measured = is_to_measure ? &measured : NULL}, &jump))
		return;
	if (is_to_measure && session->options.flags & TRACE_STACK)
		measured.stack = callers_take(session, end->own);
	if (is_to_measure)
		size = measure_append(&measured, session->options.flags, numbers, 0);
	observe_push_end(session, fiber, &call, ending_of(end->ending), time, numbers, size);
}

static bool wants_result(const struct session *session)
{
	return session->options.flags & TRACE_RESULT;
}

/* Whether Ruby code may run at the end of a call: for its values, or a condition. */
bool observe_has_values(const struct session *session, const struct frame_end *end)
{
	if (session->manner == CALLS_COUNTED)
		return (end->ending == FRAME_RAISED && session->decider->conditions.raised.size) ||
		       ((end->ending == FRAME_RAISED || end->ending == FRAME_RETURNED) && session->tests_end);
	return end->ending == FRAME_RAISED ||
	       (end->ending == FRAME_RETURNED &&
	        ((end->value != Qundef && wants_result(session)) || session->tests_end || session->shows_ends));
}

/* Whether variables or expressions are shown, and can be had: of code in Ruby only where its variables can. */
static bool has_ends(const struct probe *probe, const struct frame_end *end, const struct seen_call *seen)
{
	return probe->ends && (end->ending == FRAME_RETURNED || end->ending == FRAME_RAISED) &&
	       (seen->ends_in_frame || seen->binding || seen->event != RUBY_EVENT_RETURN);
}

/* Appended to the outcome. */
static void make_ends(struct making *making, const struct open_call *call, const struct frame_end *end,
                      const struct seen_call *seen, size_t room, uint64_t time)
{
	struct call_outcome outcome = decide_outcome(call, time, end);
	struct seen_call ended = *seen;

	ended.outcome = &outcome;
	making->size = expression_append_ends(call->probe->ends, &ended, &making->session->options, making->buffer, making->size,
	                                      room, &making->jump);
	RB_GC_GUARD(outcome.result);
	RB_GC_GUARD(outcome.error);
}

/* The values of an end that is shown. */
static void make_values(struct making *making, const struct open_call *call, const struct frame_end *end,
                        const struct seen_call *seen, size_t room, uint64_t time)
{
	const struct trace_options *options = &making->session->options;

	if (!making->buffer)
		return;
	if (end->ending == FRAME_RAISED)
		making->size = expression_render_exception(end->exception, options, making->buffer, room, &making->jump);
	else if (wants_result(making->session) && end->value != Qundef)
		making->size = expression_render_result(end->value, options, making->buffer, room, &making->jump);
	if (has_ends(call->probe, end, seen) && !observe_is_over(making->session))
		make_ends(making, call, end, seen, room, time);
}

/* The same where there are. Returns a state for rb_jump_tag(), or 0. */
int observe_end_call_with_values(struct session *session, struct fiber_state *fiber, struct call_stack *stack,
                                 const struct frame_end *end, const struct seen_call *seen)
{
	struct open_call call = call_stack_pop(stack);
	uint64_t time = ticks_now();
	bool is_to_measure = is_measured(session, &call, time);
	size_t room = VALUES_SIZE_MAX - (is_to_measure ? MEASURE_SIZE_MAX : 0);
	struct measured measured;
	const struct ended_call ended = {end, seen, is_to_measure ? &measured : NULL};
	struct making making;
	bool shown;

	if (call.start == RING_NOWHERE) {
		is_shown(session, fiber, stack, &call, time, &ended, &(int){0});
		return 0;
	}
	if (is_to_measure)
		measure_end(&measured, fiber, &call, session->options.flags);
	session_hold_for(session, fiber);
	making_begin(&making, session, fiber, 0, time, seen->trace_arg != NULL);
	if (call.roles & CALL_KEPT)
		stack->kept_ending = call.kept + 1;
	shown = is_shown(session, fiber, stack, &call, time, &ended, &making.jump);
	if (shown && is_to_measure && session->options.flags & TRACE_STACK)
		measured.stack = callers_take(session, end->own);
	if (shown)
		make_values(&making, &call, end, seen, room, time);
	if (shown && is_to_measure && making.buffer)
		making.size = measure_append(&measured, session->options.flags, making.buffer, making.size);
	stack->kept_ending = 0;
	if (shown && !observe_is_over(session))
		observe_push_end(session, fiber, &call, ending_of(end->ending), time, making.buffer, making.size);
	making_end(&making);
	session_release_for(session, fiber);
	/*
	 * It would take the place of the exception that ends the call. A kill may, and so may a throw, and Timeout's own
	 * exception, which has to come before its block is over.
	 */
	if (making.jump && end->ending == FRAME_RAISED && builtin_is_exception(rb_errinfo()) &&
	    RTEST(rb_obj_is_kind_of(rb_errinfo(), rb_eStandardError))) {
		interrupts_send_again(false);
		return 0;
	}
	return making.jump;
}

/* Whether the frame that ends is still the innermost one, and such that rb_profile_frames() has it. */
static bool is_own_on_top(const rb_trace_arg_t *trace_arg, rb_event_flag_t event, uintptr_t frame)
{
	bool is_there = frame_direct_is_known() ? frame_direct_frame(trace_arg) <= frame : event == RUBY_EVENT_RETURN;

	return is_there && (event == RUBY_EVENT_RETURN || compat_thread_frames_with_c());
}

/* Whether the event's frame is that of the call: up to 3.0 a define_method method's is gone when it has returned. */
static bool is_in_frame(const struct probe *probe, const rb_trace_arg_t *trace_arg, rb_event_flag_t event, uintptr_t frame)
{
	if (event != RUBY_EVENT_RETURN || probe->keeps_binding)
		return false;
	return !frame_direct_is_known() || frame_direct_frame(trace_arg) == frame;
}

static int record_return(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                         const void *anchor)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct seen_call seen = {.trace_arg = trace_arg, .event = event};
	const struct open_call *call;
	struct frame_end end;
	bool shows_ends;
	int jump;

	frame_of_return(trace_arg, event, anchor, &end);
	end.own = is_own_on_top(trace_arg, event, end.frame);
	call = find_call(session, fiber, stack, probe, end.frame);
	if (!call)
		return 0;
	seen.ends_in_frame = is_in_frame(call->probe, trace_arg, event, end.frame);
	if (call->roles & CALL_HAS_BINDING)
		seen.binding = call->binding;
	shows_ends = has_ends(call->probe, &end, &seen);
	if (end.ending == FRAME_RETURNED && !end.unwound && (wants_result(session) || session->tests_end || session->shows_ends))
		end.value = rb_tracearg_return_value(trace_arg);
	if (!shows_ends && !observe_has_values(session, &end)) {
		observe_end_call(session, fiber, stack, &end);
		return 0;
	}
	jump = observe_end_call_with_values(session, fiber, stack, &end, &seen);
	RB_GC_GUARD(seen.binding);
	return jump;
}

void observe_return(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                    const void *anchor)
{
	struct session *session = probe->session;
	int jump;

	if (observe_is_over(session) || fiber->suppress_depth || fiber->stacks[session->slot].depth == 0)
		return;
	jump = record_return(probe, fiber, trace_arg, event, anchor);
	if (jump)
		rb_jump_tag(jump);
}

void observe_abandoned(unsigned slot, struct fiber_state *fiber, uintptr_t frame)
{
	struct call_stack *stack = &fiber->stacks[slot];
	struct session *session;
	VALUE error = rb_errinfo();

	if (stack->depth == 0 || stack->calls[stack->depth - 1].frame != frame)
		return;
	session = stack->calls[stack->depth - 1].probe->session;
	if (!observe_is_over(session))
		observe_end_call(session, fiber, stack,
		                 &(struct frame_end){.frame = frame,
		                                     .ending = RB_FIXNUM_P(error) ? FRAME_KILLED : FRAME_ENDED,
		                                     .exception = Qundef,
		                                     .own = compat_thread_frames_with_c(),
		                                     .value = Qundef});
}

void observe_settle(struct session *session)
{
	if (session->manner == CALLS_DECIDED)
		session->left_out += fiber_calls_left(session->slot, RING_LATER);
	else if (session->manner == CALLS_KEPT)
		for (struct fiber_state *fiber = fiber_first(); fiber; fiber = fiber->next)
			kept_settle(session, fiber);
}

/* It may die while the session ends, or an expression still runs elsewhere: observe_settle() will not find this fiber. */
static void settle_fiber(struct session *session, struct fiber_state *fiber)
{
	struct call_stack *stack = &fiber->stacks[session->slot];

	if (session->manner == CALLS_DECIDED) {
		session->left_out += fiber_calls_open(fiber, session->slot, RING_LATER) + stack->ending;
	} else if (session->manner == CALLS_KEPT) {
		if (stack->kept_ending)
			kept_end_unseen(session, fiber, ticks_now());
		kept_settle(session, fiber);
	}
}

bool observe_fiber_died(struct fiber_state *fiber)
{
	struct ring_record gone = {.kind = RING_FIBER_GONE, .fiber = fiber->ref};
	bool told = true;

	session_fiber_died(fiber);
	for (struct session *session = session_first(); session; session = session->next) {
		struct call_stack *stack = &fiber->stacks[session->slot];

		if (observe_is_over(session)) {
			settle_fiber(session, fiber);
			continue;
		}
		if (stack->starting)
			observe_count_lost(session);
		if (stack->kept_ending)
			kept_end_unseen(session, fiber, ticks_now());
		else
			session->left_out += stack->ending;
		if (!stack->defined)
			continue;
		while (stack->depth)
			observe_end_unseen(session, fiber, stack);
		kept_forget(session, fiber);
		told &= session->manner == CALLS_COUNTED || ring_push_aside(&session->ring, &gone);
	}
	return told;
}
