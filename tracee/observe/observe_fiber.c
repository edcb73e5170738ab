/* What a client has to know of a fiber before it sees its events. Context: event, GVL held. */

#include "tracee/observe/observe_parts.h"

#include "proto/record.h"
#include "tracee/observe/observe_quick.h"
#include "tracee/session/session.h"
#include "tracee/vm/aside.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/interrupts_mask.h"
#include "tracee/vm/quiet.h"
#include "tracee/vm/string_slice.h"

#include <time.h>

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
	record.fiber.thread_name = string_slice_of_name(description.thread_name);
	record.fiber.created_at = string_slice_of_name(description.created_at);
	session_send(session, &record);
	fiber->stacks[session->slot].defined = true;
	RB_GC_GUARD(description.thread_name);
	RB_GC_GUARD(description.created_at);
	return Qnil;
}

/* --overflow=block: the traced thread, and with it the process, waits until the client has read. */
void observe_wait_for_room(struct session *session, size_t payload_size)
{
	while (!ring_has_room(&session->ring, payload_size) && !observe_is_over(session)) {
		struct timespec pause = {.tv_nsec = 50000};

		nanosleep(&pause, NULL);
	}
}

/* The client has to know a fiber before it sees its events. Returns a state for rb_jump_tag(), or 0. */
int observe_announce(struct session *session, struct fiber_state *fiber)
{
	struct call_stack *stack = &fiber->stacks[session->slot];
	int jump = 0;

	if (session->manner == CALLS_COUNTED)
		stack->defined = true; /* nothing of it is sent */
	else if (session->options.overflow == OVERFLOW_BLOCK)
		observe_wait_for_room(session, 0);
	if (!stack->defined && ring_has_room(&session->ring, 0)) {
		session_hold_for(session, fiber);
		jump = aside_protect(define_fiber, (VALUE)session);
		session_release_for(session, fiber);
	}
	return jump;
}

bool observe_introduce(struct session *session, struct fiber_state *fiber)
{
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct quiet quiet;
	int failed = 0;

	if (stack->defined || !ring_has_room(&session->ring, 0))
		return stack->defined;
	quiet = quiet_begin();
	fiber->suppress_depth++;
	interrupts_mask_protect(define_fiber, (VALUE)session, &failed);
	fiber->suppress_depth--;
	quiet_end(quiet);
	if (failed)
		exception_drop(Qnil);
	return stack->defined;
}
