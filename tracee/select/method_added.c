/*
 * New methods. See method_added.h. Contexts: job (install), and a plain method call with the GVL held (the rest).
 *
 * The VM calls method_added or singleton_method_added for every new method, with def, define_method, attr_*, alias and in
 * refinements alike. Both are private C methods that do nothing; they are replaced by C methods of the same shape that tell
 * selection_dynamic.c. An event hook for it would have to be a global one; another way to learn it without asking again and again
 * does not exist. Where the application has given Module or BasicObject a method_added of its own, that is left alone, and only
 * what is defined at attach time is traced.
 */

#include "tracee/select/method_added.h"

#include "tracee/engine/arming.h"
#include "tracee/select/selection.h"
#include "tracee/vm/aside.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/refinements.h"

struct addition {
	VALUE object;
	VALUE name;
	bool singleton;
};

static VALUE report(VALUE argument)
{
	struct addition *addition = (struct addition *)argument;

	selection_method_added(addition->singleton ? rb_singleton_class(addition->object) : addition->object, addition->name);
	return Qnil;
}

static VALUE report_protected(VALUE addition)
{
	int failed = 0;

	rb_protect(report, addition, &failed);
	if (failed)
		exception_drop(Qnil);
	return Qnil;
}

static VALUE added(VALUE object, VALUE name, bool singleton)
{
	struct addition addition = {.object = object, .name = name, .singleton = singleton};

	if (compat_in_main_ractor())
		refinements_method_added(object);
	if (!compat_in_main_ractor() || !selection_watches() || arming_is_under_way())
		return Qnil;
	selection_module_seen(object);
	if (selection_may_mean(name))
		aside_run(report_protected, (VALUE)&addition);
	return Qnil;
}

static VALUE method_added(VALUE module, VALUE name)
{
	return added(module, name, false);
}

static VALUE singleton_method_added(VALUE object, VALUE name)
{
	return added(object, name, true);
}

static bool is_vacant(VALUE class, VALUE name)
{
	VALUE method = builtin_call(BUILTIN_MODULE_INSTANCE_METHOD, class, 1, &name);

	return builtin_call0(BUILTIN_UNBOUND_METHOD_OWNER, method) == class &&
	       NIL_P(builtin_call0(BUILTIN_UNBOUND_METHOD_SOURCE_LOCATION, method));
}

static enum { UNKNOWN, INSTALLED, REFUSED } state;

bool method_added_is_told(void)
{
	return state == INSTALLED;
}

VALUE method_added_install(VALUE unused)
{
	VALUE verbose = *rb_ruby_verbose_ptr();

	(void)unused;
	if (state != UNKNOWN)
		return state == INSTALLED ? Qtrue : Qfalse;
	if (!is_vacant(rb_cModule, ID2SYM(rb_intern("method_added"))) ||
	    !is_vacant(rb_cBasicObject, ID2SYM(rb_intern("singleton_method_added")))) {
		state = REFUSED;
		return Qfalse;
	}
	/* "method redefined" would go to the application's stderr. */
	*rb_ruby_verbose_ptr() = Qnil;
	rb_define_private_method(rb_cModule, "method_added", method_added, 1);
	rb_define_private_method(rb_cBasicObject, "singleton_method_added", singleton_method_added, 1);
	*rb_ruby_verbose_ptr() = verbose;
	state = INSTALLED;
	return Qtrue;
}
