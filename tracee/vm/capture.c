/* Rendering values. See capture.h. */

#include "tracee/vm/capture.h"

#include "proto/character.h"
#include "tracee/vm/class_name.h"

#include <math.h>
#include <ruby/encoding.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIG_INTEGER_BYTES 64 /* a larger one is shown by its size: writing it in decimals takes time by the square */

struct render {
	struct text *text;
	const struct trace_options *options;
	unsigned depth;
	unsigned shown; /* elements of the hash or object at hand */
};

static void render_value(struct render *render, VALUE value);

/* Length of the UTF-8 sequence at bytes, 0 if it is none. Overlong forms and surrogates are none. */
static size_t utf8_length(const unsigned char *bytes, size_t size)
{
	static const struct {
		unsigned char mask, lead, second_min, second_max;
	} forms[] = {
		{0xff, 0xe0, 0xa0, 0xbf}, {0xff, 0xed, 0x80, 0x9f}, {0xf0, 0xe0, 0x80, 0xbf},
		{0xff, 0xf0, 0x90, 0xbf}, {0xff, 0xf4, 0x80, 0x8f},
	};
	size_t length;

	if (bytes[0] < 0x80)
		return 1;
	if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf)
		length = 2;
	else if ((bytes[0] & 0xf0) == 0xe0)
		length = 3;
	else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4)
		length = 4;
	else
		return 0;
	if (size < length)
		return 0;
	for (size_t i = 1; i < length; i++)
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
		if ((bytes[0] & forms[i].mask) == forms[i].lead)
			return bytes[1] >= forms[i].second_min && bytes[1] <= forms[i].second_max ? length : 0;
	return length;
}

static bool escape_control(struct text *text, unsigned char byte)
{
	static const char letters[] = "abtnvfr"; /* 7 to 13 */

	if (byte >= 7 && byte <= 13)
		text_printf(text, "\\%c", letters[byte - 7]);
	else if (byte == 27)
		text_append_cstr(text, "\\e");
	else if (byte < 32 || byte == 127)
		text_printf(text, "\\x%02X", byte);
	else
		return false;
	return true;
}

/* U+0080 to U+009F are control characters, too. */
static bool is_c1_control(const unsigned char *bytes, size_t length)
{
	return length == 2 && bytes[0] == 0xc2 && bytes[1] < 0xa0;
}

static uint32_t utf8_code(const unsigned char *bytes, size_t length)
{
	uint32_t code = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);

	for (size_t i = 1; i < length; i++)
		code = code << 6 | (bytes[i] & 0x3f);
	return code;
}

/* As Ruby writes what is not printable. */
static bool escape_harmful(struct text *text, const unsigned char *bytes, size_t length)
{
	uint32_t code = utf8_code(bytes, length);

	if (length < 2 || !character_is_harmful(code))
		return false;
	text_printf(text, code > 0xffff ? "\\u{%X}" : "\\u%04X", code);
	return true;
}

static void escape(struct text *text, const char *from, size_t size, bool utf8, bool quoted)
{
	const unsigned char *bytes = (const unsigned char *)from;

	for (size_t i = 0; i < size && !text->cut;) {
		size_t length = bytes[i] < 0x80 || utf8 ? utf8_length(bytes + i, size - i) : 0;

		if (length == 0 || is_c1_control(bytes + i, length)) {
			text_printf(text, "\\x%02X", bytes[i++]);
		} else if (length == 1 && escape_control(text, bytes[i])) {
			i++;
		} else if (escape_harmful(text, bytes + i, length)) {
			i += length;
		} else if (quoted && (bytes[i] == '"' || bytes[i] == '\\' ||
		                      (bytes[i] == '#' && i + 1 < size && strchr("{$@", from[i + 1])))) {
			text_printf(text, "\\%c", bytes[i++]);
		} else {
			/* A character goes in whole or not at all, so that a cut leaves valid UTF-8. */
			if (text->size - text->used < length) {
				text->cut = true;
				return;
			}
			text_append(text, from + i, length);
			i += length;
		}
	}
}

void capture_escaped(struct text *text, const char *bytes, size_t size, bool utf8)
{
	escape(text, bytes, size, utf8, false);
}

static bool is_utf8(VALUE string)
{
	int index = rb_enc_get_index(string);

	return index == rb_utf8_encindex() || index == rb_usascii_encindex();
}

static void render_string(struct render *render, VALUE string)
{
	text_append_cstr(render->text, "\"");
	escape(render->text, RSTRING_PTR(string), (size_t)RSTRING_LEN(string), is_utf8(string), true);
	text_append_cstr(render->text, "\"");
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
	if (i == size || (name[i] >= '0' && name[i] <= '9'))
		return false;
	for (; i < size; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c == '_' || c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
			continue;
		return i > 0 && i + 1 == size && name[0] != '@' && name[0] != '$' && strchr("?!=", c);
	}
	return true;
}

static void render_symbol(struct render *render, VALUE symbol)
{
	VALUE name = rb_sym2str(symbol);
	const char *bytes = RSTRING_PTR(name);
	size_t size = (size_t)RSTRING_LEN(name);

	text_append_cstr(render->text, ":");
	if (is_plain_symbol(bytes, size) && (is_utf8(name) || rb_enc_str_asciionly_p(name)))
		escape(render->text, bytes, size, true, false);
	else
		render_string(render, name);
	RB_GC_GUARD(name);
}

static void render_float(struct render *render, double number)
{
	char buffer[64];

	if (isnan(number) || isinf(number)) {
		text_append_cstr(render->text, isnan(number) ? "NaN" : number < 0 ? "-Infinity" : "Infinity");
		return;
	}
	/* The shortest form that reads back as the same number. */
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(buffer, sizeof(buffer), "%.*g", digits, number);
		if (strtod(buffer, NULL) == number)
			break;
	}
	text_append_cstr(render->text, buffer);
	if (!strpbrk(buffer, ".e"))
		text_append_cstr(render->text, ".0");
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

/* True where another element may be shown; says so where not. */
static bool element(struct render *render)
{
	if (render->text->cut)
		return false;
	if (render->shown > 0)
		text_append_cstr(render->text, ", ");
	if (render->shown++ < render->options->value_length)
		return true;
	text_append_cstr(render->text, "...");
	return false;
}

static bool descend(struct render *render, const struct render *outer)
{
	*render = *outer;
	render->depth++;
	render->shown = 0;
	return render->depth <= render->options->value_depth;
}

static void render_array(struct render *outer, VALUE array)
{
	struct render render;
	bool deeper = descend(&render, outer);

	text_append_cstr(render.text, "[");
	if (!deeper && RARRAY_LEN(array) > 0)
		text_append_cstr(render.text, "...");
	for (long i = 0; deeper && i < RARRAY_LEN(array) && element(&render); i++)
		render_value(&render, rb_ary_entry(array, i));
	text_append_cstr(render.text, "]");
}

static int render_pair(VALUE key, VALUE value, VALUE argument)
{
	struct render *render = (struct render *)argument;

	if (!element(render))
		return ST_STOP;
	render_value(render, key);
	text_append_cstr(render->text, "=>");
	render_value(render, value);
	return ST_CONTINUE;
}

static void render_hash(struct render *outer, VALUE hash)
{
	struct render render;

	text_append_cstr(outer->text, "{");
	if (descend(&render, outer))
		rb_hash_foreach(hash, render_pair, (VALUE)&render);
	else if (RHASH_SIZE(hash) > 0)
		text_append_cstr(outer->text, "...");
	text_append_cstr(outer->text, "}");
}

static int render_ivar(ID name, VALUE value, st_data_t argument)
{
	struct render *render = (struct render *)argument;
	const char *text = rb_id2name(name);

	/* Without an '@' it is not the application's. */
	if (!text || text[0] != '@')
		return ST_CONTINUE;
	text_append_cstr(render->text, render->shown ? "" : " ");
	if (!element(render))
		return ST_STOP;
	text_append_cstr(render->text, text);
	text_append_cstr(render->text, "=");
	render_value(render, value);
	return ST_CONTINUE;
}

static void render_object(struct render *outer, VALUE object)
{
	struct render render;

	text_append_cstr(outer->text, "#<");
	class_name_add(outer->text, rb_class_real(CLASS_OF(object)));
	if ((outer->options->flags & TRACE_IVARS) && descend(&render, outer))
		rb_ivar_foreach(object, render_ivar, (st_data_t)&render);
	text_append_cstr(outer->text, ">");
}

static void render_range(struct render *render, VALUE range)
{
	VALUE from, to;
	int exclusive;

	if (!rb_range_values(range, &from, &to, &exclusive)) {
		render_object(render, range);
		return;
	}
	if (!NIL_P(from) || NIL_P(to))
		render_value(render, from);
	text_append_cstr(render->text, exclusive ? "..." : "..");
	if (!NIL_P(to))
		render_value(render, to);
}

static void render_value(struct render *render, VALUE value)
{
	if (render->text->cut)
		return;
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
	case T_ARRAY:
		render_array(render, value);
		break;
	case T_HASH:
		render_hash(render, value);
		break;
	case T_CLASS:
	case T_MODULE:
		class_name_add(render->text, value);
		break;
	case T_STRUCT:
		if (rb_obj_class(value) == rb_cRange) {
			render_range(render, value);
			break;
		}
		/* fall through */
	default:
		render_object(render, value);
		break;
	}
}

/* What is behind a value that was cut. */
#define CUT_MARK "..."
#define CUT_MARK_SIZE (sizeof(CUT_MARK) - 1)

/* A part of text that keeps room for the mark of a cut. */
static void bounded(struct text *text, size_t size, struct text *part)
{
	part->bytes = text->bytes + text->used;
	part->size = text->size - text->used < size ? text->size - text->used : size;
	part->used = 0;
	part->cut = false;
	part->size = part->size > CUT_MARK_SIZE ? part->size - CUT_MARK_SIZE : 0;
}

/* A size that has no room for the whole mark gets as much of it as fits. */
static void bounded_end(struct text *text, const struct text *part, size_t size)
{
	text->used += part->used;
	if (part->cut)
		text_append(text, CUT_MARK, size < CUT_MARK_SIZE ? size : CUT_MARK_SIZE);
}

void capture_value(struct text *text, VALUE value, const struct trace_options *options)
{
	struct text part;
	struct render render = {.text = &part, .options = options};

	bounded(text, options->value_size, &part);
	render_value(&render, value);
	bounded_end(text, &part, options->value_size);
}

void capture_string(struct text *text, VALUE string, const struct trace_options *options)
{
	struct text part;

	bounded(text, options->value_size, &part);
	escape(&part, RSTRING_PTR(string), (size_t)RSTRING_LEN(string), is_utf8(string), false);
	bounded_end(text, &part, options->value_size);
	RB_GC_GUARD(string);
}

void capture_inspect(struct text *text, VALUE value, const struct trace_options *options)
{
	capture_string(text, rb_inspect(value), options);
}
