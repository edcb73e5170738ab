/*
 * GC.stress, without effect while we work. See gc_stress.h.
 *
 * The collector is disabled for that: a stressed allocation does not collect then (gc_start() and ready_to_gc() of gc.c, 2.7 to
 * 4.1-dev). GC.stress itself is not changed. It can be read and set from Ruby only, where threads may switch between our reading
 * and our setting: what another thread sets there would be lost. rb_gc_disable() and rb_gc_enable() are one step each.
 */

#include "tracee/vm/gc_stress.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/interrupts.h"

static struct {
	unsigned at_work; /* of ours, nested and of all threads */
	bool disabled;    /* by us */
} stress;

/* Of this thread: what a forked child is left with. */
static __thread unsigned own_work;

static VALUE stress_of_application(VALUE unused)
{
	(void)unused;
	return builtin_call0(BUILTIN_GC_STRESS, rb_mGC);
}

static bool is_on(void)
{
	VALUE value;
	int failed = 0;

	if (builtin_missing(BUILTIN_GC_STRESS))
		return false;
	value = rb_protect(stress_of_application, Qnil, &failed);
	/* It raises nothing itself. */
	if (failed)
		interrupts_send_again(true);
	return !failed && RTEST(value);
}

static void gc_stress_begin(unsigned count)
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

static void gc_stress_end(unsigned count)
{
	stress.at_work -= count;
	if (stress.at_work == 0)
		enable();
}

void gc_stress_off(void)
{
	own_work++;
	gc_stress_begin(1);
}

void gc_stress_back(void)
{
	own_work--;
	gc_stress_end(1);
}

unsigned gc_stress_let_run(void)
{
	unsigned own = own_work;

	gc_stress_end(own);
	return own;
}

void gc_stress_let_run_end(unsigned own)
{
	gc_stress_begin(own);
}

void gc_stress_fork_child(void)
{
	stress.at_work = own_work;
	if (own_work == 0)
		enable();
}
