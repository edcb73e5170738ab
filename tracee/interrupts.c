/* Interrupts that are not ours. See interrupts.h. */

#include "interrupts.h"

static struct {
	ID handle_interrupt, raise, kill;
	VALUE never, immediate; /* Symbols */
} ids;

void interrupts_init(void)
{
	ids.handle_interrupt = rb_intern("handle_interrupt");
	ids.raise = rb_intern("raise");
	ids.kill = rb_intern("kill");
	ids.never = ID2SYM(rb_intern("never"));
	ids.immediate = ID2SYM(rb_intern("immediate"));
}

struct deferred {
	VALUE (*run)(VALUE);
	VALUE argument;
};

static VALUE run_deferred(RB_BLOCK_CALL_FUNC_ARGLIST(unused, data))
{
	struct deferred *deferred = (struct deferred *)data;

	(void)unused;
	(void)argc;
	(void)argv;
	(void)blockarg;
	return deferred->run(deferred->argument);
}

VALUE interrupts_deferred(VALUE (*run)(VALUE), VALUE argument, VALUE ours)
{
	struct deferred deferred = {run, argument};
	VALUE mask = rb_hash_new();

	rb_hash_aset(mask, rb_cObject, ids.never);
	if (!NIL_P(ours))
		rb_hash_aset(mask, ours, ids.immediate);
	return rb_block_call(rb_cThread, ids.handle_interrupt, 1, &mask, run_deferred, (VALUE)&deferred);
}

VALUE interrupts_admitted(VALUE (*run)(VALUE), VALUE argument)
{
	struct deferred admitted = {run, argument};
	VALUE mask = rb_hash_new();

	rb_hash_aset(mask, rb_cObject, ids.immediate);
	return rb_block_call(rb_cThread, ids.handle_interrupt, 1, &mask, run_deferred, (VALUE)&admitted);
}

/* In a thread of its own. pair: the receiver, and the exception or nil for a kill. */
static VALUE send_to(void *data)
{
	VALUE pair = (VALUE)data;
	VALUE exception = rb_ary_entry(pair, 1);

	if (NIL_P(exception))
		rb_funcall(rb_ary_entry(pair, 0), ids.kill, 0);
	else
		rb_funcall(rb_ary_entry(pair, 0), ids.raise, 1, exception);
	RB_GC_GUARD(pair);
	return Qnil;
}

static VALUE send_by_thread(VALUE exception)
{
	VALUE pair = rb_ary_new_from_args(2, rb_thread_current(), exception);

	rb_thread_create(send_to, (void *)pair);
	RB_GC_GUARD(pair);
	return Qnil;
}

void interrupts_send_again(void)
{
	VALUE error = rb_errinfo();
	int failed = 0;

	/* A number stands for the end of the thread. */
	rb_protect(send_by_thread, RB_SPECIAL_CONST_P(error) ? Qnil : error, &failed);
	rb_set_errinfo(Qnil);
}
