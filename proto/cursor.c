/* The rarer values of cursor.h. Any context. */

#include "proto/cursor.h"

bool cursor_array(struct cursor *cursor, uint32_t *count)
{
	uint64_t number;
	uint8_t first;

	if (cursor->at == cursor->end)
		return false;
	first = *cursor->at++;
	if (first >= 0x90 && first <= 0x9f)
		number = first & 0x0f;
	else if (!((first == 0xdc && cursor_number(cursor, 2, &number)) || (first == 0xdd && cursor_number(cursor, 4, &number))))
		return false;
	*count = (uint32_t)number;
	return number <= (size_t)(cursor->end - cursor->at);
}

/* What follows the first bytes from 0xc0 to 0xdf. */
static const struct format {
	uint8_t number_size;                                                        /* of the number after the first byte, */
	enum { NOTHING, NUMBER, TEXT, EXTENSION, ELEMENTS, PAIRS, INVALID } counts; /* and what it counts */
} formats[0x20] = {
	[0x00] = {0, NOTHING},   [0x01] = {0, INVALID},   [0x02] = {0, NOTHING},   [0x03] = {0, NOTHING}, /* nil, false, true */
	[0x04] = {1, TEXT},      [0x05] = {2, TEXT},      [0x06] = {4, TEXT},                             /* bin */
	[0x07] = {1, EXTENSION}, [0x08] = {2, EXTENSION}, [0x09] = {4, EXTENSION},                        /* ext */
	[0x0a] = {4, NUMBER},    [0x0b] = {8, NUMBER},                                                    /* float */
	[0x0c] = {1, NUMBER},    [0x0d] = {2, NUMBER},    [0x0e] = {4, NUMBER},    [0x0f] = {8, NUMBER},  /* uint */
	[0x10] = {1, NUMBER},    [0x11] = {2, NUMBER},    [0x12] = {4, NUMBER},    [0x13] = {8, NUMBER},  /* int */
	[0x14] = {2, NUMBER},    [0x15] = {3, NUMBER},    [0x16] = {5, NUMBER},    [0x17] = {9, NUMBER},  /* fixext */
	[0x18] = {17, NUMBER},   [0x19] = {1, TEXT},      [0x1a] = {2, TEXT},      [0x1b] = {4, TEXT},    /* str */
	[0x1c] = {2, ELEMENTS},  [0x1d] = {4, ELEMENTS},  [0x1e] = {2, PAIRS},     [0x1f] = {4, PAIRS},
};

/* The first byte of a value and what belongs to it, but for the values inside of it: *inside says how many these are. */
static bool head(struct cursor *cursor, struct slice *text, uint64_t *inside)
{
	uint8_t first = *cursor->at++;
	const struct format *format;
	uint64_t number = 0;

	*text = (struct slice){"", 0};
	*inside = 0;
	if (first < 0x80 || first >= 0xe0)
		return true;
	if (first < 0xa0) {
		*inside = first < 0x90 ? 2u * (first & 0x0f) : first & 0x0f;
		return true;
	}
	format = first < 0xc0 ? &(const struct format){0, TEXT} : &formats[first - 0xc0];
	if (first < 0xc0)
		number = first & 0x1f;
	else if (format->counts == NUMBER)
		number = format->number_size;
	else if (!cursor_number(cursor, format->number_size, &number))
		return false;
	switch (format->counts) {
	case NOTHING:
		return true;
	case ELEMENTS:
	case PAIRS:
		*inside = format->counts == PAIRS ? 2 * number : number;
		return true;
	case EXTENSION:
		number++; /* its type */
		break;
	case TEXT:
		*text = (struct slice){(const char *)cursor->at, number};
		break;
	case NUMBER:
		break;
	case INVALID:
		return false;
	}
	if (number > (size_t)(cursor->end - cursor->at))
		return false;
	cursor->at += number;
	return true;
}

bool cursor_any(struct cursor *cursor, struct slice *text)
{
	struct slice inner;
	uint64_t left, inside;

	if (cursor->at == cursor->end || !head(cursor, text, &left))
		return false;
	/* Counted, not recursed into: what is nested costs no stack. */
	for (; left; left += inside - 1)
		if (left > (size_t)(cursor->end - cursor->at) || !head(cursor, &inner, &inside))
			return false;
	return true;
}
