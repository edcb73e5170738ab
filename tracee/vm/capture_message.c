/*
 * The message of an exception, without asking it: that could run code of the application. See capture.h.
 *
 * Some of Ruby's own classes make their messages when they are asked for; what they are made of is there. Where a class has a
 * message method of its own, that is said.
 */

#include "tracee/vm/capture.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/exception_drop.h"

#include <string.h>

static VALUE name_error_receiver(VALUE exception)
{
	return builtin_call0(BUILTIN_NAME_ERROR_RECEIVER, exception);
}

static VALUE thrown_tag(VALUE exception)
{
	return builtin_call0(BUILTIN_UNCAUGHT_THROW_ERROR_TAG, exception);
}

/* What a NameError of the VM's own keeps in the place of a message; an application may keep any object there. */
static bool is_name_error_message(VALUE message)
{
	return RB_TYPE_P(message, T_DATA) && RTYPEDDATA_P(message) && RTYPEDDATA_TYPE(message)->wrap_struct_name &&
	       strcmp(RTYPEDDATA_TYPE(message)->wrap_struct_name, "name_err_mesg") == 0;
}

/* Its message is made when it is asked for, with an inspect of the receiver; the parts are there as they are. */
static void capture_name_error(struct text *text, VALUE exception, const struct trace_options *options)
{
	VALUE name = rb_attr_get(exception, rb_intern("name"));
	int failed = 0;
	VALUE receiver = rb_protect(name_error_receiver, exception, &failed);
	bool exists = !failed && RB_SYMBOL_P(name) && rb_method_boundp(CLASS_OF(receiver), rb_sym2id(name), 0);

	text_append_cstr(text, exists ? "private or protected: " : "undefined: ");
	capture_value(text, name, options);
	if (failed) {
		exception_drop(Qnil);
		return;
	}
	text_append_cstr(text, " for ");
	capture_value(text, receiver, options);
	RB_GC_GUARD(receiver);
}

/* Of one whose message lacks the tag. */
static void capture_uncaught_throw(struct text *text, VALUE exception, VALUE format, const struct trace_options *options)
{
	int failed = 0;
	VALUE tag = rb_protect(thrown_tag, exception, &failed);

	if (failed) {
		exception_drop(Qnil);
		capture_string(text, format, options);
		return;
	}
	capture_escaped(text, RSTRING_PTR(format), (size_t)RSTRING_LEN(format) - 2, true);
	capture_value(text, tag, options);
	RB_GC_GUARD(format);
	RB_GC_GUARD(tag);
}

/* Ruby's own gems extend messages by suggestions. */
static bool is_own_extension(VALUE class, VALUE name)
{
	static const char *const modules[] = {"DidYouMean::", "ErrorHighlight::", "SyntaxSuggest::"};
	VALUE owner = builtin_call0(BUILTIN_UNBOUND_METHOD_OWNER, builtin_call(BUILTIN_MODULE_INSTANCE_METHOD, class, 1, &name));
	char bytes[64];
	struct text text = {.bytes = bytes, .size = sizeof(bytes)};

	class_name_add(&text, owner);
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (text.used > strlen(modules[i]) && memcmp(bytes, modules[i], strlen(modules[i])) == 0)
			return true;
	return false;
}

static bool has_own_message(VALUE exception)
{
	static const char *const names[] = {"message", "to_s"};
	VALUE class = CLASS_OF(exception); /* perhaps its singleton class */

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!rb_method_basic_definition_p(class, rb_intern(names[i])) &&
		    !is_own_extension(class, ID2SYM(rb_intern(names[i]))))
			return true;
	return false;
}

void capture_message(struct text *text, VALUE exception, const struct trace_options *options)
{
	/* Where Exception#to_s itself looks. nil: raised without a message, which is then the class's name. */
	VALUE message = rb_attr_get(exception, rb_intern("mesg"));

	if (builtin_message_lacks_tag(exception, message))
		capture_uncaught_throw(text, exception, message, options);
	else if (RB_TYPE_P(message, T_STRING))
		capture_string(text, message, options);
	else if (NIL_P(message))
		class_name_add(text, rb_obj_class(exception));
	else if (is_name_error_message(message))
		capture_name_error(text, exception, options);
	else
		capture_value(text, message, options);
	if (has_own_message(exception))
		text_append_cstr(text, " (its own message method was not called)");
}
