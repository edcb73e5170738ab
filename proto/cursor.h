#ifndef RBPROBE_CURSOR_H
#define RBPROBE_CURSOR_H

#include "proto/slice.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Reading msgpack values straight from bytes that nobody has looked at yet: no objects, no allocation. For what comes
 * by the million (events); fields.h is more comfortable and does the rest. Each function takes one value and moves on;
 * false, with the cursor anywhere, where it is of another type or does not end within the bytes.
 */
struct cursor {
	const uint8_t *at;
	const uint8_t *end;
};

static inline uint64_t cursor_big_endian(const uint8_t *bytes, unsigned size)
{
	uint64_t number = 0;

	for (unsigned i = 0; i < size; i++)
		number = number << 8 | bytes[i];
	return number;
}

/* The number of a value whose first byte, already taken, is followed by `size` bytes of it. */
static inline bool cursor_number(struct cursor *cursor, unsigned size, uint64_t *number)
{
	if ((size_t)(cursor->end - cursor->at) < size)
		return false;
	*number = cursor_big_endian(cursor->at, size);
	cursor->at += size;
	return true;
}

static inline bool cursor_uint(struct cursor *cursor, uint64_t *number)
{
	uint8_t first;

	if (cursor->at == cursor->end)
		return false;
	first = *cursor->at++;
	if (first < 0x80) {
		*number = first;
		return true;
	}
	/* uint 8 to uint 64 */
	return first >= 0xcc && first <= 0xcf && cursor_number(cursor, 1u << (first - 0xcc), number);
}

/* An unsigned number below 2^64 or a negative one, both as their bits. */
static inline bool cursor_int(struct cursor *cursor, uint64_t *number)
{
	uint8_t first;

	if (cursor->at == cursor->end)
		return false;
	first = *cursor->at;
	if (first < 0xd0 || (first > 0xd3 && first < 0xe0))
		return cursor_uint(cursor, number);
	cursor->at++;
	if (first >= 0xe0) {
		*number = (uint64_t)(int64_t)(int8_t)first;
		return true;
	}
	if (!cursor_number(cursor, 1u << (first - 0xd0), number))
		return false;
	/* int 8 to int 64: the sign */
	switch (first) {
	case 0xd0:
		*number = (uint64_t)(int64_t)(int8_t)*number;
		break;
	case 0xd1:
		*number = (uint64_t)(int64_t)(int16_t)*number;
		break;
	case 0xd2:
		*number = (uint64_t)(int64_t)(int32_t)*number;
		break;
	}
	return true;
}

/* The head of an array: its elements are the next values. No more are announced than there are bytes. */
bool cursor_array(struct cursor *cursor, uint32_t *count);
/* Any value; *text is what it holds if it is a str or bin, and {"", 0} otherwise. */
bool cursor_any(struct cursor *cursor, struct slice *text);

#endif
