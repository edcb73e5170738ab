/* What an expression leaves behind in a method_missing. See missing_reason.h. */

#include "tracee/observe/missing_reason.h"

#include "tracee/vm/exception_drop.h"
#include "tracee/vm/interrupts_mask.h"
#include "tracee/vm/own.h"

#include <stdbool.h>

static VALUE nobody = Qfalse; /* an object whose own method_missing does nothing */

static VALUE ignore(int argc, VALUE *argv, VALUE self)
{
	(void)argc;
	(void)argv;
	(void)self;
	return Qnil;
}

static VALUE make_nobody(VALUE unused)
{
	VALUE class = own_class_new(rb_cBasicObject);

	(void)unused;
	rb_define_method(class, "method_missing", ignore, -1);
	nobody = rb_obj_alloc(class);
	RB_GC_GUARD(class);
	return Qnil;
}

static VALUE miss(VALUE unused)
{
	(void)unused;
	return rb_funcall(nobody, rb_intern("rbprobe_missing"), 0);
}

void missing_reason_reset(VALUE raised)
{
	static bool registered;
	VALUE error = rb_errinfo();
	int failed = 0;

	if (!RTEST(rb_obj_is_kind_of(raised, rb_eNameError)))
		return;
	if (!registered) {
		registered = true;
		own_register(&nobody);
	}
	if (!nobody)
		interrupts_mask_protect(make_nobody, Qnil, &failed);
	if (nobody)
		interrupts_mask_protect(miss, Qnil, &failed);
	exception_drop(error);
}
