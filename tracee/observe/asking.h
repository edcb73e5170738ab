#ifndef RBPROBE_ASKING_H
#define RBPROBE_ASKING_H

#include "tracee/base/ticks.h"
#include "tracee/observe/overhead.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/quiet.h"

/*
 * Around an expression of the user's that decides about a call (a condition, a key). What it does is no call of the application.
 * What it takes counts as what values take. Event context. Lives on the caller's stack.
 */
struct asking {
	struct fiber_state *fiber;
	struct call_stack *stack;
	struct quiet quiet;
	uint64_t began;
};

/* ended: it is about a call that has ended, and not about one that begins. */
static inline struct asking asking_begin(const struct session *session, struct fiber_state *fiber, bool ended)
{
	struct asking asking = {.fiber = fiber, .stack = &fiber->stacks[session->slot]};

	asking.stack->starting = !ended;
	asking.stack->ending = ended;
	fiber->suppress_depth++;
	asking.quiet = quiet_begin();
	asking.began = ticks_now();
	return asking;
}

static inline void asking_end(const struct asking *asking)
{
	overhead.values_ticks += ticks_now() - asking->began;
	quiet_end(asking->quiet);
	asking->fiber->suppress_depth--;
	asking->stack->starting = asking->stack->ending = false;
}

#endif
