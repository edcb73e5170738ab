/* Names for people, from the VM alone. See class_name.h. */

#include "tracee/vm/class_name.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/compat.h"
#include "tracee/vm/refinements.h"

bool class_name_is_singleton(VALUE module)
{
	return RB_TYPE_P(module, T_CLASS) && RTEST(builtin_call0(BUILTIN_MODULE_SINGLETON_CLASS_P, module));
}

/* As Module#to_s, which asks both modules for their inspect. */
static void add_refinement(struct text *text, VALUE refinement, VALUE refined)
{
	VALUE place = refinements_place(refinement);

	text_append_cstr(text, "#<refinement:");
	class_name_add(text, refined);
	text_append_cstr(text, "@");
	if (!NIL_P(place))
		class_name_add(text, place);
	text_append_cstr(text, ">");
}

void class_name_add(struct text *text, VALUE module)
{
	VALUE name = rb_mod_name(module), refined = NIL_P(name) ? refinements_refined(module) : Qnil;

	if (!NIL_P(refined)) {
		add_refinement(text, module, refined);
		return;
	}
	if (NIL_P(name)) {
		/*
		 * Module#to_s asks an attached class for its inspect, which may be the application's: singletons go another way.
		 */
		if (class_name_is_singleton(module)) {
			text_append_cstr(text, "#<Class:");
			class_name_add_owner(text, module);
			text_append_cstr(text, ">");
			return;
		}
		name = builtin_call0(BUILTIN_MODULE_TO_S, module);
	}
	text_append(text, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
	RB_GC_GUARD(name);
}

char class_name_add_owner(struct text *text, VALUE owner)
{
	VALUE attached;

	if (!class_name_is_singleton(owner)) {
		class_name_add(text, owner);
		return '#';
	}
	attached = compat_attached_object(owner);
	if (RB_TYPE_P(attached, T_CLASS) || RB_TYPE_P(attached, T_MODULE)) {
		class_name_add(text, attached);
	} else {
		text_append_cstr(text, "#<");
		class_name_add(text, rb_class_real(rb_class_superclass(owner)));
		text_printf(text, ":0x%016llx>", (unsigned long long)attached);
	}
	return '.';
}

void class_name_add_method(struct text *text, VALUE owner, VALUE name)
{
	char separator = class_name_add_owner(text, owner);
	VALUE string = rb_sym2str(name);

	text_append(text, &separator, 1);
	text_append(text, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
	RB_GC_GUARD(string);
}
