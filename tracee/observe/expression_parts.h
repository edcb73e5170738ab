#ifndef RBPROBE_EXPRESSION_PARTS_H
#define RBPROBE_EXPRESSION_PARTS_H

#include "tracee/observe/expression.h"

/*
 * What expression_value.c, which finds the value of an expression, and expression_render.c and expression_plain.c, which evaluate
 * and render it, share. Event context, GVL held; what may raise runs under evaluate().
 */

struct rendering {
	struct expression *item; /* NULL: value is given */
	VALUE value;
	const struct seen_call *call;
	const struct trace_options *options;
	struct text *text;
	VALUE *binding; /* made at the first need */
	bool ended;     /* nobody waits for any value any more */
	bool absent;    /* there is no such variable here */
	long callers;   /* frames that `caller` shows, where the expression has it */
};

/* What to show; Qundef: that is shown already. */
VALUE expression_value_of(struct rendering *rendering);

/* A parameter as the frame has it; Qundef: it has to be asked for. */
VALUE expression_local_in_frame(struct expression *item, const struct seen_call *call);
/* The same of any item whose value is found without calling a method, without an exception and without an allocation. */
VALUE expression_value_at_hand(struct expression *item, const struct seen_call *call);

/* To show these, nothing is called that could raise or allocate. */
static inline bool expression_is_simple(VALUE value)
{
	return RB_FIXNUM_P(value) || value == Qnil || value == Qtrue || value == Qfalse || RB_STATIC_SYM_P(value) ||
	       (!RB_SPECIAL_CONST_P(value) && RB_BUILTIN_TYPE(value) == RUBY_T_STRING);
}

/* A rendering's callers, while nothing of ours has a frame yet. Calls no method. */
VALUE expression_count_callers(VALUE rendering);

#endif
