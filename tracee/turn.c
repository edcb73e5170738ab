/* Sharing the GVL. See turn.h. */

#include "turn.h"

#include "gc_stress.h"
#include "proto/clock.h"

#include <ruby.h>

#define LENGTH_MIN_NS (10 * NS_PER_MS)
#define LENGTH_MAX_NS (100 * NS_PER_MS) /* what Ruby gives a thread */

void turn_begin(struct turn *turn)
{
	turn->began_ns = clock_now_ns();
	turn->length_ns = LENGTH_MIN_NS;
}

void turn_pass(struct turn *turn)
{
	uint64_t passed_ns = clock_now_ns();
	uint64_t others_ns;
	unsigned own;

	if (passed_ns - turn->began_ns < turn->length_ns)
		return;
	own = gc_stress_let_run();
	rb_thread_schedule();
	gc_stress_let_run_end(own);
	turn->began_ns = clock_now_ns();
	others_ns = turn->began_ns - passed_ns;
	turn->length_ns = others_ns < LENGTH_MIN_NS ? LENGTH_MIN_NS : others_ns > LENGTH_MAX_NS ? LENGTH_MAX_NS : others_ns;
}
