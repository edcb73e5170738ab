/* Interrupts that are not ours. See interrupts.h. */

#include "interrupts.h"

#include "quiet.h"

#define END_TRIES_MAX 20
#define END_PAUSE_MS 500

static struct {
	ID handle_interrupt, raise, is_pending, is_alive, set_report_on_exception, set_abort_on_exception;
	VALUE never, immediate; /* Symbols */
	VALUE end;              /* class of exceptions */
} ids;

void interrupts_init(void)
{
	if (ids.never)
		return;
	ids.handle_interrupt = rb_intern("handle_interrupt");
	ids.raise = rb_intern("raise");
	ids.is_alive = rb_intern("alive?");
	ids.set_report_on_exception = rb_intern("report_on_exception=");
	ids.set_abort_on_exception = rb_intern("abort_on_exception=");
	ids.is_pending = rb_intern("pending_interrupt?");
	rb_gc_register_address(&ids.end); /* first: it allocates, and may collect */
	ids.end = rb_class_new(rb_eException);
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

/* By identity: asking a class for its hash may run the application's code, and gives it an object_id, which the next one to be given shows. */
static VALUE new_mask(void)
{
	return rb_funcall(rb_hash_new(), rb_intern("compare_by_identity"), 0);
}

VALUE interrupts_deferred(VALUE (*run)(VALUE), VALUE argument, VALUE ours)
{
	struct deferred deferred = {run, argument};
	VALUE mask = new_mask();

	rb_hash_aset(mask, rb_cObject, ids.never);
	if (!NIL_P(ours))
		rb_hash_aset(mask, ours, ids.immediate);
	return rb_block_call(rb_cThread, ids.handle_interrupt, 1, &mask, run_deferred, (VALUE)&deferred);
}

bool interrupts_are_pending(void)
{
	return RTEST(rb_funcall(rb_cThread, ids.is_pending, 0));
}

VALUE interrupts_admitted(VALUE (*run)(VALUE), VALUE argument)
{
	struct deferred admitted = {run, argument};
	VALUE mask = new_mask();

	rb_hash_aset(mask, rb_cObject, ids.immediate);
	return rb_block_call(rb_cThread, ids.handle_interrupt, 1, &mask, run_deferred, (VALUE)&admitted);
}

/*
 * A kill that the VM has delivered cannot be sent again: the thread is marked as being killed, and Thread#kill and the end of the process pass over such. So it
 * is ended by an exception, of which nothing is said (but by Thread#join: this is for kills that come while a command runs on the thread). One that the
 * thread rescues is followed by another.
 */
static void end_thread(VALUE thread)
{
	rb_funcall(thread, ids.set_report_on_exception, 1, Qfalse);
	rb_funcall(thread, ids.set_abort_on_exception, 1, Qfalse);
	for (int i = 0; i < END_TRIES_MAX && RTEST(rb_funcall(thread, ids.is_alive, 0)); i++) {
		rb_funcall(thread, ids.raise, 1, rb_exc_new_cstr(ids.end, "killed"));
		for (int ms = 0; ms < END_PAUSE_MS && RTEST(rb_funcall(thread, ids.is_alive, 0)); ms += 10)
			rb_thread_wait_for((struct timeval){.tv_usec = 10000});
	}
}

/* In a thread of its own. pair: the receiver, and the exception or nil for a kill. */
static VALUE send_to(void *data)
{
	VALUE pair = (VALUE)data;
	VALUE exception = rb_ary_entry(pair, 1);

	rb_funcall(rb_thread_current(), ids.set_report_on_exception, 1, Qfalse);
	if (NIL_P(exception))
		end_thread(rb_ary_entry(pair, 0));
	else
		rb_funcall(rb_ary_entry(pair, 0), ids.raise, 1, exception);
	RB_GC_GUARD(pair);
	return Qnil;
}

static VALUE send_by_thread(VALUE exception)
{
	VALUE pair = rb_ary_new_from_args(2, rb_thread_current(), exception);

	quiet_thread(rb_thread_create(send_to, (void *)pair));
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
