/*
 * Classes and modules that change. See module_changes.h. Contexts: job (begin, end), and a plain method call with the GVL held
 * (the rest); another Ractor may call, too, and gets no further than the method itself.
 *
 * The VM calls a method for each of these: const_added (from 3.2 on), append_features, prepend_features, extend_object and
 * inherited, all private and written in C. Their C functions are replaced, as engine patch does it: method objects, backtraces
 * and overriding methods of the application's are what they were, and at the end the functions are put back. The first three and
 * `inherited` a class or module may override; without `super` in it, nothing is learnt of that one here. What does the work
 * (append_features, ...) is seldom overridden; what merely reports (included, ...) often is.
 */

#include "tracee/select/module_changes.h"

#include "tracee/engine/arming.h"
#include "tracee/engine/patch.h"
#include "tracee/engine/patch_stubs.h"
#include "tracee/select/selection.h"
#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/exception_drop.h"
#include "tracee/vm/method_definition.h"
#include "tracee/vm/own.h"

#include <ruby.h>

typedef VALUE (*method_function)(VALUE receiver, VALUE argument);

enum watched { CONST_ADDED, APPEND_FEATURES, PREPEND_FEATURES, EXTEND_OBJECT, INHERITED, WATCHED };

static VALUE call(enum watched which, VALUE receiver, VALUE argument);

#define STAND_IN(name, which)                                                                                                    \
	static VALUE name(VALUE receiver, VALUE argument)                                                                        \
	{                                                                                                                        \
		return call(which, receiver, argument);                                                                          \
	}

STAND_IN(const_added, CONST_ADDED)
STAND_IN(append_features, APPEND_FEATURES)
STAND_IN(prepend_features, PREPEND_FEATURES)
STAND_IN(extend_object, EXTEND_OBJECT)
STAND_IN(inherited, INHERITED)

static struct {
	/* Set once. */
	const VALUE *class;
	const char *name;
	method_function stand_in;
	void (*report)(VALUE receiver, VALUE argument);
	/* Changes under the GVL. Other Ractors may be in the stand-in at any time, so the original stays known. */
	method_function original;
	VALUE method; /* an UnboundMethod, which keeps its definition alive; false: not replaced */
	struct method_target target;
} watched[WATCHED] = {
	[CONST_ADDED] = {&rb_cModule, "const_added", const_added, selection_constant_added},
	[APPEND_FEATURES] = {&rb_cModule, "append_features", append_features, selection_module_mixed},
	[PREPEND_FEATURES] = {&rb_cModule, "prepend_features", prepend_features, selection_module_mixed},
	[EXTEND_OBJECT] = {&rb_cModule, "extend_object", extend_object, selection_object_extended},
	[INHERITED] = {&rb_cClass, "inherited", inherited, selection_class_made},
};

static VALUE call(enum watched which, VALUE receiver, VALUE argument)
{
	VALUE result = watched[which].original(receiver, argument);

	if (!compat_in_main_ractor())
		selection_modules_changed();
	else if (selection_watches() && !arming_is_under_way())
		watched[which].report(receiver, argument);
	return result;
}

/* What the place holds, or, where engine patch was left there, what that stands for. */
static uintptr_t function_in(const struct method_target *target)
{
	const struct patch_slot *slot = patch_slot_of_stub(target->function);

	return slot ? (uintptr_t)slot->function : target->function;
}

static VALUE replace(VALUE argument)
{
	enum watched which = (enum watched)argument;
	VALUE class = *watched[which].class;
	VALUE name = ID2SYM(rb_intern(watched[which].name));
	VALUE own_only[] = {name, Qfalse};
	struct method_target target;
	VALUE method;

	if (!RTEST(builtin_call(BUILTIN_MODULE_PRIVATE_METHOD_DEFINED, class, 2, own_only)))
		return Qnil;
	method = builtin_call(BUILTIN_MODULE_INSTANCE_METHOD, class, 1, &name);
	/* That may have let another thread do the same. */
	if (watched[which].method || !method_definition_function(method, &target) || target.arity != 1)
		return Qnil;
	if (function_in(&target) != (uintptr_t)watched[which].stand_in) {
		watched[which].original = (method_function)target.function;
		patch_put(&target, (uintptr_t)watched[which].stand_in);
	}
	watched[which].target = target;
	watched[which].method = method;
	patch_tell_compiler(class, name);
	return Qnil;
}

static VALUE restore(VALUE argument)
{
	enum watched which = (enum watched)argument;
	const struct method_target *target = &watched[which].target;

	/* Unless somebody else has put another function there. */
	if (*target->function_place == (uintptr_t)watched[which].stand_in)
		patch_put(target, (uintptr_t)watched[which].original);
	watched[which].method = Qfalse;
	patch_tell_compiler(*watched[which].class, ID2SYM(rb_intern(watched[which].name)));
	return Qnil;
}

static VALUE is_ready(VALUE unused)
{
	(void)unused;
	return patch_unready() ? Qfalse : Qtrue;
}

static VALUE protect(VALUE (*run)(VALUE), VALUE argument)
{
	int failed = 0;
	VALUE value = arming_protect(run, argument, &failed);

	if (failed)
		exception_drop(Qnil);
	return failed ? Qfalse : value;
}

void module_changes_init(void)
{
	for (size_t i = 0; i < WATCHED; i++)
		own_register(&watched[i].method);
}

void module_changes_begin(void)
{
	if (!RTEST(protect(is_ready, Qnil)))
		return;
	for (size_t i = 0; i < WATCHED; i++)
		if (!watched[i].method && !(i == INHERITED && module_changes_sees_names()))
			protect(replace, (VALUE)i);
}

void module_changes_end(void)
{
	for (size_t i = 0; i < WATCHED; i++)
		if (watched[i].method)
			protect(restore, (VALUE)i);
}

bool module_changes_sees_names(void)
{
	return watched[CONST_ADDED].method;
}

bool module_changes_sees_classes(void)
{
	return watched[INHERITED].method;
}
