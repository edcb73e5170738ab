/*
 * GC.stress, without effect while we work. See gc_stress.h.
 *
 * The collector is disabled for that: a stressed allocation does not collect then (gc_start() and ready_to_gc() of gc.c,
 * 2.7 to 4.1-dev). GC.stress itself is not changed. It can be read and set from Ruby only, where threads may switch between
 * our reading and our setting: what another thread sets there would be lost. rb_gc_disable() and rb_gc_enable() are one step each.
 */

#include "gc_stress.h"

#include "core.h"
#include "interrupts.h"

static struct {
	unsigned at_work; /* of ours, nested and of all threads */
	bool disabled;    /* by us */
} stress;

/* Of this thread: what a forked child is left with. */
static __thread unsigned own_work;

static VALUE stress_of_application(VALUE unused)
{
	(void)unused;
	return core_call0(CORE_GC_STRESS, rb_mGC);
}

static bool is_on(void)
{
	VALUE value;
	int failed = 0;

	if (core_missing(CORE_GC_STRESS))
		return false;
	value = rb_protect(stress_of_application, Qnil, &failed);
	/* It raises nothing itself. */
	if (failed)
		interrupts_send_again(true);
	return !failed && RTEST(value);
}

static void begin(unsigned count)
{
	stress.at_work += count;
	/* The first to begin decides for those who come to it. */
	if (stress.at_work == count && is_on() && rb_gc_disable() == Qfalse)
		stress.disabled = true;
}

static void enable(void)
{
	if (stress.disabled)
		rb_gc_enable();
	stress.disabled = false;
}

static void end(unsigned count)
{
	stress.at_work -= count;
	if (stress.at_work == 0)
		enable();
}

void gc_stress_off(void)
{
	own_work++;
	begin(1);
}

void gc_stress_back(void)
{
	own_work--;
	end(1);
}

unsigned gc_stress_let_run(void)
{
	unsigned own = own_work;

	end(own);
	return own;
}

void gc_stress_let_run_end(unsigned own)
{
	begin(own);
}

void gc_stress_fork_child(void)
{
	stress.at_work = own_work;
	if (own_work == 0)
		enable();
}
