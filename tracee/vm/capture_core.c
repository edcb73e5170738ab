/*
 * Values of Ruby's own classes that have a form of their own. See capture_parts.h.
 *
 * What no function of the C API tells is asked of Ruby's own methods, whatever the application has in their place: of those only
 * that call no others by name. Where that fails, as with an object that was only allocated, the value is a "#<Class>".
 */

#include "tracee/vm/capture_parts.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/interrupts.h"

#include <inttypes.h>
#include <math.h>
#include <ruby/re.h>
#include <stdio.h>
#include <string.h>

struct attempt {
	struct render *render;
	VALUE value;
};

/* What `show` has written when it raises is taken back. */
static void try(struct render *render, VALUE value, VALUE (*show)(VALUE))
{
	const struct attempt attempt = {render, value};
	size_t used = render->text->used;
	int failed = 0;

	rb_protect(show, (VALUE)&attempt, &failed);
	if (!failed)
		return;
	interrupts_forget_failure();
	render->text->used = used;
	render->text->cut = false;
	capture_object(render, value);
}

static void begin(struct text *text, VALUE value)
{
	text_append_cstr(text, "#<");
	class_name_add(text, rb_obj_class(value));
}

/* As in the source: a slash that has no backslash before it gets one. */
static void add_pattern(struct text *text, VALUE source)
{
	const char *bytes = RSTRING_PTR(source);
	size_t size = (size_t)RSTRING_LEN(source), from = 0;
	bool utf8 = capture_is_utf8(source);

	for (size_t i = 0; i < size && !text->cut; i++) {
		if (bytes[i] == '\\') {
			i++;
		} else if (bytes[i] == '/') {
			capture_escaped(text, bytes + from, i - from, utf8);
			text_append_cstr(text, "\\/");
			from = i + 1;
		}
	}
	if (from < size)
		capture_escaped(text, bytes + from, size - from, utf8);
	RB_GC_GUARD(source);
}

void capture_regexp(struct render *render, VALUE regexp)
{
	static const struct {
		int option;
		const char *letter;
	} options[] = {{ONIG_OPTION_MULTILINE, "m"}, {ONIG_OPTION_IGNORECASE, "i"}, {ONIG_OPTION_EXTEND, "x"}};
	int set;

	if (!RREGEXP(regexp)->ptr || !RREGEXP(regexp)->src) {
		capture_object(render, regexp);
		return;
	}
	set = rb_reg_options(regexp);
	text_append_cstr(render->text, "/");
	add_pattern(render->text, RREGEXP(regexp)->src);
	text_append_cstr(render->text, "/");
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (set & options[i].option)
			text_append_cstr(render->text, options[i].letter);
	RB_GC_GUARD(regexp);
}

void capture_range(struct render *outer, VALUE range)
{
	struct render render;
	VALUE from, to;
	int exclusive;

	if (!capture_descend(&render, outer) || !rb_range_values(range, &from, &to, &exclusive)) {
		capture_object(outer, range);
		return;
	}
	if (!NIL_P(from) || NIL_P(to))
		capture_render(&render, from);
	text_append_cstr(render.text, exclusive ? "..." : "..");
	if (!NIL_P(to))
		capture_render(&render, to);
	RB_GC_GUARD(range);
}

void capture_rational(struct render *outer, VALUE number)
{
	struct render render;

	if (!capture_descend(&render, outer)) {
		capture_object(outer, number);
		return;
	}
	text_append_cstr(render.text, "(");
	capture_render(&render, rb_rational_num(number));
	text_append_cstr(render.text, "/");
	capture_render(&render, rb_rational_den(number));
	text_append_cstr(render.text, ")");
	RB_GC_GUARD(number);
}

/* Whether its text begins with a sign. */
static bool is_negative(VALUE number)
{
	switch (rb_type(number)) {
	case T_FIXNUM:
		return FIX2LONG(number) < 0;
	case T_BIGNUM:
		return rb_big_cmp(number, INT2FIX(0)) == INT2FIX(-1);
	case T_FLOAT:
		return signbit(RFLOAT_VALUE(number)) && !isnan(RFLOAT_VALUE(number));
	default:
		return false;
	}
}

void capture_complex(struct render *outer, VALUE number)
{
	struct render render;
	VALUE imaginary;

	if (!capture_descend(&render, outer)) {
		capture_object(outer, number);
		return;
	}
	imaginary = rb_complex_imag(number);
	text_append_cstr(render.text, "(");
	capture_render(&render, rb_complex_real(number));
	text_append_cstr(render.text, is_negative(imaginary) ? "" : "+");
	capture_render(&render, imaginary);
	/* As Ruby: "NaN*i". */
	text_append_cstr(render.text, RB_FLOAT_TYPE_P(imaginary) && !isfinite(RFLOAT_VALUE(imaginary)) ? "*i)" : "i)");
	RB_GC_GUARD(number);
}

static VALUE show_exception(VALUE argument)
{
	const struct attempt *attempt = (const struct attempt *)argument;
	struct trace_options options = *attempt->render->options;
	struct render render;

	begin(attempt->render->text, attempt->value);
	if (capture_descend(&render, attempt->render)) {
		options.value_depth -= render.depth;
		text_append_cstr(render.text, ": ");
		capture_message(render.text, attempt->value, &options);
	}
	text_append_cstr(render.text, ">");
	return Qnil;
}

void capture_exception(struct render *outer, VALUE exception)
{
	try(outer, exception, show_exception);
}

/* --- T_DATA */

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
	const struct attempt *attempt = (const struct attempt *)argument;
	struct text *text = attempt->render->text;

	begin(text, attempt->value);
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
	const struct attempt *attempt = (const struct attempt *)argument;
	const enum builtin_method *methods = asked[RTEST(rb_obj_is_kind_of(attempt->value, rb_cMethod))];
	struct text *text = attempt->render->text;

	begin(text, attempt->value);
	if (builtin_is_found(methods[0]) && builtin_is_found(methods[1])) {
		text_append_cstr(text, ": ");
		class_name_add_method(text, builtin_call0(methods[0], attempt->value), builtin_call0(methods[1], attempt->value));
	}
	if (builtin_is_found(methods[2]))
		add_location(text, builtin_call0(methods[2], attempt->value));
	text_append_cstr(text, ">");
	return Qnil;
}

/* The days since 1970 as a date of the Gregorian calendar: years are counted from March on, so that leap days are last. */
static void add_date(struct text *text, int64_t days)
{
	int64_t shifted = days + 719468, era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
	int64_t day = shifted - era * 146097;
	int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	int64_t day_of_year = day - (365 * year + year / 4 - year / 100), month = (5 * day_of_year + 2) / 153;

	year += era * 400 + (month >= 10);
	text_printf(text, "%04" PRId64 "-%02d-%02d", year, (int)(month < 10 ? month + 3 : month - 9),
	            (int)(day_of_year - (153 * month + 2) / 5 + 1));
}

static void add_fraction(struct text *text, long nanoseconds)
{
	char digits[16];
	int size = snprintf(digits, sizeof(digits), ".%09ld", nanoseconds);

	if (nanoseconds <= 0)
		return;
	while (digits[size - 1] == '0')
		size--;
	text_append(text, digits, (size_t)size);
}

static VALUE show_time(VALUE argument)
{
	const struct attempt *attempt = (const struct attempt *)argument;
	struct text *text = attempt->render->text;
	struct timespec time = rb_time_timespec(attempt->value);
	VALUE offset = rb_time_utc_offset(attempt->value);
	long east = RB_FIXNUM_P(offset) ? FIX2LONG(offset) : 0, away = east < 0 ? -east : east;
	int64_t local = time.tv_sec + east, days = local / 86400, seconds = local % 86400;
	bool is_utc = !RB_FIXNUM_P(offset);

	if (seconds < 0) {
		seconds += 86400;
		days--;
	}
	if (east == 0 && builtin_is_found(BUILTIN_TIME_UTC_P))
		is_utc = is_utc || RTEST(builtin_call0(BUILTIN_TIME_UTC_P, attempt->value));
	add_date(text, days);
	text_printf(text, " %02d:%02d:%02d", (int)(seconds / 3600), (int)(seconds / 60 % 60), (int)(seconds % 60));
	add_fraction(text, time.tv_nsec);
	if (is_utc)
		text_append_cstr(text, " UTC");
	else
		text_printf(text, " %c%02ld%02ld", east < 0 ? '-' : '+', away / 3600, away / 60 % 60);
	return Qnil;
}

static bool is_data(VALUE value, const char *type)
{
	return RTYPEDDATA_P(value) && RTYPEDDATA_TYPE(value)->wrap_struct_name &&
	       strcmp(RTYPEDDATA_TYPE(value)->wrap_struct_name, type) == 0;
}

void capture_data(struct render *outer, VALUE data)
{
	if (RTEST(rb_obj_is_proc(data)))
		try(outer, data, show_proc);
	else if (RTEST(rb_obj_is_method(data)))
		try(outer, data, show_method);
	else if (is_data(data, "time") && RTEST(rb_obj_is_kind_of(data, rb_cTime)))
		try(outer, data, show_time);
#ifdef HAVE_RB_SET_FOREACH
	else if (is_data(data, "set") && RTEST(rb_obj_is_kind_of(data, rb_cSet)))
		capture_set(outer, data);
#endif
	else
		capture_object(outer, data);
}

static VALUE show_io(VALUE argument)
{
	const struct attempt *attempt = (const struct attempt *)argument;

	/* It calls nothing. */
	capture_bytes(attempt->render->text, builtin_call0(BUILTIN_IO_INSPECT, attempt->value));
	return Qnil;
}

void capture_io(struct render *outer, VALUE io)
{
	if (builtin_is_found(BUILTIN_IO_INSPECT))
		try(outer, io, show_io);
	else
		capture_object(outer, io);
}
