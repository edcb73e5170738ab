/*
 * Values that are data of C. See capture_parts.h.
 *
 * What no function of the C API tells is asked of Ruby's own methods, whatever the application has in their place: of those only
 * that call no others by name. Where that fails, as with an object that was only allocated, the value is a "#<Class>".
 */

#include "tracee/vm/capture_parts.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"

#include <string.h>

/* " /srv/shop.rb:12", of what is written in Ruby. */
static void add_location(struct text *text, VALUE location)
{
	VALUE path;

	if (!RB_TYPE_P(location, T_ARRAY) || RARRAY_LEN(location) < 2)
		return;
	path = rb_ary_entry(location, 0);
	if (!RB_TYPE_P(path, T_STRING) || !RB_FIXNUM_P(rb_ary_entry(location, 1)))
		return;
	text_append_cstr(text, " ");
	capture_bytes(text, path);
	text_printf(text, ":%ld", FIX2LONG(rb_ary_entry(location, 1)));
	RB_GC_GUARD(location);
}

static VALUE show_proc(VALUE argument)
{
	const struct capture_attempt *attempt = (const struct capture_attempt *)argument;
	struct text *text = attempt->render->text;

	capture_begin(text, attempt->value);
	if (builtin_is_found(BUILTIN_PROC_SOURCE_LOCATION))
		add_location(text, builtin_call0(BUILTIN_PROC_SOURCE_LOCATION, attempt->value));
	text_append_cstr(text, RTEST(rb_proc_lambda_p(attempt->value)) ? " (lambda)>" : ">");
	return Qnil;
}

static VALUE show_method(VALUE argument)
{
	static const enum builtin_method asked[][3] = {
		{BUILTIN_UNBOUND_METHOD_OWNER, BUILTIN_UNBOUND_METHOD_NAME, BUILTIN_UNBOUND_METHOD_SOURCE_LOCATION},
		{BUILTIN_METHOD_OWNER, BUILTIN_METHOD_NAME, BUILTIN_METHOD_SOURCE_LOCATION},
	};
	const struct capture_attempt *attempt = (const struct capture_attempt *)argument;
	const enum builtin_method *methods = asked[RTEST(rb_obj_is_kind_of(attempt->value, rb_cMethod))];
	struct text *text = attempt->render->text;

	capture_begin(text, attempt->value);
	if (builtin_is_found(methods[0]) && builtin_is_found(methods[1])) {
		text_append_cstr(text, ": ");
		class_name_add_method(text, builtin_call0(methods[0], attempt->value), builtin_call0(methods[1], attempt->value));
	}
	if (builtin_is_found(methods[2]))
		add_location(text, builtin_call0(methods[2], attempt->value));
	text_append_cstr(text, ">");
	return Qnil;
}

bool capture_is_data(VALUE value, const char *type)
{
	return RTYPEDDATA_P(value) && RTYPEDDATA_TYPE(value)->wrap_struct_name &&
	       strcmp(RTYPEDDATA_TYPE(value)->wrap_struct_name, type) == 0;
}

/* As inspect writes it: 0.15e1. */
static VALUE show_decimal(VALUE argument)
{
	const struct capture_attempt *attempt = (const struct capture_attempt *)argument;

	capture_bytes(attempt->render->text, builtin_call0(BUILTIN_BIG_DECIMAL_INSPECT, attempt->value));
	return Qnil;
}

/* Applications override to_s and inspect, but not these. With a time where the object has one: it is a DateTime then. */
static VALUE show_date(VALUE argument)
{
	const struct capture_attempt *attempt = (const struct capture_attempt *)argument;
	bool with_time = capture_is_kind_of_named(attempt->value, "DateTime");

	capture_bytes(attempt->render->text,
	              builtin_call0(with_time ? BUILTIN_DATE_RFC3339 : BUILTIN_DATE_ISO8601, attempt->value));
	return Qnil;
}

static VALUE show_thread(VALUE argument)
{
	const struct capture_attempt *attempt = (const struct capture_attempt *)argument;
	struct text *text = attempt->render->text;
	VALUE name = builtin_call0(BUILTIN_THREAD_NAME, attempt->value);

	capture_begin(text, attempt->value);
	if (RB_TYPE_P(name, T_STRING)) {
		text_append_cstr(text, " ");
		capture_quoted(text, RSTRING_PTR(name), (size_t)RSTRING_LEN(name), capture_is_utf8(name));
	} else if (attempt->value == rb_thread_main()) {
		text_append_cstr(text, " main");
	}
	text_append_cstr(text, ">");
	RB_GC_GUARD(name);
	return Qnil;
}

static bool is_of(VALUE value, const char *type, VALUE class)
{
	return capture_is_data(value, type) && RTEST(rb_obj_is_kind_of(value, class));
}

/* What the value is shown by; NULL: as any object. */
static VALUE (*shown_by(VALUE data))(VALUE)
{
	if (RTEST(rb_obj_is_proc(data)))
		return show_proc;
	if (RTEST(rb_obj_is_method(data)))
		return show_method;
	if (is_of(data, "time", rb_cTime))
		return capture_show_time;
	if (capture_is_data(data, "Date") && builtin_is_found(BUILTIN_DATE_ISO8601) && builtin_is_found(BUILTIN_DATE_RFC3339))
		return show_date;
	if (capture_is_data(data, "BigDecimal") && builtin_is_found(BUILTIN_BIG_DECIMAL_INSPECT))
		return show_decimal;
	/* The second: of arithmetic sequences, since 4.0. */
	if (capture_is_data(data, "enumerator") || capture_is_data(data, "arithmetic_sequence"))
		return capture_show_enumerator;
	if (RTEST(rb_obj_is_kind_of(data, rb_cThread)) && builtin_is_found(BUILTIN_THREAD_NAME))
		return show_thread;
	return NULL;
}

void capture_data(struct render *outer, VALUE data)
{
	VALUE (*show)(VALUE) = shown_by(data);

	if (show)
		capture_try(outer, data, show);
#ifdef HAVE_RB_SET_FOREACH
	else if (is_of(data, "set", rb_cSet))
		capture_set(outer, data);
#endif
	else
		capture_object(outer, data);
}
