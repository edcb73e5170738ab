/* Rendering values. See capture.h. */

#include "tracee/vm/capture_parts.h"

#include "tracee/vm/class_name.h"

#include <float.h>
#include <math.h>
#include <ruby/encoding.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG_INTEGER_BYTES 64 /* a larger one is shown by its size: writing it in decimals takes time by the square */

static bool is_word(const char *name, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c != '_' && c < 0x80 && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z'))
			return false;
	}
	return size > 0;
}

bool capture_is_identifier(const char *name, size_t size)
{
	return is_word(name, size) && !(name[0] >= '0' && name[0] <= '9');
}

static bool is_number(const char *name, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (name[i] < '0' || name[i] > '9')
			return false;
	return size > 0;
}

/* Whether :name needs no quotes: an identifier, perhaps with ?, ! or = behind, @, @@ or $ in front, or an operator. */
static bool is_plain_symbol(const char *name, size_t size)
{
	static const char *const operators[] = {"[]",  "[]=", "+",  "-",  "*", "/", "%",  "**", "==", "!=", "<", ">",  "<=", ">=",
	                                        "<=>", "===", "=~", "!~", "!", "~", "<<", ">>", "&",  "|",  "^", "+@", "-@", "`"};
	size_t i = 0;

	for (size_t o = 0; o < sizeof(operators) / sizeof(operators[0]); o++)
		if (strlen(operators[o]) == size && memcmp(operators[o], name, size) == 0)
			return true;
	if (size > 1 && (name[0] == '$' || name[0] == '@'))
		i = 1;
	if (size > 2 && name[0] == '@' && name[1] == '@')
		i = 2;
	if (i == 0 && size > 1 && strchr("?!=", name[size - 1]))
		size--;
	return capture_is_identifier(name + i, size - i) || (name[0] == '$' && is_number(name + i, size - i));
}

static void render_string(struct render *render, VALUE string)
{
	capture_quoted(render->text, RSTRING_PTR(string), (size_t)RSTRING_LEN(string), capture_is_utf8(string));
	RB_GC_GUARD(string);
}

static void render_symbol(struct render *render, VALUE symbol)
{
	VALUE name = rb_sym2str(symbol);
	const char *bytes = RSTRING_PTR(name);
	size_t size = (size_t)RSTRING_LEN(name);

	text_append_cstr(render->text, ":");
	if (is_plain_symbol(bytes, size) && (capture_is_utf8(name) || rb_enc_str_asciionly_p(name)))
		capture_escaped(render->text, bytes, size, true);
	else
		render_string(render, name);
	RB_GC_GUARD(name);
}

/* As Ruby: the shortest form that reads back as the same number, with a fraction, 1.0e+16 and 0.0001 being the limits. */
static void render_float(struct render *render, double number)
{
	int digits = number != 0 && fabs(number) < DBL_MIN ? 0 : 14; /* tiny ones have fewer that mean anything */
	char buffer[64], *end;
	int exponent;

	if (isnan(number) || isinf(number)) {
		text_append_cstr(render->text, isnan(number) ? "NaN" : number < 0 ? "-Infinity" : "Infinity");
		return;
	}
	do
		snprintf(buffer, sizeof(buffer), "%.*e", digits, number);
	while (strtod(buffer, NULL) != number && digits++ < 16);
	end = strchr(buffer, 'e');
	exponent = atoi(end + 1);
	for (; digits > 0 && end[-1] == '0'; digits--)
		end--;
	if (end[-1] == '.')
		end--;
	if (exponent >= -4 && exponent < 16)
		text_printf(render->text, "%.*f", digits > exponent ? digits - exponent : 1, number);
	else
		text_printf(render->text, digits ? "%.*se%+03d" : "%.*s.0e%+03d", (int)(end - buffer), buffer, exponent);
}

static void render_integer(struct text *text, long number)
{
	char digits[24];
	char *end = digits + sizeof(digits);
	char *from = end;
	unsigned long rest = number < 0 ? -(unsigned long)number : (unsigned long)number;

	do {
		*--from = (char)('0' + rest % 10);
		rest /= 10;
	} while (rest);
	if (number < 0)
		*--from = '-';
	text_append(text, from, (size_t)(end - from));
}

static void render_big(struct render *render, VALUE number)
{
	size_t bytes = rb_absint_size(number, NULL);

	if (bytes > BIG_INTEGER_BYTES) {
		text_printf(render->text, "#<Integer of %zu bytes>", bytes);
	} else {
		VALUE decimals = rb_big2str(number, 10);

		text_append(render->text, RSTRING_PTR(decimals), (size_t)RSTRING_LEN(decimals));
		RB_GC_GUARD(decimals);
	}
}

/* What no method is called for, and nothing is allocated but for big integers. */
static bool render_simple(struct render *render, VALUE value)
{
	switch (rb_type(value)) {
	case T_NIL:
		text_append_cstr(render->text, "nil");
		break;
	case T_TRUE:
		text_append_cstr(render->text, "true");
		break;
	case T_FALSE:
		text_append_cstr(render->text, "false");
		break;
	case T_FIXNUM:
		render_integer(render->text, FIX2LONG(value));
		break;
	case T_BIGNUM:
		render_big(render, value);
		break;
	case T_FLOAT:
		render_float(render, RFLOAT_VALUE(value));
		break;
	case T_SYMBOL:
		render_symbol(render, value);
		break;
	case T_STRING:
		render_string(render, value);
		break;
	default:
		return false;
	}
	return true;
}

void capture_render(struct render *render, VALUE value)
{
	if (render->text->cut || render_simple(render, value))
		return;
	switch (rb_type(value)) {
	case T_ARRAY:
		capture_array(render, value);
		break;
	case T_HASH:
		capture_hash(render, value);
		break;
	case T_CLASS:
	case T_MODULE:
		class_name_add(render->text, value);
		break;
	case T_STRUCT:
		capture_struct(render, value);
		break;
	case T_REGEXP:
		capture_regexp(render, value);
		break;
	case T_RATIONAL:
		capture_rational(render, value);
		break;
	case T_COMPLEX:
		capture_complex(render, value);
		break;
	case T_OBJECT:
		capture_instance(render, value);
		break;
	case T_DATA:
		capture_data(render, value);
		break;
	case T_FILE:
		capture_io(render, value);
		break;
	default:
		capture_object(render, value);
		break;
	}
}

/* What is behind a value that was cut. */
#define CUT_MARK "..."
#define CUT_MARK_SIZE (sizeof(CUT_MARK) - 1)
#define CUT_MARK_MAX 64
#define LENGTH_ROOM 64 /* a value that may be shorter than this does not say how long it was */

/* A part of text that keeps room for the mark of a cut. */
static void bounded(struct text *text, size_t size, size_t mark_size, struct text *part)
{
	part->bytes = text->bytes + text->used;
	part->size = text->size - text->used < size ? text->size - text->used : size;
	part->used = 0;
	part->cut = false;
	part->size = part->size > mark_size ? part->size - mark_size : 0;
}

/* A size that has no room for the whole mark gets as much of it as fits. */
static void bounded_end(struct text *text, const struct text *part, size_t size, const struct text *mark)
{
	text->used += part->used;
	if (part->cut)
		text_append(text, mark->bytes, size < mark->used ? size : mark->used);
}

/* "..." and how long the value was. */
static void add_mark(struct text *mark, VALUE value, const struct text *part)
{
	text_append_cstr(mark, CUT_MARK);
	if (part->size + CUT_MARK_SIZE < LENGTH_ROOM)
		return;
	if (RB_TYPE_P(value, T_STRING)) {
		text_append_cstr(mark, "\"");
		capture_length(mark, (size_t)RSTRING_LEN(value), "byte");
	} else if (RB_TYPE_P(value, T_ARRAY)) {
		capture_length(mark, (size_t)RARRAY_LEN(value), "element");
	} else if (RB_TYPE_P(value, T_HASH)) {
		capture_length(mark, (size_t)RHASH_SIZE(value), "pair");
	}
}

void capture_value(struct text *text, VALUE value, const struct trace_options *options)
{
	char bytes[CUT_MARK_MAX];
	struct text part, mark = {.bytes = bytes, .size = sizeof(bytes)};
	struct render render = {.text = &part, .options = options};

	bounded(text, options->value_size, CUT_MARK_SIZE, &part);
	/* Text is never shorter than what it is made of. */
	if (RB_TYPE_P(value, T_STRING) && (size_t)RSTRING_LEN(value) > part.size)
		part.cut = true;
	else
		capture_render(&render, value);
	if (part.cut) {
		add_mark(&mark, value, &part);
		bounded(text, options->value_size, mark.used, &part);
		capture_render(&render, value);
		part.cut = true;
	}
	bounded_end(text, &part, options->value_size, &mark);
	RB_GC_GUARD(value);
}

void capture_string(struct text *text, VALUE string, const struct trace_options *options)
{
	static char cut_mark[] = CUT_MARK;
	const struct text mark = {.bytes = cut_mark, .size = CUT_MARK_SIZE, .used = CUT_MARK_SIZE};
	struct text part;

	bounded(text, options->value_size, CUT_MARK_SIZE, &part);
	capture_bytes(&part, string);
	bounded_end(text, &part, options->value_size, &mark);
	RB_GC_GUARD(string);
}

void capture_inspect(struct text *text, VALUE value, const struct trace_options *options)
{
	/* What the VM hides from Ruby code has no class: no method can be called on it (2.7 crashes). */
	if (!RB_SPECIAL_CONST_P(value) && !RBASIC_CLASS(value))
		capture_value(text, value, options);
	else
		capture_string(text, rb_inspect(value), options);
}
