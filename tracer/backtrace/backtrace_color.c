/* Colours of backtraces. See backtrace_color.h. */

#define _GNU_SOURCE
#include "tracer/backtrace/backtrace_color.h"

#include "tracer/base/colors.h"

#include <ctype.h>
#include <stdbool.h>

#define IN " in "

static void add_colored(struct buffer *to, enum color color, const char *text, size_t size)
{
	buffer_add_slice(to, colors[color]);
	buffer_add(to, text, size);
	buffer_add_slice(to, colors[COLOR_NONE]);
}

static bool begins(const char *line, size_t size, const char *with)
{
	return size >= strlen(with) && memcmp(line, with, strlen(with)) == 0;
}

/* Where a frame's place ends: "   app.rb:12 in block in Order#save". NULL: it is no frame. */
static const char *place_end(const char *line, size_t size)
{
	const char *first = NULL;

	if (!begins(line, size, "   ") || begins(line, size, "      "))
		return NULL;
	for (const char *found = line; (found = memmem(found, size - (size_t)(found - line), IN, strlen(IN))); found++) {
		if (isdigit((unsigned char)found[-1]))
			return found;
		first = first ? first : found;
	}
	return first;
}

/* Its place is less than its method. */
static bool add_frame(struct buffer *to, const char *line, size_t size)
{
	const char *end = place_end(line, size);

	if (!end)
		return false;
	add_colored(to, COLOR_LABEL, line, (size_t)(end - line));
	buffer_add_text(to, IN);
	end += strlen(IN);
	add_colored(to, COLOR_NAME, end, size - (size_t)(end - line));
	return true;
}

/* `thread 12 "worker, 1", sleeping`, `fiber ...`, "x300 sleeping": up to what it does. */
static bool add_heading(struct buffer *to, const char *line, size_t size)
{
	bool quoted = false, group = size > 1 && line[0] == 'x' && isdigit((unsigned char)line[1]);
	size_t end = 0;

	if (!group && !begins(line, size, "thread ") && !begins(line, size, "fiber ") && !begins(line, size, "gone: "))
		return false;
	while (end < size && (quoted || line[end] != (group ? ' ' : ',')))
		quoted ^= line[end++] == '"';
	add_colored(to, COLOR_THREAD, line, end);
	buffer_add(to, line + end, size - end);
	return true;
}

static void add_line(struct buffer *to, const char *line, size_t size)
{
	if (begins(line, size, "deadlock") || begins(line, size, "all "))
		add_colored(to, COLOR_ERROR, line, size);
	else if (begins(line, size, "   ..."))
		add_colored(to, COLOR_LABEL, line, size);
	else if (!add_heading(to, line, size) && !add_frame(to, line, size))
		buffer_add(to, line, size);
}

void backtrace_color(struct buffer *text, size_t from)
{
	struct buffer colored = {0};

	for (size_t at = from; at < text->size;) {
		const char *line = text->bytes + at, *end = memchr(line, '\n', text->size - at);
		size_t size = end ? (size_t)(end - line) : text->size - at;

		add_line(&colored, line, size);
		if (end)
			buffer_add_char(&colored, '\n');
		at += size + (end != NULL);
	}
	text->size = from;
	buffer_add(text, colored.bytes, colored.size);
	buffer_free(&colored);
}
