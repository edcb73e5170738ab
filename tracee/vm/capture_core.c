/* Values of Ruby's own classes that have a form of their own. See capture_parts.h. */

#include "tracee/vm/capture_parts.h"

#include "tracee/vm/builtin_methods.h"
#include "tracee/vm/class_name.h"
#include "tracee/vm/interrupts.h"

#include <math.h>
#include <ruby/re.h>

void capture_try(struct render *render, VALUE value, VALUE (*show)(VALUE))
{
	const struct capture_attempt attempt = {render, value};
	VALUE debug = *rb_ruby_debug_ptr();
	size_t used = render->text->used;
	int failed = 0;

	*rb_ruby_debug_ptr() = Qfalse; /* under -d the VM tells of each exception, also of one that is rescued */
	rb_protect(show, (VALUE)&attempt, &failed);
	*rb_ruby_debug_ptr() = debug;
	if (!failed)
		return;
	interrupts_forget_failure();
	render->text->used = used;
	render->text->cut = false;
	capture_object(render, value);
}

void capture_begin(struct text *text, VALUE value)
{
	text_append_cstr(text, "#<");
	class_name_add(text, rb_obj_class(value));
}

#define REGEXP_NO_ENCODING 32 /* Regexp::NOENCODING */

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

static bool regexp_is_initialized(VALUE regexp)
{
#ifdef HAVE_STRUCT_RREGEXP_PTR
	return RREGEXP(regexp)->ptr && RREGEXP(regexp)->src;
#else
	return RREGEXP(regexp)->src;
#endif
}

void capture_regexp(struct render *render, VALUE regexp)
{
	static const struct {
		int option;
		const char *letter;
	} options[] = {{ONIG_OPTION_MULTILINE, "m"},
	               {ONIG_OPTION_IGNORECASE, "i"},
	               {ONIG_OPTION_EXTEND, "x"},
	               {REGEXP_NO_ENCODING, "n"}};
	int set;

	if (!regexp_is_initialized(regexp)) {
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
	const struct capture_attempt *attempt = (const struct capture_attempt *)argument;
	struct trace_options options = *attempt->render->options;
	struct render render;

	capture_begin(attempt->render->text, attempt->value);
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
	capture_try(outer, exception, show_exception);
}

static VALUE show_io(VALUE argument)
{
	const struct capture_attempt *attempt = (const struct capture_attempt *)argument;

	/* It calls nothing. */
	capture_bytes(attempt->render->text, builtin_call0(BUILTIN_IO_INSPECT, attempt->value));
	return Qnil;
}

void capture_io(struct render *outer, VALUE io)
{
	if (builtin_is_found(BUILTIN_IO_INSPECT))
		capture_try(outer, io, show_io);
	else
		capture_object(outer, io);
}
