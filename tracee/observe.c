/* Turning events into records. See observe.h. */

#include "observe.h"

#include "aside.h"
#include "core.h"
#include "expression.h"
#include "fiber.h"
#include "frame.h"
#include "interrupts.h"
#include "observe_quick.h"
#include "proto/record.h"
#include "quiet.h"
#include "retry.h"
#include "session.h"
#include "ticks.h"

#include <stdlib.h>
#include <time.h>

/* Values that are being made. They may run Ruby code, and so let other threads' events and our own jobs in between. */
struct making {
	struct session *session;
	struct fiber_state *fiber;
	struct quiet quiet; /* a patched method is not called by a hook of the VM's */
	char *buffer;
	size_t size;
	int jump;
};

static bool is_over(const struct session *session)
{
	return atomic_load_explicit(&session->gone, memory_order_relaxed) || session->detaching;
}

static void making_begin(struct making *making, struct session *session, struct fiber_state *fiber, int jump)
{
	making->session = session;
	making->fiber = fiber;
	fiber->own++;
	making->quiet = quiet_begin();
	making->size = 0;
	making->jump = jump;
	if (session->scratch_used) {
		making->buffer = malloc(VALUES_SIZE_MAX);
	} else {
		session->scratch_used = true;
		making->buffer = session->scratch;
	}
}

static void making_end(struct making *making)
{
	struct session *session = making->session;

	making->fiber->own--;
	quiet_end(making->quiet);
	if (making->buffer == session->scratch)
		session->scratch_used = false;
	else
		free(making->buffer);
}

static struct slice slice_of_name(VALUE name)
{
	struct slice slice = {"", 0};

	if (!NIL_P(name))
		slice = (struct slice){RSTRING_PTR(name), (size_t)RSTRING_LEN(name)};
	if (slice.size > NAME_SIZE_MAX)
		slice.size = NAME_SIZE_MAX;
	return slice;
}

static VALUE define_fiber(VALUE argument)
{
	struct session *session = (struct session *)argument;
	struct fiber_state *fiber = fiber_current_state();
	struct record record = {.kind = RECORD_FIBER};
	struct fiber_description description;

	fiber_describe(&description);
	record.fiber.ref = fiber->ref;
	record.fiber.thread_id = description.thread_id;
	record.fiber.native_id = description.native_id;
	record.fiber.root = description.root;
	record.fiber.thread_name = slice_of_name(description.thread_name);
	record.fiber.created_at = slice_of_name(description.created_at);
	session_send(session, &record);
	fiber->stacks[session->slot].defined = true;
	RB_GC_GUARD(description.thread_name);
	RB_GC_GUARD(description.created_at);
	return Qnil;
}

/* --overflow=block: the traced thread, and with it the process, waits until the client has read. */
static void wait_for_room(struct session *session, size_t payload_size)
{
	while (!ring_has_room(&session->ring, payload_size) && !is_over(session)) {
		struct timespec pause = {.tv_nsec = 50000};

		nanosleep(&pause, NULL);
	}
}

/* The client has to know a fiber before it sees its events. Returns a state for rb_jump_tag(), or 0. */
static int announce_fiber(struct session *session, struct fiber_state *fiber)
{
	struct call_stack *stack = &fiber->stacks[session->slot];
	int jump = 0;

	if (session->options.overflow == OVERFLOW_BLOCK)
		wait_for_room(session, 0);
	if (!stack->defined && ring_has_room(&session->ring, 0)) {
		session_hold(session);
		jump = aside_protect(define_fiber, (VALUE)session);
		session_release(session);
	}
	return jump;
}

static uint64_t push_start(struct session *session, struct fiber_state *fiber, struct call_stack *stack, uint32_t method,
                           const void *payload, size_t payload_size)
{
	struct ring_record record = {.kind = RING_START, .method = method, .fiber = fiber->ref};

	if (session->options.overflow == OVERFLOW_BLOCK)
		wait_for_room(session, payload_size);
	if (is_over(session))
		return RING_NOWHERE;
	record.time = ticks_now();
	if (stack->defined)
		return ring_push_start(&session->ring, &record, payload, payload_size);
	ring_count_lost(&session->ring, record.time);
	return RING_NOWHERE;
}

static void push_end(struct session *session, const struct fiber_state *fiber, const struct open_call *call, enum ending ending,
                     uint64_t time, const void *payload, size_t payload_size)
{
	struct ring_record record = {.kind = RING_END,
	                             .ending = (uint8_t)ending,
	                             .method = call->probe->ref,
	                             .fiber = fiber->ref,
	                             .duration = call->retries,
	                             .time = time};

	/* A record of a whole call has no place for them. */
	if (call->retries)
		ring_release(&session->ring);
	if (call->start != RING_NOWHERE)
		ring_push_end(&session->ring, call->start, &record, payload, payload_size);
}

/* Frames that are gone without an event, as those that a SystemStackError unwinds. */
static void end_unseen(struct session *session, const struct fiber_state *fiber, struct call_stack *stack)
{
	push_end(session, fiber, &stack->calls[--stack->depth], ENDING_UNKNOWN, ticks_now(), NULL, 0);
}

/* Those that are over, whatever began at this frame. */
static void end_gone(struct session *session, const struct fiber_state *fiber, struct call_stack *stack, uintptr_t frame)
{
	while (frame && stack->depth) {
		const struct open_call *innermost = &stack->calls[stack->depth - 1];

		if (innermost->frame > frame ? !observe_is_gone(innermost) : innermost->frame == frame)
			return;
		end_unseen(session, fiber, stack);
	}
}

/* Whether calls on this receiver are to be shown. */
static bool is_meant(const struct probe *probe, VALUE receiver)
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
	return seen->frame && frame_direct.known && !(seen->trace_arg && seen->event != RUBY_EVENT_CALL) &&
	       frame_direct_is_call_of(seen->frame, probe->callee_id, probe->owner);
}

/* The start of a call, with its values. Whether the call is open now. */
static inline bool start_call(struct probe *probe, struct fiber_state *fiber, const struct seen_call *seen, const void *payload,
                              size_t payload_size)
{
	uintptr_t frame = seen->frame;
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct open_call call = {.probe = probe, .frame = frame, .told = is_told(probe, seen)};

	end_gone(session, fiber, stack, frame);
	while (frame && stack->depth && stack->calls[stack->depth - 1].frame == frame)
		end_unseen(session, fiber, stack);
	session->calls++;
	call.start = push_start(session, fiber, stack, probe->ref, payload, payload_size);
	if (call_stack_push(stack, &call))
		return true;
	push_end(session, fiber, &call, ENDING_UNKNOWN, ticks_now(), NULL, 0);
	return false;
}

/* The same where there are values to be made: none if the thread is about to jump. *jump is set to a state for rb_jump_tag(), or stays. */
static bool start_call_with_values(struct probe *probe, struct fiber_state *fiber, const struct seen_call *seen, int *jump)
{
	struct session *session = probe->session;
	struct making making;
	bool open = false;

	session_hold(session);
	making_begin(&making, session, fiber, *jump);
	if (making.buffer)
		making.size = expression_list_render(probe->expressions, seen, &session->options, making.buffer, VALUES_SIZE_MAX,
		                                     &making.jump);
	if (!is_over(session))
		open = start_call(probe, fiber, seen, making.buffer, making.size);
	making_end(&making);
	session_release(session);
	*jump = making.jump;
	return open;
}

/* Whether this is no call, but a retry of the innermost open one. What lies deeper is ended on the way: it is gone. */
static bool is_retry(struct probe *probe, struct fiber_state *fiber, uintptr_t frame, int *jump)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	bool possible;

	end_gone(session, fiber, stack, frame);
	if (!frame || stack->depth == 0 || stack->calls[stack->depth - 1].frame != frame ||
	    stack->calls[stack->depth - 1].probe != probe)
		return false;
	session_hold(session);
	fiber->own++;
	possible = retry_is_possible(probe, jump);
	fiber->own--;
	session_release(session);
	if (!possible || stack->depth == 0)
		return false;
	stack->calls[stack->depth - 1].retries++;
	return true;
}

/*
 * What comes before the start of a call: it may run Ruby code of ours, and let in what other threads send to this one. Whether the call is to be shown. *jump is set to a
 * state for rb_jump_tag(), or stays.
 */
static bool prepare(struct probe *probe, struct fiber_state *fiber, VALUE receiver, int *jump)
{
	struct session *session = probe->session;

	if (probe->waiting)
		*jump = selection_look_at_names(probe);
	if (is_over(session) || !is_meant(probe, receiver))
		return false;
	if (!fiber->stacks[session->slot].defined && !*jump)
		*jump = announce_fiber(session, fiber);
	return !is_over(session);
}

void observe_call(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                  const void *anchor)
{
	struct session *session = probe->session;
	struct seen_call seen = {.trace_arg = trace_arg, .event = event};
	int jump = 0;

	if (is_over(session) || fiber->own)
		return;
	session_hold(session);
	if (prepare(probe, fiber, rb_tracearg_self(trace_arg), &jump)) {
		seen.frame = frame_of_call(trace_arg, event, anchor);
		if (event == RUBY_EVENT_CALL && is_retry(probe, fiber, seen.frame, &jump))
			;
		else if (probe->expressions)
			start_call_with_values(probe, fiber, &seen, &jump);
		else
			start_call(probe, fiber, &seen, NULL, 0);
	}
	session_release(session);
	if (jump)
		rb_jump_tag(jump);
}

void observe_call_lost(struct probe *probe)
{
	if (is_over(probe->session))
		return;
	probe->session->calls++;
	ring_count_lost(&probe->session->ring, ticks_now());
}

/* The open call that a return event is about, NULL for one that began before we came; what lies deeper is ended on the way. */
static const struct open_call *find_call(struct session *session, const struct fiber_state *fiber, struct call_stack *stack,
                                         const struct probe *probe, uintptr_t frame)
{
	uint32_t depth = stack->depth;

	if (frame) {
		while (stack->depth && stack->calls[stack->depth - 1].frame < frame)
			end_unseen(session, fiber, stack);
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
		end_unseen(session, fiber, stack);
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

/* The end of the innermost open call, without values. */
static inline void end_call(struct session *session, struct fiber_state *fiber, struct call_stack *stack,
                            enum frame_ending ending)
{
	push_end(session, fiber, &stack->calls[--stack->depth], ending_of(ending), ticks_now(), NULL, 0);
}

static bool has_values(const struct session *session, const struct frame_end *end)
{
	return end->ending == FRAME_RAISED ||
	       (end->ending == FRAME_RETURNED && end->value != Qundef && (session->options.flags & TRACE_RESULT));
}

/* The same where there are. Returns a state for rb_jump_tag(), or 0. */
static int end_call_with_values(struct session *session, struct fiber_state *fiber, struct call_stack *stack,
                                const struct frame_end *end)
{
	struct open_call call = stack->calls[--stack->depth];
	uint64_t time = ticks_now();
	struct making making;

	if (call.start == RING_NOWHERE)
		return 0;
	session_hold(session);
	making_begin(&making, session, fiber, 0);
	if (making.buffer && end->ending == FRAME_RETURNED)
		making.size =
			expression_render_result(end->value, &session->options, making.buffer, VALUES_SIZE_MAX, &making.jump);
	else if (making.buffer)
		making.size = expression_render_exception(end->exception, &session->options, making.buffer, VALUES_SIZE_MAX,
		                                          &making.jump);
	if (!is_over(session))
		push_end(session, fiber, &call, ending_of(end->ending), time, making.buffer, making.size);
	making_end(&making);
	session_release(session);
	/*
	 * It would take the place of the exception that ends the call. A kill may, and so may a throw, and Timeout's own exception, which has to
	 * come before its block is over.
	 */
	if (making.jump && end->ending == FRAME_RAISED && core_is_exception(rb_errinfo()) &&
	    RTEST(rb_obj_is_kind_of(rb_errinfo(), rb_eStandardError))) {
		interrupts_send_again(false);
		return 0;
	}
	return making.jump;
}

static int record_return(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                         const void *anchor)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct frame_end end;
	frame_of_return(trace_arg, event, anchor, &end);
	if (!find_call(session, fiber, stack, probe, end.frame))
		return 0;
	if (end.ending == FRAME_RETURNED && !end.unwound && (session->options.flags & TRACE_RESULT))
		end.value = rb_tracearg_return_value(trace_arg);
	if (has_values(session, &end))
		return end_call_with_values(session, fiber, stack, &end);
	end_call(session, fiber, stack, end.ending);
	return 0;
}

void observe_return(struct probe *probe, struct fiber_state *fiber, rb_trace_arg_t *trace_arg, rb_event_flag_t event,
                    const void *anchor)
{
	struct session *session = probe->session;
	int jump;

	if (is_over(session) || fiber->own || fiber->stacks[session->slot].depth == 0)
		return;
	jump = record_return(probe, fiber, trace_arg, event, anchor);
	if (jump)
		rb_jump_tag(jump);
}

/*
 * Values are made outside of the VM's hooks here, which keep $! as it is: behind an ensure it is kept, too, whatever kind of object it is. So a jump, whose object
 * is in $! as well, has to begin within: after the ensure it would be gone.
 */
struct keeping {
	struct probe *probe;
	struct session *session;
	struct fiber_state *fiber;
	const struct seen_call *call;
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

	session_hold(session);
	if (!prepare(probe, keeping->fiber, keeping->call->receiver, &jump))
		;
	else if (probe->expressions)
		keeping->open = start_call_with_values(probe, keeping->fiber, keeping->call, &jump);
	else
		keeping->open = start_call(probe, keeping->fiber, keeping->call, NULL, 0);
	if (jump && keeping->open)
		observe_abandoned(session->slot, keeping->fiber, keeping->call->frame);
	session_release(session);
	jump_from(keeping, jump);
	return Qnil;
}

static VALUE end_keeping(VALUE argument)
{
	struct keeping *keeping = (struct keeping *)argument;

	jump_from(keeping, end_call_with_values(keeping->session, keeping->fiber, &keeping->fiber->stacks[keeping->session->slot],
	                                        keeping->end));
	return Qnil;
}

bool observe_begin(struct probe *probe, struct fiber_state *fiber, const struct seen_call *call, const struct leaving *leaving)
{
	struct keeping keeping = {.probe = probe, .fiber = fiber, .call = call, .leaving = leaving};

	if (observe_quick_call(probe, fiber, call->frame, false))
		return true;
	if (is_over(probe->session) || (!probe->waiting && !is_meant(probe, call->receiver)))
		return false;
	if (!probe->waiting && !probe->expressions && fiber->stacks[probe->session->slot].defined)
		return start_call(probe, fiber, call, NULL, 0);
	rb_ensure(keep_nothing, Qnil, begin_keeping, (VALUE)&keeping);
	return keeping.open;
}

void observe_abandoned(unsigned slot, struct fiber_state *fiber, uintptr_t frame)
{
	struct call_stack *stack = &fiber->stacks[slot];
	struct session *session;
	VALUE error = rb_errinfo();

	if (stack->depth == 0 || stack->calls[stack->depth - 1].frame != frame)
		return;
	session = stack->calls[stack->depth - 1].probe->session;
	if (!is_over(session))
		end_call(session, fiber, stack, RB_FIXNUM_P(error) ? FRAME_KILLED : FRAME_ENDED);
}

void observe_over(unsigned slot, struct fiber_state *fiber, const struct frame_end *end, const struct leaving *leaving)
{
	struct call_stack *stack = &fiber->stacks[slot];
	struct session *session;

	/* Where the session has ended meanwhile, nothing is left of its calls. */
	if (stack->depth == 0)
		return;
	if (end->ending == FRAME_RETURNED && observe_quick_return(stack->calls[stack->depth - 1].probe, fiber, end->frame))
		return;
	session = stack->calls[stack->depth - 1].probe->session;
	if (is_over(session))
		return;
	while (stack->depth && stack->calls[stack->depth - 1].frame < end->frame)
		end_unseen(session, fiber, stack);
	if (stack->depth == 0 || stack->calls[stack->depth - 1].frame != end->frame)
		return;
	if (has_values(session, end)) {
		struct keeping keeping = {.session = session, .fiber = fiber, .end = end, .leaving = leaving};

		rb_ensure(keep_nothing, Qnil, end_keeping, (VALUE)&keeping);
	} else {
		end_call(session, fiber, stack, end->ending);
	}
}

bool observe_fiber_died(struct fiber_state *fiber)
{
	struct ring_record gone = {.kind = RING_FIBER_GONE, .fiber = fiber->ref};
	bool told = true;

	for (struct session *session = session_first(); session; session = session->next) {
		struct call_stack *stack = &fiber->stacks[session->slot];

		if (is_over(session) || !stack->defined)
			continue;
		while (stack->depth)
			end_unseen(session, fiber, stack);
		told &= ring_push_aside(&session->ring, &gone);
	}
	return told;
}
