/* From an event to the start of a call. See observe.h. Context: event, GVL held. */

#include "tracee/observe/observe_parts.h"

#include "proto/clock.h"
#include "tracee/base/job_cpu.h"
#include "tracee/base/ticks.h"
#include "tracee/frame/frame.h"
#include "tracee/observe/callers.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/expression.h"
#include "tracee/observe/kept.h"
#include "tracee/observe/measure.h"
#include "tracee/observe/observe_quick.h"
#include "tracee/observe/retry.h"
#include "tracee/observe/tally_keys.h"
#include "tracee/observe/tally_tree.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"

/* made: of the call. */
static uint64_t push_start(struct session *session, struct fiber_state *fiber, struct call_stack *stack, uint32_t method,
                           uint64_t made, const void *payload, size_t payload_size)
{
	struct ring_record record = {.kind = RING_START, .method = method, .fiber = fiber->ref};

	if (session->options.overflow == OVERFLOW_BLOCK)
		observe_wait_for_room(session, payload_size);
	if (observe_is_over(session))
		return RING_NOWHERE;
	record.time = made && session->options.overflow != OVERFLOW_BLOCK ? made : ticks_now();
	if (stack->defined)
		return ring_push_start(&session->ring, &record, payload, payload_size);
	ring_count_lost(&session->ring, record.time);
	return RING_NOWHERE;
}

/* Whether calls on this receiver are to be shown. */
bool observe_is_meant(const struct probe *probe, VALUE receiver)
{
	if (probe->only_kind_of == Qundef)
		return true;
	for (long i = 0; i < RARRAY_LEN(probe->only_kind_of); i++)
		if (RTEST(rb_obj_is_kind_of(receiver, RARRAY_AREF(probe->only_kind_of, i))))
			return true;
	return false;
}

/* Whether the frame says whose call it is. The frame of an event of a C call is not made yet. */
static bool is_told(const struct probe *probe, const struct seen_call *seen)
{
	return seen->frame && frame_direct_is_known() && !(seen->trace_arg && seen->event != RUBY_EVENT_CALL) &&
	       frame_direct_is_call_of(seen->frame, probe->callee_id, probe->owner);
}

static bool keep(struct session *session, struct fiber_state *fiber, struct open_call *call, const void *payload,
                 size_t payload_size)
{
	if (session->manner != CALLS_KEPT)
		return call_stack_keep(&fiber->stacks[session->slot], call, payload, payload_size);
	if (!kept_start(session, fiber, call, payload, payload_size))
		return false;
	call->roles |= CALL_KEPT;
	return true;
}

/* The start of a call of which it is known only later whether it is shown. */
static void keep_start(struct session *session, struct fiber_state *fiber, struct open_call *call, const void *payload,
                       size_t payload_size)
{
	call->began = ticks_now();
	if (session->manner != CALLS_COUNTED &&
	    !(fiber->stacks[session->slot].defined && keep(session, fiber, call, payload, payload_size))) {
		ring_count_lost(&session->ring, call->began);
		return;
	}
	call->start = RING_LATER;
	call->cpu_ns = session->decider->conditions.slow_cpu_ns ? job_cpu_without_ns() : 0;
	call->began = ticks_now();
}

/* The start of a call, with its values. Whether the call is open now. */
bool observe_start_call(struct probe *probe, struct fiber_state *fiber, const struct seen_call *seen, const void *payload,
                        size_t payload_size)
{
	uintptr_t frame = seen->frame;
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct open_call call = {
		.probe = probe, .frame = frame, .told = is_told(probe, seen), .roles = probe->roles, .start = RING_NOWHERE};

	observe_end_gone(session, fiber, stack, frame);
	while (frame && stack->depth && stack->calls[stack->depth - 1].frame == frame)
		observe_end_unseen(session, fiber, stack);
	if (seen->hidden) {
		call.roles &= ~(1u << ROLE_SHOWN);
		return call_stack_push(stack, &call);
	}
	if (seen->binding) {
		call.binding = seen->binding;
		call.roles |= CALL_HAS_BINDING;
	}
	session->calls++;
	probe->calls++;
	call.tally = session->counts_by ? stack->tally : probe->tally;
	if (probe->counts_only) {
		call.tally->calls++;
		return false;
	}
	if (session->tallies && session->tallies->tree)
		tally_tree_place(session->tallies->tree, stack, &call);
	if (session->manner != CALLS_STREAMED && !probe->always) {
		keep_start(session, fiber, &call, payload, payload_size);
	} else {
		call.start = push_start(session, fiber, stack, probe->ref, seen->made, payload, payload_size);
		session->pushed += call.start != RING_NOWHERE;
		if (session->shows_ends)
			call.began = ticks_now();
	}
	if (session->options.flags & TRACE_MEASURES)
		measure_start(fiber, &call, session->options.flags);
	if (call_stack_push(stack, &call))
		return true;
	if (call.start == RING_LATER && !(call.roles & CALL_KEPT))
		ring_count_lost(&session->ring, call.began);
	else if (call.start != RING_NOWHERE)
		observe_push_end(session, fiber, &call, ENDING_UNKNOWN, ticks_now(), NULL, 0);
	return false;
}

/* What is asked of a call, or a line, that begins. */
static void make_values_of_start(struct making *making, const struct probe *probe, const struct seen_call *seen)
{
	struct session *session = making->session;

	making->fiber->stacks[session->slot].starting = true;
	if (making->buffer)
		making->size = expression_list_render(probe->expressions, seen, &session->options, making->buffer,
		                                      VALUES_SIZE_MAX - (probe->line ? MEASURE_SIZE_MAX : 0), &making->jump);
}

/*
 * As observe_start_call() where there are values to be made: none if the thread is about to jump. *jump is set to a state for
 * rb_jump_tag(), or stays.
 */
static bool start_call_with_values(struct probe *probe, struct fiber_state *fiber, struct seen_call *seen, int *jump)
{
	struct session *session = probe->session;
	struct making making;
	bool open = false;

	making_begin(&making, session, fiber, *jump, ticks_now(), seen->trace_arg != NULL);
	make_values_of_start(&making, probe, seen);
	making.ended = seen->made = ticks_now();
	if (!observe_is_over(session))
		open = observe_start_call(probe, fiber, seen, making.buffer, making.size);
	else
		observe_count_lost(session);
	making_end(&making);
	*jump = making.jump;
	return open;
}

bool observe_start(struct probe *probe, struct fiber_state *fiber, struct seen_call *seen, int *jump)
{
	return probe->expressions && !seen->hidden ? start_call_with_values(probe, fiber, seen, jump)
	                                           : observe_start_call(probe, fiber, seen, NULL, 0);
}

/* Whether this is no call, but a retry of the innermost open one. What lies deeper is ended on the way: it is gone. */
static bool is_retry(struct probe *probe, struct fiber_state *fiber, uintptr_t frame, int *jump)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	bool possible;

	observe_end_gone(session, fiber, stack, frame);
	if (!frame || stack->depth == 0 || stack->calls[stack->depth - 1].frame != frame ||
	    stack->calls[stack->depth - 1].probe != probe)
		return false;
	session_hold_for(session, fiber);
	fiber->suppress_depth++;
	possible = retry_is_possible(probe, jump);
	fiber->suppress_depth--;
	session_release_for(session, fiber);
	if (!possible || stack->depth == 0)
		return false;
	stack->calls[stack->depth - 1].retries++;
	return true;
}

void observe_choose_way(struct probe *probe)
{
	const struct session *session = probe->session;

	probe->way = WAY_LONG;
	if (session->asks_at_start || session->counts_long || probe->only_kind_of != Qundef || probe->waiting ||
	    probe->keeps_binding || probe->roles != 1u << ROLE_SHOWN || probe->expressions || session->ends_long ||
	    !ticks_are_tsc)
		return;
	if (probe->tally && probe->counts_only)
		probe->way = WAY_COUNTED;
	else if (probe->tally && !session->asks_at_end)
		probe->way = WAY_TIMED;
	else if (session->manner == CALLS_DECIDED && !probe->always)
		probe->way = WAY_DECIDED;
}

static int (*look_at_names)(struct probe *probe);

void observe_register_names(int (*look)(struct probe *probe))
{
	look_at_names = look;
}

/*
 * What comes before the start of a call: it may run Ruby code of ours, and let in what other threads send to this one. Whether
 * the call may be followed. *jump is set to a state for rb_jump_tag(), or stays.
 */
bool observe_prepare(struct probe *probe, struct fiber_state *fiber, VALUE receiver, int *jump)
{
	struct session *session = probe->session;

	if (probe->waiting)
		*jump = look_at_names(probe);
	if (observe_is_over(session) || !observe_is_meant(probe, receiver))
		return false;
	if (!fiber->stacks[session->slot].defined && !*jump)
		*jump = observe_announce(session, fiber);
	return !observe_is_over(session);
}

/* After that: whether the conditions let the call begin; seen->hidden: not for itself. *jump as above. */
bool observe_is_followed(struct probe *probe, struct fiber_state *fiber, struct seen_call *seen, int *jump)
{
	enum verdict verdict = decide_start(probe, fiber, seen, jump);

	seen->hidden = verdict == VERDICT_SCOPE;
	if (probe->session->counts_by && verdict == VERDICT_SHOWN)
		fiber->stacks[probe->session->slot].tally =
			tally_keys_choose(probe->session->tallies->keys, probe, fiber, seen, jump);
	return verdict != VERDICT_UNSEEN && !observe_is_over(probe->session);
}

static VALUE make_binding(VALUE trace_arg)
{
	return rb_tracearg_binding((rb_trace_arg_t *)trace_arg);
}

/* What keeps the variables of a frame that will be gone when its end is told. */
static void keep_variables(const struct probe *probe, struct seen_call *seen)
{
	VALUE binding = Qnil;

	if (!probe->keeps_binding || seen->hidden)
		return;
	if (evaluate_quickly(make_binding, (VALUE)seen->trace_arg, &binding) == EVALUATION_DONE && !NIL_P(binding))
		seen->binding = binding;
}

void observe_call(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                  const void *anchor)
{
	struct session *session = probe->session;
	struct seen_call seen = {.trace_arg = trace_arg, .event = event};
	int jump = 0;

	if (observe_is_over(session) || fiber->suppress_depth)
		return;
	if (probe->only_counted) {
		if (observe_is_meant(probe, rb_tracearg_self(trace_arg)))
			observe_count_apart(probe);
		return;
	}
	session_hold_for(session, fiber);
	if (observe_prepare(probe, fiber, rb_tracearg_self(trace_arg), &jump)) {
		seen.frame = frame_of_call(trace_arg, event, anchor);
		/* A retry is no call: nothing is to be decided. */
		if ((event != RUBY_EVENT_CALL || !is_retry(probe, fiber, seen.frame, &jump)) &&
		    observe_is_followed(probe, fiber, &seen, &jump)) {
			keep_variables(probe, &seen);
			observe_start(probe, fiber, &seen, &jump);
		}
		RB_GC_GUARD(seen.binding);
	}
	session_release_for(session, fiber);
	if (jump)
		rb_jump_tag(jump);
}

/* Who called what has the line: a number after the values, as in a call's outcome. */
static size_t append_stack(struct session *session, char *buffer, size_t size)
{
	struct measured measured;

	if (!buffer || !(session->options.flags & TRACE_STACK))
		return size;
	measured = (struct measured){.stack = callers_take(session, 1)};
	return measure_append(&measured, TRACE_STACK, buffer, size);
}

static void push_line(struct probe *probe, struct fiber_state *fiber, const struct seen_call *seen, const void *payload,
                      size_t payload_size)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct ring_record record = {.kind = RING_CALL, .method = probe->ref, .fiber = fiber->ref};

	observe_end_gone(session, fiber, stack, seen->frame);
	session->calls++;
	probe->calls++;
	if (session->options.overflow == OVERFLOW_BLOCK)
		observe_wait_for_room(session, payload_size);
	record.time = ticks_now();
	if (!stack->defined || observe_is_over(session) || !ring_push_mark(&session->ring, &record, payload, payload_size))
		ring_count_lost(&session->ring, record.time);
}

static void push_line_with_values(struct probe *probe, struct fiber_state *fiber, const struct seen_call *seen, int *jump)
{
	struct session *session = probe->session;
	struct making making;

	making_begin(&making, session, fiber, *jump, ticks_now(), true);
	make_values_of_start(&making, probe, seen);
	making.size = append_stack(session, making.buffer, making.size);
	push_line(probe, fiber, seen, making.buffer, making.size);
	making_end(&making);
	*jump = making.jump;
}

void observe_line(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, const void *anchor)
{
	struct session *session = probe->session;
	struct seen_call seen = {.trace_arg = trace_arg, .event = RUBY_EVENT_LINE};
	int jump = 0;

	if (observe_is_over(session) || fiber->suppress_depth)
		return;
	if (probe->only_counted) {
		observe_count_apart(probe);
		return;
	}
	session_hold_for(session, fiber);
	seen.frame = frame_of_call(trace_arg, RUBY_EVENT_LINE, anchor);
	if (observe_prepare(probe, fiber, rb_tracearg_self(trace_arg), &jump) &&
	    observe_is_followed(probe, fiber, &seen, &jump) && !seen.hidden) {
		char stack[MEASURE_SIZE_MAX];

		if (probe->expressions)
			push_line_with_values(probe, fiber, &seen, &jump);
		else
			push_line(probe, fiber, &seen, stack, append_stack(session, stack, 0));
	}
	session_release_for(session, fiber);
	if (jump)
		rb_jump_tag(jump);
}

void observe_call_lost(struct probe *probe)
{
	if (!observe_is_over(probe->session))
		observe_count_lost(probe->session);
}
