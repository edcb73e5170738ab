/* Writing JSON: escaped text, and what is not needed a million times a second. See json.h. */

#include "tracer/base/json.h"

#include "proto/character.h"
#include "tracer/base/utf8.h"

#include <math.h>
#include <stdio.h>

/* How many bytes at the beginning stand for themselves in a string; ASCII only. */
static size_t plain_prefix(const char *bytes, size_t size)
{
	size_t i = 0;

	while (i < size && (unsigned char)bytes[i] < 0x7f && bytes[i] >= 0x20 && bytes[i] != '"' && bytes[i] != '\\')
		i++;
	return i;
}

static void add_code(struct buffer *to, uint32_t code)
{
	static const char hex[] = "0123456789ABCDEF";
	const char escape[] = {'\\', 'u', hex[code >> 12 & 15], hex[code >> 8 & 15], hex[code >> 4 & 15], hex[code & 15]};

	if (code > 0xffff) {
		add_code(to, 0xd7c0 + (code >> 10));
		add_code(to, 0xdc00 | (code & 0x3ff));
		return;
	}
	buffer_add(to, escape, sizeof(escape));
}

static void add_escape(struct buffer *to, unsigned char byte)
{
	static const char letters[0x20] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
	const char escape[] = {'\\', byte >= 0x20 ? (char)byte : letters[byte]};

	if (escape[1] && byte != 0x7f)
		buffer_add(to, escape, sizeof(escape));
	else
		add_code(to, byte);
}

/* A character beyond ASCII. Returns its size. */
static size_t add_character(struct buffer *to, const char *bytes, size_t size)
{
	uint32_t code;
	size_t length = utf8_sequence(bytes, size, &code);

	if (length && character_is_harmful(code))
		add_code(to, code);
	else
		buffer_add(to, length ? bytes : "\xef\xbf\xbd", length ? length : 3);
	return length ? length : 1;
}

void json_quote(struct buffer *to, struct slice text)
{
	const char *bytes = text.bytes;
	size_t size = text.size, length = plain_prefix(bytes, size);
	char *at = buffer_reserve(to, size + 2);

	*at = '"';
	if (length)
		memcpy(at + 1, bytes, length);
	to->size += length + 1;
	if (length == size) { /* as nearly all */
		at[length + 1] = '"';
		to->size++;
		return;
	}
	bytes += length;
	size -= length;
	while (size) {
		length = plain_prefix(bytes, size);
		buffer_add(to, bytes, length);
		bytes += length;
		size -= length;
		if (!size)
			break;
		length = 1;
		if ((unsigned char)*bytes < 0x80)
			add_escape(to, (unsigned char)*bytes);
		else
			length = add_character(to, bytes, size);
		bytes += length;
		size -= length;
	}
	buffer_add_char(to, '"');
}

struct buffer *json_key_text(struct buffer *to, struct slice key)
{
	json_add_text(to, key);
	buffer_add_char(to, ':');
	return to;
}

void json_add_int(struct buffer *to, int64_t number)
{
	json_separate(to);
	if (number < 0)
		buffer_add_char(to, '-');
	buffer_add_uint(to, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void json_add_real(struct buffer *to, double number)
{
	char digits[40], *exponent;

	if (!isfinite(number)) {
		json_add_null(to);
		return;
	}
	snprintf(digits, sizeof(digits), "%.17g", number);
	json_separate(to);
	exponent = strchr(digits, 'e');
	if (!exponent) {
		buffer_add_text(to, digits);
		buffer_add_text(to, strchr(digits, '.') ? "" : ".0"); /* so that it is read as a float again */
		return;
	}
	/* The exponent without the plus sign and the leading zero: 1e22, 1e-5 */
	buffer_add(to, digits, (size_t)(exponent - digits) + 1);
	if (exponent[1] == '-')
		buffer_add_char(to, '-');
	buffer_add_text(to, exponent + 2 + strspn(exponent + 2, "0"));
}

void json_add_within_script(struct buffer *to, const struct buffer *json)
{
	for (size_t i = 0; i < json->size; i++)
		if (json->bytes[i] == '<')
			buffer_add_text(to, "\\u003c");
		else
			buffer_add_char(to, json->bytes[i]);
}
