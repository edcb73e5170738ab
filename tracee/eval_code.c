/* Running the code of an evaluation. See eval.h. Context: the thread that runs it, except where eval.h says otherwise; GVL held. */

#include "eval.h"

#include "console.h"
#include "core.h"

VALUE eval_code_binding(const struct eval *eval)
{
	VALUE top_level;

	if (eval->flags & EVAL_CONSOLE)
		return console_binding(eval->request->session);
	top_level = rb_const_get(rb_cObject, rb_intern("TOPLEVEL_BINDING"));
	/* Sees the top level's local variables; those that it makes are its own. */
	return core_call0(CORE_BINDING_DUP, top_level);
}

/* What later lines of a console find. */
static void keep(const struct eval *eval, VALUE result)
{
	if (!(eval->flags & EVAL_SUBJECT))
		rb_funcall(eval->binding, rb_intern("local_variable_set"), 2, ID2SYM(rb_intern("_")), result);
	else if (eval->request->session)
		console_set_subject(eval->request->session, result);
}

/* Ruby parses all of the code before it runs any; so a syntax error is one that has no frame of the code in its backtrace. */
VALUE eval_code_run(struct eval *eval)
{
	VALUE result;

	eval->base = rb_make_backtrace();
	result = rb_funcall(eval->binding, rb_intern("eval"), 3, eval->code, eval->name, INT2FIX(1));
	if (eval->flags & EVAL_CONSOLE)
		keep(eval, result);
	return result;
}

VALUE eval_code_frames(const struct eval *eval, VALUE backtrace)
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
