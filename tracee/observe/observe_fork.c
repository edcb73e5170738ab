/*
 * A session goes on in a forked child. See observe.h. Context: the child's fork handler: async-signal-safe.
 *
 * Calls that were under way are the parent's. They stay on the stacks, where their ends find them, and --within and --outside
 * look. Nothing is said of them.
 */

#include "tracee/observe/observe.h"

#include "tracee/observe/kept.h"
#include "tracee/observe/tally.h"
#include "tracee/observe/tally_tree.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"

/*
 * Where the end of a call is counted that the parent counts: of each session, since the counters of its histogram are in the
 * session's arena.
 */
static struct tally of_parent[SESSIONS_MAX];

static void begin_stack_anew(struct call_stack *stack, struct tally *instead)
{
	for (uint32_t i = 0; i < stack->depth; i++) {
		struct open_call *call = &stack->calls[i];

		call->start = RING_NOWHERE;
		call->roles &= ~(CALL_KEPT | CALL_FOLDED);
		if (call->tally)
			call->tally = instead;
	}
	stack->defined = false;
	stack->thread_key = 0;
	stack->thread_look_ns = 0;
	stack->tally = NULL;
	stack->kept_used = stack->kept_after_walk = 0;
	stack->kept_open = stack->kept_ending = 0;
}

void observe_fork_child(struct session *session)
{
	struct tally *instead = session->counts_long ? NULL : &of_parent[session->slot];

	/* This process may be a child's child: the arena that it has from its parent is gone. */
	if (instead)
		*instead = (struct tally){.least = UINT64_MAX};
	for (struct fiber_state *fiber = fiber_first(); fiber; fiber = fiber->next)
		begin_stack_anew(&fiber->stacks[session->slot], instead);
}
