#ifndef RBPROBE_TEXT_H
#define RBPROBE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/*
 * Text that is put together in memory of a fixed size; what does not fit is cut, `cut` says so, and nothing
 * is added after that. Any context.
 */
struct text {
	char *bytes;
	size_t size; /* of bytes; no NUL is kept */
	size_t used;
	bool cut;
};

void text_append(struct text *text, const char *bytes, size_t size);
static inline void text_append_cstr(struct text *text, const char *string)
{
	text_append(text, string, strlen(string));
}

void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
