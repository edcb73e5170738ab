/*
 * GC.stress, off while we work. See gc_stress.h.
 *
 * Off is nil, not false: so it can be told from what the application sets meanwhile. Its values are true, false and numbers; all are immediate, so nothing
 * has to be marked.
 */

#include "gc_stress.h"

#include "core.h"

static struct {
	VALUE kept;          /* the application's; Qundef: we have not switched it off */
	unsigned at_work;    /* of ours, nested and of all threads */
	bool forked_at_work; /* in a child, whose parent had others at work */
} stress = {.kept = Qundef};

/* Of this thread: what a forked child is left with. */
static __thread unsigned own_work;

static VALUE get(VALUE unused)
{
	(void)unused;
	return core_call0(CORE_GC_STRESS, rb_mGC);
}

static VALUE set(VALUE value)
{
	return core_call(CORE_GC_SET_STRESS, rb_mGC, 1, &value);
}

static VALUE protected(VALUE (*run)(VALUE), VALUE argument)
{
	VALUE error = rb_errinfo(), value;
	int failed = 0;

	value = rb_protect(run, argument, &failed);
	if (failed)
		rb_set_errinfo(error);
	return failed ? Qnil : value;
}

static void give_back(void)
{
	if (stress.kept != Qundef && NIL_P(protected(get, Qnil))) {
		protected(set, stress.kept);
	}
	stress.kept = Qundef;
}

static void begin(unsigned count)
{
	VALUE value;

	stress.at_work += count;
	if (stress.at_work > count || core_missing(CORE_GC_STRESS) || core_missing(CORE_GC_SET_STRESS))
		return;
	value = protected(get, Qnil);
	if (!RTEST(value) || !RB_SPECIAL_CONST_P(value))
		return;
	stress.kept = value;
	protected(set, Qnil);
}

static void end(unsigned count)
{
	stress.at_work -= count;
	if (stress.at_work == 0)
		give_back();
}

void gc_stress_off(void)
{
	if (stress.forked_at_work) {
		stress.forked_at_work = false;
		give_back();
	}
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
	stress.forked_at_work = stress.kept != Qundef && own_work == 0;
	stress.at_work = own_work;
}

bool gc_stress_fork_left(void)
{
	return stress.forked_at_work;
}
