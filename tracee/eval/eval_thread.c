/*
 * The thread an evaluation runs in, and the one that cancels it. See eval.h.
 *
 * The thread is made by a job, in which all interrupts are held back, and inherits that: so it can be killed, or cancelled, only
 * where it lets interrupts in, around the user's code, and its end is always told.
 *
 * Who cancels it is one more thread, for a moment: the job may run on the very thread that is to be interrupted, where the VM
 * would catch what it raises. It comes back after a while with Thread#kill, which no rescue stops.
 */

#include "tracee/eval/eval.h"

#include "proto/clock.h"
#include "tracee/session/debug.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/fiber.h"
#include "tracee/vm/gvl_slice.h"
#include "tracee/vm/interrupts.h"
#include "tracee/vm/own.h"

#define KILL_AFTER_US 500000     /* that code may go on after it was told to end */
#define START_NS (5 * NS_PER_MS) /* that a new thread may take to be ready */

/* Makes the current thread, one of ours, recognisable, and keeps it out of the way. May raise. */
static VALUE introduce(VALUE name)
{
	VALUE thread = rb_thread_current();

	builtin_call1(BUILTIN_THREAD_SET_NAME, thread, name);
	/* Puma warns of threads at its fork that have not this. */
	builtin_call(BUILTIN_THREAD_VARIABLE_SET, thread, 2, (VALUE[]){ID2SYM(rb_intern("fork_safe")), Qtrue});
	builtin_call1(BUILTIN_THREAD_SET_REPORT, thread, Qfalse);
	builtin_call1(BUILTIN_THREAD_SET_PRIORITY, thread, INT2FIX(0));
	return Qnil;
}

static VALUE thread_groups(void)
{
	return rb_const_get(rb_cObject, rb_intern("ThreadGroup"));
}

static VALUE enter_group(VALUE thread)
{
	VALUE group = rb_obj_alloc(thread_groups());

	builtin_call1(BUILTIN_THREAD_GROUP_ADD, group, thread);
	return group;
}

/* Threads that the code has left behind are the application's from now on. */
static VALUE leave_group(VALUE group)
{
	VALUE all = builtin_call0(BUILTIN_THREAD_GROUP_LIST, group);
	VALUE standard = rb_const_get(thread_groups(), rb_intern("Default"));

	for (long i = 0; i < RARRAY_LEN(all); i++)
		builtin_call1(BUILTIN_THREAD_GROUP_ADD, standard, rb_ary_entry(all, i));
	return Qnil;
}

static VALUE enter_own_group(VALUE argument)
{
	struct eval *eval = (struct eval *)argument;

	eval->group = enter_group(eval->thread);
	return Qnil;
}

static VALUE thread_deferring(VALUE argument)
{
	struct eval *eval = (struct eval *)argument;
	VALUE group;

	eval->started = true;
	eval_try(introduce, rb_str_new_cstr("rbprobe eval"));
	eval_try(enter_own_group, argument);
	debug(eval->request->session, DEBUG_EVAL, "evaluation %llu: its thread has started", (unsigned long long)eval->serial);
	eval_output_begin();
	eval_run(eval);
	eval_output_end();
	group = eval->group;
	if (!NIL_P(group))
		eval_try(leave_group, group);
	eval_finish(eval);
	return Qnil;
}

static VALUE thread_protected(VALUE argument)
{
	return interrupts_deferred(thread_deferring, argument, Qnil);
}

static VALUE thread_main(void *argument)
{
	uint64_t serial = ((struct eval *)argument)->serial;
	struct eval *eval;

	eval_try(thread_protected, (VALUE)argument);
	/* There was no memory for what stands around the code. */
	eval = eval_find(serial);
	if (eval)
		eval_finish(eval);
	return Qnil;
}

static VALUE create(VALUE argument)
{
	struct eval *eval = (struct eval *)argument;

	eval->thread = own_thread_new(thread_main, eval);
	return Qnil;
}

/*
 * The thread that runs the job goes on with the application's work then, and where that is computing, it would keep the new one
 * waiting for a whole time slice of the VM: so that goes first. It needs a moment until it is ready.
 */
static VALUE let_start(VALUE number)
{
	uint64_t serial = NUM2ULL(number), deadline_ns = clock_now_ns() + START_NS;
	const struct eval *eval;

	while ((eval = eval_find(serial)) && !eval->started && clock_now_ns() < deadline_ns)
		gvl_slice_yield();
	return Qnil;
}

bool eval_thread_start(struct eval *eval)
{
	uint64_t serial = eval->serial;

	if (!eval_try(create, (VALUE)eval))
		return false;
	/* It may be over after that. */
	eval_try(let_start, ULL2NUM(serial));
	return true;
}

/*
 * In a thread of its own, by the serial, since the evaluation may be gone by then. Nothing runs between a look and what follows
 * from it.
 */
static VALUE interrupt(VALUE number)
{
	uint64_t serial = NUM2ULL(number);
	struct eval *eval;

	fiber_suppress_begin();
	introduce(rb_str_new_cstr("rbprobe cancel"));
	for (unsigned attempt = 0; (eval = eval_find(serial)) && eval->interruptible; attempt++) {
		VALUE thread = eval->thread;
		bool in_main = eval->flags & EVAL_MAIN;
		struct timeval pause = {.tv_usec = KILL_AFTER_US};

		eval->interrupted = true;
		debug(eval->request->session, DEBUG_EVAL, "evaluation %llu: cancelling, attempt %u: %s",
		      (unsigned long long)serial, attempt + 1,
		      attempt == 0 || in_main ? "an exception is raised in its thread"
		      : attempt == 1          ? "its thread is killed"
		                              : "given up");
		/* These let other threads run: the evaluation may be gone after each. */
		if (attempt == 0 || in_main)
			builtin_call1(BUILTIN_THREAD_RAISE, thread, eval->exception);
		else if (attempt == 1)
			builtin_call0(BUILTIN_THREAD_KILL, thread);
		else
			return Qnil;
		if (in_main)
			rb_thread_wait_for(pause);
		else
			builtin_call1(BUILTIN_THREAD_JOIN, thread, DBL2NUM(KILL_AFTER_US / 1e6));
		RB_GC_GUARD(thread);
	}
	return Qnil;
}

static VALUE interrupter_main(void *argument)
{
	eval_try(interrupt, (VALUE)argument);
	return Qnil;
}

static VALUE create_interrupter(VALUE number)
{
	return own_thread_new(interrupter_main, (void *)number);
}

void eval_thread_interrupt(const struct eval *eval)
{
	eval_try(create_interrupter, ULL2NUM(eval->serial));
}
