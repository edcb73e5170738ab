/* Sharing the GVL. See turn.h. */

#include "turn.h"

#include "gc_stress.h"
#include "proto/clock.h"
#include "session.h"

#include <ruby.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LENGTH_MIN_NS (10 * NS_PER_MS)
#define LENGTH_MAX_NS (100 * NS_PER_MS) /* what Ruby gives a thread */

/* Of the job: there is one at a time. Events in other threads find that it is not theirs. */
static struct {
	struct turn *turn; /* NULL: none */
	VALUE thread;      /* runs it, which keeps it from the GC */
} current;

void turn_begin(struct turn *turn)
{
	memset(turn, 0, sizeof(*turn));
	turn->began_ns = clock_now_ns();
	turn->length_ns = LENGTH_MIN_NS;
}

void turn_begin_for(struct turn *turn, const struct session *session, unsigned limit_ms)
{
	turn_begin(turn);
	turn->session = session;
	turn->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	turn->limit_ns = (uint64_t)limit_ms * NS_PER_MS;
	current.turn = turn;
	current.thread = rb_thread_current();
}

void turn_end(void)
{
	current.turn = NULL;
}

static void give_up_if_due(struct turn *turn)
{
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	turn->worked_ns += cpu_ns > turn->cpu_ns ? cpu_ns - turn->cpu_ns : 0;
	turn->cpu_ns = cpu_ns;
	if (atomic_load_explicit(&turn->session->gone, memory_order_acquire))
		snprintf(turn->gave_up, sizeof(turn->gave_up), "its client has left");
	else if (turn->worked_ns > turn->limit_ns)
		snprintf(turn->gave_up, sizeof(turn->gave_up), "it took more than %g s of the process",
		         (double)turn->limit_ns / 1e9);
	if (turn->gave_up[0])
		rb_raise(rb_eRuntimeError, "%s", turn->gave_up);
}

void turn_pass(struct turn *turn)
{
	uint64_t passed_ns = clock_now_ns();
	uint64_t others_ns;
	unsigned own;

	if (passed_ns - turn->began_ns < turn->length_ns)
		return;
	if (turn->session)
		give_up_if_due(turn);
	own = gc_stress_let_run();
	rb_thread_schedule();
	gc_stress_let_run_end(own);
	turn->began_ns = clock_now_ns();
	if (turn->session)
		turn->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	others_ns = turn->began_ns - passed_ns;
	turn->length_ns = others_ns < LENGTH_MIN_NS ? LENGTH_MIN_NS : others_ns > LENGTH_MAX_NS ? LENGTH_MAX_NS : others_ns;
}

void turn_pass_current(void)
{
	if (current.turn && current.thread == rb_thread_current())
		turn_pass(current.turn);
}
