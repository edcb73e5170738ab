/* Calls that are still running. See overdue.h. Context: job, GVL held. Calls nothing of Ruby's. */

#include "tracee/observe/overdue.h"

#include "proto/clock.h"
#include "tracee/base/ring.h"
#include "tracee/base/ticks.h"
#include "tracee/observe/decide.h"
#include "tracee/observe/kept.h"
#include "tracee/observe/observe_quick.h"
#include "tracee/observe/probe.h"
#include "tracee/session/session.h"
#include "tracee/vm/fiber.h"

#define PAUSE_MIN_NS (100 * NS_PER_MS) /* between two looks at a session */

static void look_again_in(struct session *session, uint64_t ns)
{
	atomic_store_explicit(&session->look_ns, clock_now_ns() + (ns > PAUSE_MIN_NS ? ns : PAUSE_MIN_NS), memory_order_relaxed);
}

void overdue_open(struct session *session)
{
	const struct conditions *conditions = &session->decider->conditions;
	bool known = conditions->slow_ns && !conditions->slow_cpu_ns && !conditions->raised.bytes && !session->tests_end;
	bool counts = conditions->every || conditions->rate;

	atomic_store_explicit(&session->look_ns, 0, memory_order_relaxed);
	session->pushed = 0;
	if (known && (session->manner == CALLS_DECIDED || (session->manner == CALLS_KEPT && !counts)))
		look_again_in(session, conditions->slow_ns);
}

/* Shows the start of a call, with its values. */
static void tell(struct session *session, const struct fiber_state *fiber, struct open_call *call, const void *values,
                 uint64_t now)
{
	struct ring_record record = {.kind = RING_START, .method = call->probe->ref, .fiber = fiber->ref, .time = call->began};

	call->start = RING_NOWHERE;
	if (!decide_is_counted_in(session->decider, &call->probe->met, &session->decider->calls, now)) {
		session->left_out++;
		return;
	}
	call->start = ring_push_start(&session->ring, &record, values, call->values_size);
	session->pushed += call->start != RING_NOWHERE;
}

/*
 * Those of a fiber, the outermost first: whatever began inside of one began later. In a tree the outermost alone, since what has
 * ended before the others belongs before them. One with a call inside that is shown in any case has to wait for its end: starts
 * stand in the ring in their order. Returns when the next one will be overdue, in ticks.
 * Not while values are made: if for the end of a call, its start may be in the ring already, and nothing comes between.
 */
static uint64_t look_at_fiber(struct session *session, struct fiber_state *fiber, uint64_t now)
{
	struct call_stack *stack = &fiber->stacks[session->slot];
	const char *values = stack->arena;
	uint32_t first = stack->depth;

	if (stack->values)
		return now;
	while (first > 0 && !stack->calls[first - 1].probe->always)
		first--;
	for (uint32_t i = 0; i < stack->depth; i++) {
		struct open_call *call = &stack->calls[i];

		if (i >= first && call->start == RING_LATER) {
			if (now - call->began < session->slow_ticks)
				return call->began + session->slow_ticks;
			if (call->roles & CALL_KEPT) {
				kept_tell_outermost(session, fiber);
				return UINT64_MAX;
			}
			tell(session, fiber, call, values, now);
		}
		values += call->values_size;
	}
	return UINT64_MAX;
}

static void look_at(struct session *session)
{
	uint64_t now = ticks_now(), next = now + session->slow_ticks;
	uint64_t slow_ns = session->decider->conditions.slow_ns;

	for (struct fiber_state *fiber = fiber_first(); fiber; fiber = fiber->next) {
		uint64_t overdue = look_at_fiber(session, fiber, now);

		if (overdue < next)
			next = overdue;
	}
	look_again_in(session, (uint64_t)((double)slow_ns * (double)(next - now) / (double)session->slow_ticks));
}

void overdue_look(void)
{
	uint64_t now_ns = clock_now_ns();

	for (struct session *session = session_first(); session; session = session->next) {
		uint64_t look_ns = atomic_load_explicit(&session->look_ns, memory_order_relaxed);

		if (look_ns && now_ns >= look_ns && session->decider && !observe_is_over(session))
			look_at(session);
	}
}
