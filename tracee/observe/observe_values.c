/* Values in the making. See observe_parts.h. Context: event, GVL held. */

#include "tracee/observe/observe_parts.h"

#include "tracee/base/ticks.h"
#include "tracee/observe/expression.h"
#include "tracee/observe/observe_quick.h"
#include "tracee/observe/overhead.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/quiet.h"

#include <stdlib.h>

void making_begin(struct making *making, struct session *session, struct fiber_state *fiber, int jump, uint64_t now, bool in_hook)
{
	making->session = session;
	making->fiber = fiber;
	fiber->suppress_depth++;
	making->quiet = in_hook ? (struct quiet){.place = NULL} : quiet_begin();
	making->size = 0;
	making->jump = jump;
	making->measured = overhead_making_begin(now);
	making->ended = 0;
	if (session->scratch_used) {
		making->buffer = malloc(VALUES_SIZE_MAX);
	} else {
		session->scratch_used = true;
		making->buffer = session->scratch;
	}
	fiber->stacks[session->slot].values = making->buffer;
}

void making_end(struct making *making)
{
	struct session *session = making->session;

	overhead_making_end(making->measured, making->ended ? making->ended : ticks_now());
	making->fiber->suppress_depth--;
	making->fiber->stacks[session->slot].values = NULL;
	making->fiber->stacks[session->slot].starting = false;
	quiet_end(making->quiet);
	if (making->buffer == session->scratch)
		session->scratch_used = false;
	else
		free(making->buffer);
}

/* Into the session's own memory: an event that is running Ruby code would have it. Returns its size; 0: not so. */
static size_t make_quickly(struct probe *probe, const struct seen_call *seen)
{
	struct session *session = probe->session;
	bool sampled = overhead_is_sampled();
	uint64_t began = sampled ? ticks_now() : 0;
	size_t size = 0;

	if (session->scratch && !session->scratch_used)
		size = expression_list_render_plain(probe->expressions, seen, &session->options, session->scratch,
		                                    VALUES_SIZE_MAX);
	if (sampled && size)
		overhead_add_sampled_values(ticks_now() - began);
	return size;
}

bool observe_quick_call_with_values(struct probe *probe, struct fiber_state *fiber, const struct seen_call *seen, bool told)
{
	struct session *session = probe->session;
	struct call_stack *stack = &fiber->stacks[session->slot];
	struct open_call *call = &stack->calls[stack->depth];
	struct ring_record record = {.kind = RING_START, .method = probe->ref, .fiber = fiber->ref};
	size_t size;

	if (!probe->expressions || !observe_is_ordinary(session, fiber) || session->asks_at_start || probe->only_counted ||
	    session->manner != CALLS_STREAMED || (session->options.flags & TRACE_MEASURES) || probe->only_kind_of != Qundef ||
	    probe->waiting || probe->keeps_binding || !stack->defined || stack->depth == stack->size ||
	    (stack->depth && (call[-1].frame <= seen->frame || observe_is_gone(&call[-1]))))
		return false;
	size = make_quickly(probe, seen);
	if (!size || !ring_has_room(&session->ring, size))
		return false;
	observe_quick_open(session, probe, stack, call, seen->frame, told);
	record.time = call->began = ticks_now();
	call->start = ring_push_start(&session->ring, &record, session->scratch, size);
	return true;
}
