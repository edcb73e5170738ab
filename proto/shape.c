/* A look at a message before it is unpacked. See shape.h. Any context. */

#include "proto/shape.h"

static uint32_t big_endian(const uint8_t *bytes, size_t size)
{
	uint32_t number = 0;

	for (size_t i = 0; i < size; i++)
		number = number << 8 | bytes[i];
	return number;
}

/*
 * What the first byte of a value says: how many bytes of a number follow it, and what that number counts. Formats below 0xc0 and
 * above 0xdf have their number within the first byte.
 */
static const struct format {
	uint8_t number_size;
	enum { PLAIN, BYTES, EXTENSION_BYTES, ELEMENTS, PAIRS } counts;
} formats[0x20] = {
	[0x04] = {1, BYTES},           [0x05] = {2, BYTES},           [0x06] = {4, BYTES}, /* bin */
	[0x07] = {1, EXTENSION_BYTES}, [0x08] = {2, EXTENSION_BYTES}, [0x09] = {4, EXTENSION_BYTES},
	[0x0a] = {4, PLAIN},           [0x0b] = {8, PLAIN}, /* float */
	[0x0c] = {1, PLAIN},           [0x0d] = {2, PLAIN},           [0x0e] = {4, PLAIN},
	[0x0f] = {8, PLAIN}, /* uint */
	[0x10] = {1, PLAIN},           [0x11] = {2, PLAIN},           [0x12] = {4, PLAIN},
	[0x13] = {8, PLAIN}, /* int */
	[0x14] = {2, PLAIN},           [0x15] = {3, PLAIN},           [0x16] = {5, PLAIN},
	[0x17] = {9, PLAIN},           [0x18] = {17, PLAIN},                               /* fixext */
	[0x19] = {1, BYTES},           [0x1a] = {2, BYTES},           [0x1b] = {4, BYTES}, /* str */
	[0x1c] = {2, ELEMENTS},        [0x1d] = {4, ELEMENTS},        [0x1e] = {2, PAIRS},
	[0x1f] = {4, PAIRS},
};

bool shape_is_sound(const uint8_t *bytes, size_t size)
{
	const uint8_t *end = bytes + size;

	while (bytes < end) {
		uint8_t first = *bytes++;
		size_t left = (size_t)(end - bytes);
		const struct format *format;
		uint64_t count;

		if (first < 0x80 || first >= 0xe0)
			continue;
		if (first < 0xc0) {
			count = first < 0xa0 ? first & 0x0f : first & 0x1f;
			if (first < 0x90)
				count *= 2;
			if (count > left)
				return false;
			if (first >= 0xa0)
				bytes += count;
			continue;
		}
		format = &formats[first - 0xc0];
		if (format->number_size > left)
			return false;
		if (format->counts != PLAIN) {
			count = big_endian(bytes, format->number_size);
			left -= format->number_size;
			if (format->counts == PAIRS)
				count *= 2;
			if (format->counts == EXTENSION_BYTES)
				count++;
			if (count > left)
				return false;
			if (format->counts == BYTES || format->counts == EXTENSION_BYTES)
				bytes += count;
		}
		bytes += format->number_size;
	}
	return true;
}
