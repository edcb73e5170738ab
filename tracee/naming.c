/* Names for people, from the VM alone. See naming.h. */

#include "naming.h"

#include "compat.h"
#include "core.h"

bool naming_is_singleton_class(VALUE module)
{
	return RB_TYPE_P(module, T_CLASS) && RTEST(core_call0(CORE_MODULE_SINGLETON_CLASS_P, module));
}

void naming_class(struct text *text, VALUE module)
{
	VALUE name = rb_mod_name(module);

	if (NIL_P(name)) {
		/* Module#to_s asks an attached class for its inspect, which may be the application's: singletons go another way. */
		if (naming_is_singleton_class(module)) {
			text_append_cstr(text, "#<Class:");
			naming_owner(text, module);
			text_append_cstr(text, ">");
			return;
		}
		name = core_call0(CORE_MODULE_TO_S, module);
	}
	text_append(text, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
	RB_GC_GUARD(name);
}

char naming_owner(struct text *text, VALUE owner)
{
	VALUE attached;

	if (!naming_is_singleton_class(owner)) {
		naming_class(text, owner);
		return '#';
	}
	attached = compat_attached_object(owner);
	if (RB_TYPE_P(attached, T_CLASS) || RB_TYPE_P(attached, T_MODULE)) {
		naming_class(text, attached);
	} else {
		text_append_cstr(text, "#<");
		naming_class(text, rb_class_real(rb_class_superclass(owner)));
		text_printf(text, ":0x%016llx>", (unsigned long long)attached);
	}
	return '.';
}

void naming_method(struct text *text, VALUE owner, VALUE name)
{
	char separator = naming_owner(text, owner);
	VALUE string = rb_sym2str(name);

	text_append(text, &separator, 1);
	text_append(text, RSTRING_PTR(string), (size_t)RSTRING_LEN(string));
	RB_GC_GUARD(string);
}
