/* Text of bounded size. See text.h. */

#include "tracee/base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void text_append(struct text *text, const char *bytes, size_t size)
{
	size_t room = text->size - text->used;

	if (text->cut)
		return;
	if (size > room) {
		size = room;
		text->cut = true;
	}
	memcpy(text->bytes + text->used, bytes, size);
	text->used += size;
}

void text_printf(struct text *text, const char *format, ...)
{
	char buffer[256];
	va_list args;

	va_start(args, format);
	vsnprintf(buffer, sizeof(buffer), format, args);
	va_end(args);
	text_append_cstr(text, buffer);
}
