/*
 * Running the code of an evaluation, whatever it does. See eval.h. Context: the thread that runs it, except where eval.h says
 * otherwise; GVL held.
 */

#include "tracee/eval/eval.h"

#include "proto/clock.h"
#include "tracee/eval/console.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/interrupts.h"
#include "tracee/vm/quiet.h"

VALUE eval_binding(const struct eval *eval)
{
	VALUE top_level;

	if (eval->flags & EVAL_CONSOLE)
		return console_binding(eval->request->session);
	top_level = rb_const_get(rb_cObject, rb_intern("TOPLEVEL_BINDING"));
	/* Sees the top level's local variables; those that it makes are its own. */
	return builtin_call0(BUILTIN_BINDING_DUP, top_level);
}

/* What later lines of a console find. */
static void keep(const struct eval *eval, VALUE result)
{
	if (!(eval->flags & EVAL_SUBJECT))
		builtin_call(BUILTIN_BINDING_LOCAL_VARIABLE_SET, eval->binding, 2, (VALUE[]){ID2SYM(rb_intern("_")), result});
	else if (eval->request->session)
		console_set_subject(eval->request->session, result);
}

/* Ruby parses all of the code before it runs any; so a syntax error is one that has no frame of the code in its backtrace. */
static VALUE run_binding(struct eval *eval)
{
	VALUE arguments[] = {eval->code, eval->name, INT2FIX(1)};
	VALUE evaluate = builtin_bind(BUILTIN_BINDING_EVAL, eval->binding), result;

	eval->base = rb_make_backtrace();
	eval->heard = quiet_pause();
	result = rb_method_call_with_block(3, arguments, evaluate, Qnil);
	quiet_end(eval->heard);
	eval->heard = (struct quiet){0};
	if (eval->flags & EVAL_CONSOLE)
		keep(eval, result);
	return result;
}

VALUE eval_own_frames(const struct eval *eval, VALUE backtrace)
{
	long base, size;

	if (!RB_TYPE_P(backtrace, T_ARRAY) || NIL_P(eval->base))
		return backtrace;
	base = RARRAY_LEN(eval->base);
	size = RARRAY_LEN(backtrace);
	if (size < base + 1)
		return backtrace;
	/* An exception may have been raised elsewhere, and been passed on by the code. */
	for (long i = 1; i <= base; i++)
		if (!RTEST(rb_equal(rb_ary_entry(eval->base, base - i), rb_ary_entry(backtrace, size - i))))
			return backtrace;
	/* The frame above is that of Binding#eval. */
	return rb_ary_subseq(backtrace, 0, size - base - 1);
}

static VALUE run_code(VALUE argument)
{
	struct eval *eval = (struct eval *)argument;
	VALUE result = run_binding(eval);

	eval->outcome = EVAL_RETURNED;
	eval_result_returned(eval, result);
	RB_GC_GUARD(result);
	return Qnil;
}

static VALUE run_admitted(VALUE argument)
{
	return interrupts_admitted(run_code, argument);
}

struct raised {
	struct eval *eval;
	VALUE error;
};

static VALUE look_at_error(VALUE argument)
{
	struct raised *raised = (struct raised *)argument;

	eval_result_raised(raised->eval, raised->error);
	if (RTEST(rb_obj_is_kind_of(raised->error, rb_eSyntaxError)))
		eval_syntax_look(raised->eval);
	return Qnil;
}

static VALUE look_admitted(VALUE argument)
{
	return interrupts_admitted(look_at_error, argument);
}

static VALUE give_back_admitted(VALUE unused)
{
	return interrupts_admitted(eval_connections_give_back, unused);
}

void eval_run(struct eval *eval)
{
	struct raised raised = {eval, Qnil};
	bool in_main = eval->flags & EVAL_MAIN;
	int failed = 0;

	eval->began_ns = clock_now_ns();
	eval->interruptible = true;
	eval->outcome = EVAL_KILLED;
	rb_protect(in_main ? run_code : run_admitted, (VALUE)eval, &failed);
	quiet_end(eval->heard);
	if (failed) {
		raised.error = rb_errinfo();
		exception_drop(Qnil);
		eval->outcome = RB_SPECIAL_CONST_P(raised.error) ? EVAL_KILLED : EVAL_RAISED;
		if (eval->outcome == EVAL_RAISED && !builtin_is_exception(raised.error))
			eval_result_thrown(eval);
		/* Its methods are the application's, and may be interrupted like its code. */
		if (builtin_is_exception(raised.error))
			eval_try(raised.error == eval->exception || in_main ? look_at_error : look_admitted, (VALUE)&raised);
	}
	/* The main thread's connections are the application's own. */
	if (!in_main)
		eval_try(give_back_admitted, Qnil);
	eval->interruptible = false;
	eval->ended_ns = clock_now_ns();
	if (eval->interrupted)
		eval->outcome = eval->reason == CANCEL_TIMEOUT ? EVAL_TIMED_OUT : EVAL_CANCELLED;
	RB_GC_GUARD(raised.error);
}
