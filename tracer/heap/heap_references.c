/* Addresses out of the text of a dump. See heap_references.h. */

#include "tracer/heap/heap_references.h"

#include "tracer/base/buffer.h"

#include <stdlib.h>

#define CAPACITY_FIRST 1024u
#define DIGITS_MAX 16u

void heap_references_clear(struct heap_references *references)
{
	references->count = 0;
	references->state = SCAN_BETWEEN;
}

static void add(struct heap_references *references)
{
	if (references->count == references->capacity) {
		references->capacity = references->capacity ? 2 * references->capacity : CAPACITY_FIRST;
		references->items = memory_resize(references->items, references->capacity * sizeof(*references->items));
	}
	references->items[references->count++] = references->address;
}

/* 16: none. */
static unsigned digit_of(unsigned char c)
{
	unsigned digit = c - (unsigned)'0';

	if (digit <= 9)
		return digit;
	digit = (c | 0x20u) - (unsigned)'a';
	return digit < 6 ? digit + 10 : 16;
}

/* Within quotes. */
static void scan_digit(struct heap_references *references, unsigned char c)
{
	unsigned digit = digit_of(c);

	if (digit == 16 || references->digits == DIGITS_MAX) {
		references->state = SCAN_OTHER;
		return;
	}
	references->address = references->address << 4 | digit;
	references->digits++;
}

static void scan_byte(struct heap_references *references, unsigned char c)
{
	if (c == '"') {
		if (references->state == SCAN_DIGITS && references->digits)
			add(references);
		references->state = references->state == SCAN_BETWEEN ? SCAN_QUOTE : SCAN_BETWEEN;
		return;
	}
	switch (references->state) {
	case SCAN_QUOTE:
		references->state = c == '0' ? SCAN_ZERO : SCAN_OTHER;
		break;
	case SCAN_ZERO:
		references->state = c == 'x' ? SCAN_DIGITS : SCAN_OTHER;
		references->address = 0;
		references->digits = 0;
		break;
	case SCAN_DIGITS:
		scan_digit(references, c);
		break;
	case SCAN_BETWEEN:
	case SCAN_OTHER:
		break;
	}
}

void heap_references_scan(struct heap_references *references, struct slice text)
{
	for (size_t i = 0; i < text.size; i++)
		scan_byte(references, (unsigned char)text.bytes[i]);
}

void heap_references_free(struct heap_references *references)
{
	free(references->items);
	*references = (struct heap_references){0};
}
