/* Bytes of any encoding as UTF-8 without control characters. See capture.h. Any context; nothing here raises. */

#include "tracee/vm/capture_parts.h"

#include "proto/character.h"

#include <ruby/encoding.h>
#include <string.h>

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

/* How many of these bytes are shown as they are, whatever is around them. */
static size_t plain_run(const unsigned char *bytes, size_t size)
{
	size_t i = 0;

	while (i < size && bytes[i] >= ' ' && bytes[i] < 0x7f && bytes[i] != '"' && bytes[i] != '\\' && bytes[i] != '#')
		i++;
	return i;
}

static void escape(struct text *text, const char *from, size_t size, bool utf8, bool quoted)
{
	const unsigned char *bytes = (const unsigned char *)from;

	for (size_t i = 0; i < size && !text->cut;) {
		/* The text that has no room for one more byte is cut; what follows that is not looked at. */
		size_t room = text->size - text->used + 1, left = size - i, length;
		size_t run = plain_run(bytes + i, left < room ? left : room);

		if (run > 0) {
			text_append(text, from + i, run);
			i += run;
			continue;
		}
		length = bytes[i] < 0x80 || utf8 ? utf8_length(bytes + i, size - i) : 0;
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

bool capture_is_utf8(VALUE string)
{
	int index = rb_enc_get_index(string);

	return index == rb_utf8_encindex() || index == rb_usascii_encindex();
}

void capture_quoted(struct text *text, const char *bytes, size_t size, bool utf8)
{
	text_append_cstr(text, "\"");
	escape(text, bytes, size, utf8, true);
	text_append_cstr(text, "\"");
}

void capture_bytes(struct text *text, VALUE string)
{
	escape(text, RSTRING_PTR(string), (size_t)RSTRING_LEN(string), capture_is_utf8(string), false);
	RB_GC_GUARD(string);
}
