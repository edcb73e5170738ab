/* An event's values. See value_texts.h. */

#include "tracee/base/value_texts.h"

#define ARRAY_HEADER 3 /* msgpack array 16 */
#define TEXT_HEADER 3  /* msgpack str 16 */
#define LEFT_OUT 0xc0  /* msgpack nil */

void value_texts_begin(struct value_texts *values, char *buffer, size_t size)
{
	values->buffer = buffer;
	values->size = size;
	values->used = ARRAY_HEADER;
	values->count = 0;
}

bool value_texts_open(const struct value_texts *values, struct text *text)
{
	if (values->used + TEXT_HEADER >= values->size)
		return false;
	text->bytes = values->buffer + values->used + TEXT_HEADER;
	text->size = values->size - values->used - TEXT_HEADER;
	text->used = 0;
	text->cut = false;
	return true;
}

void value_texts_close(struct value_texts *values, const struct text *text)
{
	char *header = values->buffer + values->used;

	header[0] = (char)0xda;
	header[1] = (char)(text->used >> 8);
	header[2] = (char)text->used;
	values->used += TEXT_HEADER + text->used;
	values->count++;
}

void value_texts_leave_out(struct value_texts *values)
{
	if (values->used < values->size) {
		values->buffer[values->used++] = (char)LEFT_OUT;
		values->count++;
	}
}

void value_texts_add(struct value_texts *values, const char *bytes, size_t size)
{
	struct text text;

	if (!value_texts_open(values, &text))
		return;
	text_append(&text, bytes, size);
	value_texts_close(values, &text);
}

static void add_number(struct value_texts *values, uint64_t number, bool negative)
{
	char digits[21];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	if (negative)
		digits[--at] = '-';
	value_texts_add(values, digits + at, sizeof(digits) - at);
}

void value_texts_add_uint(struct value_texts *values, uint64_t number)
{
	add_number(values, number, false);
}

void value_texts_add_int(struct value_texts *values, int64_t number)
{
	add_number(values, number < 0 ? -(uint64_t)number : (uint64_t)number, number < 0);
}

size_t value_texts_end(struct value_texts *values)
{
	values->buffer[0] = (char)0xdc;
	values->buffer[1] = (char)(values->count >> 8);
	values->buffer[2] = (char)values->count;
	return values->used;
}
