/* Telling well-formed UTF-8 from what is not. See utf8.h. */

#include "tracer/base/utf8.h"

size_t utf8_sequence(const char *text, size_t size, uint32_t *code)
{
	static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *bytes = (const unsigned char *)text;
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
