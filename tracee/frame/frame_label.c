/* Names of frames without an allocation. See frame_label.h. Context: any that has the GVL, also within an allocation. */

#include "tracee/frame/frame_label.h"

#include "tracee/frame/frame_direct.h"
#include "tracee/vm/compat.h"

#include <ruby/debug.h>
#include <stdbool.h>

/* The class or module whose method the frame runs; 0: none, or not known. */
static VALUE owner_of(VALUE frame)
{
	const VALUE *entry = (const VALUE *)frame;
	VALUE owner;

	if (!frame_direct_is_known() || RB_SPECIAL_CONST_P(frame) ||
	    (entry[0] & FRAME_ENTRY_MASK) != layout_value(LAYOUT_ENTRY_FLAGS))
		return 0;
	owner = entry[layout_value(LAYOUT_ENTRY_OWNER)];
	/* A module in the line of a class's ancestors has an object of its own there. */
	if (owner && !RB_SPECIAL_CONST_P(owner) && RB_BUILTIN_TYPE(owner) == T_ICLASS)
		owner = RBASIC_CLASS(owner);
	return owner && (RB_TYPE_P(owner, T_CLASS) || RB_TYPE_P(owner, T_MODULE)) ? owner : 0;
}

/* "Order"; "#<Order:0x000...>", of this class, for what has no name. */
static void add_object(struct text *text, VALUE object, VALUE class)
{
	bool module = RB_TYPE_P(object, T_CLASS) || RB_TYPE_P(object, T_MODULE), named;
	VALUE name = module ? rb_mod_name(object) : Qnil;

	named = RB_TYPE_P(name, T_STRING);
	if (!named) {
		text_append_cstr(text, "#<");
		name = rb_mod_name(class);
	}
	if (RB_TYPE_P(name, T_STRING))
		text_append(text, RSTRING_PTR(name), (size_t)RSTRING_LEN(name));
	if (!named)
		text_printf(text, ":0x%016llx>", (unsigned long long)object);
}

/* Its real class is another one for a class of one object only. */
static void add_owner(struct text *text, VALUE owner)
{
	VALUE real = RB_TYPE_P(owner, T_CLASS) ? rb_class_real(owner) : owner;
	bool singleton = real != owner;
	VALUE object = singleton ? compat_attached_object(owner) : owner;

	if (RB_TYPE_P(object, T_CLASS) || RB_TYPE_P(object, T_MODULE))
		real = rb_class_real(RBASIC_CLASS(object));
	add_object(text, object, real);
	text_append_cstr(text, singleton ? "." : "#");
}

void frame_label_add(struct text *text, VALUE frame)
{
	VALUE label = rb_profile_frame_label(frame), base = rb_profile_frame_base_label(frame), owner = owner_of(frame);
	size_t size, prefix = 0;

	if (!RB_TYPE_P(label, T_STRING))
		return;
	size = (size_t)RSTRING_LEN(label);
	if (owner) {
		if (RB_TYPE_P(base, T_STRING) && (size_t)RSTRING_LEN(base) <= size)
			prefix = size - (size_t)RSTRING_LEN(base);
		text_append(text, RSTRING_PTR(label), prefix);
		add_owner(text, owner);
	}
	text_append(text, RSTRING_PTR(label) + prefix, size - prefix);
}
