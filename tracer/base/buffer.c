/* Growing byte buffers, and the formatting of the hot path: no printf, no allocation once they are large enough. See buffer.h. */

#include "tracer/base/buffer.h"

#include "proto/character.h"
#include "proto/clock.h"
#include "tracer/base/leave.h"
#include "tracer/base/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static _Noreturn void memory_exhausted(void)
{
	leave_at_once(1, "rbprobe: out of memory\n");
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

/* "00" to "99", one after the other. */
static const char two_digits[] =
	"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
	"5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

#define DIGITS_MAX 24 /* of 64 bits, and some */

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
	char digits[2 * DIGITS_MAX] = {0}, *end = digits + DIGITS_MAX, *from = digits_before(end, number);

	/* A copy of constant size is faster than one of the right size. */
	memcpy(buffer_reserve(buffer, DIGITS_MAX), from, DIGITS_MAX);
	buffer->size += (size_t)(end - from);
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
		length = utf8_sequence(bytes, size, &code);
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

void buffer_add_size(struct buffer *buffer, uint64_t bytes)
{
	if (bytes < 10u << 10)
		buffer_add_format(buffer, "%" PRIu64 " B", bytes);
	else if (bytes < 1u << 20)
		buffer_add_format(buffer, "%.1f KiB", (double)bytes / 1024);
	else
		buffer_add_format(buffer, "%.1f MiB", (double)bytes / (1024 * 1024));
}
