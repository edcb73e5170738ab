/* Sharing the GVL. See gvl_slice.h. */

#include "tracee/vm/gvl_slice.h"

#include "proto/clock.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/gc_stress.h"

#include <ruby.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LENGTH_MIN_NS (10 * NS_PER_MS)
#define PART_MIN_NS (GVL_PART_MS * NS_PER_MS)
#define LENGTH_MAX_NS (100 * NS_PER_MS) /* what Ruby gives a thread */

/* Of the job: there is one at a time. Events in other threads find that it is not theirs. */
static struct {
	struct gvl_slice *slice; /* NULL: none */
	VALUE thread;            /* runs it, which keeps it from the GC */
} current;

static uint64_t part_due_ns; /* when the next part may begin, of whatever work */

void gvl_slice_begin(struct gvl_slice *slice)
{
	memset(slice, 0, sizeof(*slice));
	slice->began_ns = clock_now_ns();
	slice->length_ns = LENGTH_MIN_NS;
	slice->part_length_ns = PART_MIN_NS;
}

void gvl_slice_begin_for(struct gvl_slice *slice, const _Atomic bool *client_gone, unsigned limit_ms)
{
	gvl_slice_begin(slice);
	slice->client_gone = client_gone;
	slice->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	slice->limit_ns = (uint64_t)limit_ms * NS_PER_MS;
	current.slice = slice;
	current.thread = rb_thread_current();
}

/*
 * Where other threads compute, each job waits for its turn, and has as much time then as they had. A process of one thread has
 * nobody that waits but itself.
 */
static uint64_t part_length_ns(const struct gvl_slice *slice)
{
	uint64_t others_ns = slice->over_ns && !rb_thread_alone() ? slice->began_ns - slice->over_ns : 0;

	if (others_ns < PART_MIN_NS)
		return PART_MIN_NS;
	return others_ns < LENGTH_MAX_NS ? others_ns : LENGTH_MAX_NS;
}

void gvl_slice_part(struct gvl_slice *slice)
{
	slice->began_ns = clock_now_ns();
	slice->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	slice->part_length_ns = part_length_ns(slice);
	slice->part_ns = 0;
	current.slice = slice;
	current.thread = rb_thread_current();
}

void gvl_slice_end(void)
{
	struct gvl_slice *slice = current.slice;

	if (slice) {
		slice->over_ns = clock_now_ns();
		part_due_ns = slice->over_ns +
		              (slice->part_ns < PART_MIN_NS ? slice->part_ns : PART_MIN_NS) * GVL_PAUSE_MS / GVL_PART_MS;
	}
	current.slice = NULL;
}

static void give_up_if_due(struct gvl_slice *slice)
{
	uint64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	uint64_t worked_ns = cpu_ns > slice->cpu_ns ? cpu_ns - slice->cpu_ns : 0;

	slice->worked_ns += worked_ns;
	slice->part_ns += worked_ns;
	slice->cpu_ns = cpu_ns;
	if (slice->client_gone && atomic_load_explicit(slice->client_gone, memory_order_acquire))
		snprintf(slice->gave_up, sizeof(slice->gave_up), "its client has left");
	else if (slice->limit_ns && slice->worked_ns > slice->limit_ns)
		snprintf(slice->gave_up, sizeof(slice->gave_up), "it took more than %g s of the process",
		         (double)slice->limit_ns / 1e9);
	if (slice->gave_up[0])
		rb_raise(rb_eRuntimeError, "%s", slice->gave_up);
}

bool gvl_slice_part_is_over(struct gvl_slice *slice)
{
	give_up_if_due(slice);
	return slice->part_ns >= slice->part_length_ns;
}

bool gvl_part_is_due(void)
{
	return clock_now_ns() >= part_due_ns;
}

void gvl_slice_yield(void)
{
	unsigned own = gc_stress_let_run();

	compat_yield();
	gc_stress_let_run_end(own);
}

void gvl_slice_pass(struct gvl_slice *slice)
{
	uint64_t passed_ns = clock_now_ns();
	uint64_t others_ns;

	if (passed_ns - slice->began_ns < slice->length_ns)
		return;
	if (slice->client_gone)
		give_up_if_due(slice);
	gvl_slice_yield();
	slice->began_ns = clock_now_ns();
	if (slice->client_gone)
		slice->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	others_ns = slice->began_ns - passed_ns;
	slice->length_ns = others_ns < LENGTH_MIN_NS ? LENGTH_MIN_NS : others_ns > LENGTH_MAX_NS ? LENGTH_MAX_NS : others_ns;
}

void gvl_slice_pass_current(void)
{
	if (current.slice && current.thread == rb_thread_current())
		gvl_slice_pass(current.slice);
}
