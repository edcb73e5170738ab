/* Names in quotes. See selector_quotes.h. */

#include "tracer/cli/selector_quotes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

size_t quoted_size(const char *text, size_t size)
{
	if (!size || text[0] != '"')
		return 0;
	for (size_t i = 1; i < size; i++) {
		if (text[i] == '"')
			return i + 1;
		i += text[i] == '\\';
	}
	return 0;
}

static char hex_value(char digit)
{
	return (char)(isdigit((unsigned char)digit) ? digit - '0' : tolower((unsigned char)digit) - 'a' + 10);
}

/* Writes what stands at text[at] and returns how long that is. `\*` keeps its backslash: it is a pattern's. */
static size_t unescape(const char *text, size_t at, size_t end, char *to, size_t *used)
{
	size_t left = end - at;

	if (text[at] == '\\' && left > 3 && text[at + 1] == 'x' && isxdigit((unsigned char)text[at + 2]) &&
	    isxdigit((unsigned char)text[at + 3])) {
		to[(*used)++] = (char)(hex_value(text[at + 2]) << 4 | hex_value(text[at + 3]));
		return 4;
	}
	if (text[at] == '\\' && left > 1 && (text[at + 1] == '"' || text[at + 1] == '\\')) {
		to[(*used)++] = text[at + 1];
		return 2;
	}
	to[(*used)++] = text[at];
	return 1;
}

struct slice quoted_name(const char *text, size_t size, char **copy)
{
	size_t used = 0, end = size - 1;

	*copy = NULL;
	if (!memchr(text, '\\', size))
		return (struct slice){text + 1, size - 2};
	*copy = memory_resize(NULL, size);
	for (size_t at = 1; at < end;)
		at += unescape(text, at, end, *copy, &used);
	return (struct slice){*copy, used};
}

bool name_is_escaped(struct slice name)
{
	struct buffer shown = {0};
	bool escaped;

	buffer_add_printable(&shown, name.bytes, name.size);
	escaped = shown.size != name.size || memchr(name.bytes, '\\', name.size);
	buffer_free(&shown);
	return escaped;
}

void quoted_add(struct buffer *to, struct slice name)
{
	size_t from = 0;

	buffer_add_char(to, '"');
	for (size_t i = 0; i < name.size; i++) {
		if (name.bytes[i] != '"' && name.bytes[i] != '\\')
			continue;
		buffer_add_printable(to, name.bytes + from, i - from);
		buffer_add_char(to, '\\');
		from = i;
	}
	buffer_add_printable(to, name.bytes + from, name.size - from);
	buffer_add_char(to, '"');
}
