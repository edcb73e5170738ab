/* Work in between. See aside.h. */

#include "tracee/vm/aside.h"

#include "tracee/vm/exception_drop.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/interrupts.h"
#include "tracee/vm/interrupts_mask.h"
#include "tracee/vm/own_objects.h"
#include "tracee/vm/own_work.h"
#include "tracee/vm/quiet.h"

struct work {
	VALUE (*run)(VALUE);
	VALUE argument;
	bool began;
};

/* Interrupts are held back: what is raised here is a failure of ours. */
static VALUE run_protected(VALUE argument)
{
	struct work *work = (struct work *)argument;
	int failed = 0;

	work->began = true;
	rb_protect(work->run, work->argument, &failed);
	if (failed)
		interrupts_forget_failure();
	return Qnil;
}

static VALUE run_deferring(VALUE argument)
{
	return interrupts_deferred(run_protected, argument, Qnil);
}

int aside_protect(VALUE (*run)(VALUE), VALUE argument)
{
	struct work work = {run, argument, false};
	VALUE error = rb_errinfo();
	struct own_work own_work;
	struct quiet quiet = quiet_begin();
	struct fiber_state *own = fiber_suppress_begin();
	struct interrupts_mask mask;
	int failed = 0;

	own_work_begin(&own_work, (uintptr_t)aside_protect);
	own_objects_begin(own);
	mask = interrupts_mask_begin();
	rb_protect(run_deferring, (VALUE)&work, &failed);
	interrupts_mask_end(&mask);
	own_objects_end(own);
	own_work_end(&own_work);
	fiber_suppress_end(own);
	quiet_end(quiet);
	/* After the work has begun it is an interrupt; before, a failure of ours. */
	if (failed && work.began && !interrupts_lacked())
		return failed;
	exception_drop(error);
	return 0;
}

static VALUE nothing(VALUE unused)
{
	return unused;
}

static VALUE run_aside(VALUE argument)
{
	const struct work *work = (const struct work *)argument;
	int jump = aside_protect(work->run, work->argument);

	if (jump)
		rb_jump_tag(jump);
	return Qnil;
}

/*
 * rb_ensure() puts `$!` back, whatever kind of object it is: after a throw, or in a thread that is being killed, rb_set_errinfo()
 * would refuse it.
 */
void aside_run(VALUE (*run)(VALUE), VALUE argument)
{
	struct work work = {run, argument, false};

	rb_ensure(nothing, Qnil, run_aside, (VALUE)&work);
}
