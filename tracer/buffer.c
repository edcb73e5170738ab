/* Growing byte buffers, and the formatting of the hot path: no printf, no allocation once they are large enough. See buffer.h. */

#include "buffer.h"

#include "proto/character.h"

#include "proto/clock.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static _Noreturn void memory_exhausted(void)
{
	static const char text[] = "rbprobe: out of memory\n";

	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0)
		_exit(1);
	_exit(1);
}

void *memory_resize(void *block, size_t size)
{
	void *resized = realloc(block, size ? size : 1);

	if (!resized)
		memory_exhausted();
	return resized;
}

void *memory_zeroed(size_t size)
{
	void *block = calloc(1, size ? size : 1);

	if (!block)
		memory_exhausted();
	return block;
}

void buffer_grow(struct buffer *buffer, size_t more)
{
	size_t capacity = buffer->capacity ? buffer->capacity : 128;

	while (capacity - buffer->size < more)
		capacity *= 2;
	buffer->bytes = memory_resize(buffer->bytes, capacity);
	buffer->capacity = capacity;
}

void buffer_free(struct buffer *buffer)
{
	free(buffer->bytes);
	memset(buffer, 0, sizeof(*buffer));
}

void buffer_add_spaces(struct buffer *buffer, size_t count)
{
	memset(buffer_reserve(buffer, count + 1), ' ', count);
	buffer->size += count;
}

/* "00" to "99", one behind the other. */
static const char two_digits[] =
	"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
	"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/* Writes the digits so that they end before `end`, and returns where they begin. */
static char *digits_before(char *end, uint64_t number)
{
	while (number >= 100) {
		end -= 2;
		memcpy(end, two_digits + 2 * (number % 100), 2);
		number /= 100;
	}
	if (number < 10) {
		*--end = (char)('0' + number);
		return end;
	}
	end -= 2;
	memcpy(end, two_digits + 2 * number, 2);
	return end;
}

void buffer_add_uint(struct buffer *buffer, uint64_t number)
{
	char digits[24], *end = digits + sizeof(digits), *from = digits_before(end, number);

	buffer_add(buffer, from, (size_t)(end - from));
}

void buffer_add_seconds(struct buffer *buffer, uint64_t ns)
{
	uint64_t us = ns / NS_PER_US + (ns % NS_PER_US >= NS_PER_US / 2);
	uint32_t fraction = (uint32_t)(us % 1000000);
	char *to;

	if (us < 1000000)
		buffer_add_char(buffer, '0');
	else
		buffer_add_uint(buffer, us / 1000000);
	to = buffer_reserve(buffer, 7);
	*to++ = '.';
	memcpy(to, two_digits + 2 * (fraction / 10000), 2);
	memcpy(to + 2, two_digits + 2 * (fraction / 100 % 100), 2);
	memcpy(to + 4, two_digits + 2 * (fraction % 100), 2);
	buffer->size += 7;
}

void buffer_add_format(struct buffer *buffer, const char *format, ...)
{
	va_list args;
	int size;

	va_start(args, format);
	size = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (size < 0)
		return;
	buffer_reserve(buffer, (size_t)size + 1);
	va_start(args, format);
	vsnprintf(buffer->bytes + buffer->size, (size_t)size + 1, format, args);
	va_end(args);
	buffer->size += (size_t)size;
}

/* The length of the well-formed UTF-8 sequence at bytes (RFC 3629: no surrogates, nothing overlong), or 0; *code is its character. */
static size_t utf8_sequence(const unsigned char *bytes, size_t size, uint32_t *code)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t length;

	if (bytes[0] < 0x80) {
		*code = bytes[0];
		return 1;
	}
	if (bytes[0] >= 0xc2 && bytes[0] <= 0xdf)
		length = 2;
	else if (bytes[0] >= 0xe0 && bytes[0] <= 0xef)
		length = 3;
	else if (bytes[0] >= 0xf0 && bytes[0] <= 0xf4)
		length = 4;
	else
		return 0;
	if (length > size)
		return 0;
	*code = bytes[0] & (0x7fu >> length);
	for (size_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (bytes[i] & 0x3f);
	}
	if (*code < smallest[length] || *code > 0x10ffff || (*code >= 0xd800 && *code <= 0xdfff))
		return 0;
	return length;
}

/* How many bytes at the beginning are plain printable ASCII. Eight at a time: nearly all text is nothing else. */
static size_t plain_prefix(const char *bytes, size_t size)
{
	const uint64_t ones = 0x0101010101010101ull, highs = 0x8080808080808080ull;
	size_t i = 0;

	for (; i + 8 <= size; i += 8) {
		uint64_t word, below, del;

		memcpy(&word, bytes + i, 8);
		del = word ^ (ones * 0x7f);
		below = (word - ones * 0x20) | (del - ones);
		if ((below | word) & highs)
			break;
	}
	while (i < size && (unsigned char)bytes[i] >= 0x20 && (unsigned char)bytes[i] < 0x7f)
		i++;
	return i;
}

void buffer_add_printable(struct buffer *buffer, const char *bytes, size_t size)
{
	static const char hex[] = "0123456789abcdef";

	while (size) {
		size_t plain = plain_prefix(bytes, size);
		size_t length;
		uint32_t code = 0;

		buffer_add(buffer, bytes, plain);
		bytes += plain;
		size -= plain;
		if (!size)
			return;
		length = utf8_sequence((const unsigned char *)bytes, size, &code);
		if (length && !character_is_harmful(code)) {
			buffer_add(buffer, bytes, length);
		} else {
			length = length ? length : 1;
			for (size_t i = 0; i < length; i++) {
				unsigned char byte = (unsigned char)bytes[i];
				const char escape[4] = {'\\', 'x', hex[byte >> 4], hex[byte & 15]};

				buffer_add(buffer, escape, sizeof(escape));
			}
		}
		bytes += length;
		size -= length;
	}
}

void buffer_add_utf8(struct buffer *buffer, const char *bytes, size_t size)
{
	while (size) {
		uint32_t code = 0;
		size_t length = utf8_sequence((const unsigned char *)bytes, size, &code);

		if (length) {
			buffer_add(buffer, bytes, length);
		} else {
			length = 1;
			buffer_add(buffer, "\xef\xbf\xbd", 3);
		}
		bytes += length;
		size -= length;
	}
}

/* How many bytes at the beginning stand for themselves in a JSON string, or in JSON that was made already; ASCII only. */
static size_t json_prefix(const char *bytes, size_t size, bool made)
{
	size_t i = 0;

	while (i < size && (unsigned char)bytes[i] < 0x7f && (made || (bytes[i] >= 0x20 && bytes[i] != '"' && bytes[i] != '\\')))
		i++;
	return i;
}

static void add_json_code(struct buffer *buffer, uint32_t code)
{
	static const char hex[] = "0123456789ABCDEF";
	const char escape[] = {'\\', 'u', hex[code >> 12 & 15], hex[code >> 8 & 15], hex[code >> 4 & 15], hex[code & 15]};

	if (code > 0xffff) {
		add_json_code(buffer, 0xd7c0 + (code >> 10));
		add_json_code(buffer, 0xdc00 | (code & 0x3ff));
		return;
	}
	buffer_add(buffer, escape, sizeof(escape));
}

static void add_json_escape(struct buffer *buffer, unsigned char byte)
{
	static const char letters[0x20] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
	const char escape[] = {'\\', byte >= 0x20 ? (char)byte : letters[byte]};

	if (escape[1] && byte != 0x7f)
		buffer_add(buffer, escape, sizeof(escape));
	else
		add_json_code(buffer, byte);
}

/* A character beyond ASCII. Returns its size. */
static size_t add_json_character(struct buffer *buffer, const char *bytes, size_t size)
{
	uint32_t code;
	size_t length = utf8_sequence((const unsigned char *)bytes, size, &code);

	if (length && character_is_harmful(code))
		add_json_code(buffer, code);
	else
		buffer_add(buffer, length ? bytes : "\xef\xbf\xbd", length ? length : 3);
	return length ? length : 1;
}

static void add_json(struct buffer *buffer, const char *bytes, size_t size, bool made)
{
	while (size) {
		size_t length = json_prefix(bytes, size, made);

		buffer_add(buffer, bytes, length);
		bytes += length;
		size -= length;
		if (!size)
			return;
		length = 1;
		if ((unsigned char)*bytes < 0x80)
			add_json_escape(buffer, (unsigned char)*bytes);
		else
			length = add_json_character(buffer, bytes, size);
		bytes += length;
		size -= length;
	}
}

void buffer_add_json(struct buffer *buffer, struct slice text)
{
	buffer_add_char(buffer, '"');
	add_json(buffer, text.bytes, text.size, false);
	buffer_add_char(buffer, '"');
}

void buffer_add_made_json(struct buffer *buffer, const char *json, size_t size)
{
	add_json(buffer, json, size, true);
}
