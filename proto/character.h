#ifndef RBPROBE_CHARACTER_H
#define RBPROBE_CHARACTER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * C0, DEL and C1 controls, line separators, what turns the direction of text or is not seen at all, and what XML forbids: such
 * a character is never shown as it is.
 */
static inline bool character_is_harmful(uint32_t code)
{
	static const struct {
		uint32_t first, last;
	} ranges[] = {
		{0x00, 0x1f},     {0x7f, 0x9f},       {0xad, 0xad},       {0x61c, 0x61c},   {0x180e, 0x180e},
		{0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},   {0xfeff, 0xfeff}, {0xfff9, 0xfffb},
		{0xfffe, 0xffff}, {0x1d173, 0x1d17a}, {0xe0000, 0xe007f},
	};

	for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
		if (code <= ranges[i].last)
			return code >= ranges[i].first;
	return false;
}

#endif
