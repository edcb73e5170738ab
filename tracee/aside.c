/* Work in between. See aside.h. */

#include "aside.h"

#include "fiber.h"
#include "interrupts.h"
#include "quiet.h"

struct work {
	VALUE (*run)(VALUE);
	VALUE argument;
};

static VALUE run_deferring(VALUE argument)
{
	const struct work *work = (const struct work *)argument;

	return interrupts_deferred(work->run, work->argument, Qnil);
}

void aside_run(VALUE (*run)(VALUE), VALUE argument)
{
	struct work work = {run, argument};
	VALUE error = rb_errinfo();
	struct quiet quiet = quiet_begin();
	struct fiber_state *own = fiber_own_begin();
	int failed = 0;

	rb_protect(run_deferring, (VALUE)&work, &failed);
	fiber_own_end(own);
	quiet_end(quiet);
	if (failed)
		rb_jump_tag(failed);
	rb_set_errinfo(error);
}
