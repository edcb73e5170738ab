/* Somebody else's text on a terminal. See terminal_text.h. */

#include "tracer/base/terminal_text.h"

#include <string.h>
#include <unistd.h>

void terminal_text_init(struct terminal_text *text, int fd)
{
	*text = (struct terminal_text){.filters = isatty(fd) == 1};
}

/* How many bytes at the end begin a UTF-8 sequence that goes on after them. */
static size_t unfinished(const char *bytes, size_t size)
{
	for (size_t back = 1; back <= 3 && back <= size; back++) {
		unsigned char byte = (unsigned char)bytes[size - back];

		if (byte >= 0xc0)
			return byte < 0xf8 && back < (byte >= 0xf0 ? 4u : byte >= 0xe0 ? 3u : 2u) ? back : 0;
		if (byte < 0x80)
			return 0;
	}
	return 0;
}

static void add_lines(struct buffer *to, const char *bytes, size_t size)
{
	while (size) {
		size_t length = 0;

		while (length < size && bytes[length] != '\n' && bytes[length] != '\t')
			length++;
		/* A CR LF is the end of a line as well. */
		if (length > 0 && length < size && bytes[length] == '\n' && bytes[length - 1] == '\r')
			buffer_add_printable(to, bytes, length - 1);
		else
			buffer_add_printable(to, bytes, length);
		if (length < size)
			buffer_add_char(to, bytes[length++]);
		bytes += length;
		size -= length;
	}
}

void terminal_text_add(struct terminal_text *text, struct buffer *to, struct slice bytes)
{
	struct buffer whole = {0};
	size_t held;

	if (!text->filters) {
		buffer_add_slice(to, bytes);
		return;
	}
	buffer_add(&whole, text->held, text->held_size);
	buffer_add_slice(&whole, bytes);
	held = unfinished(whole.bytes, whole.size);
	add_lines(to, whole.bytes, whole.size - held);
	memcpy(text->held, whole.bytes + whole.size - held, held);
	text->held_size = held;
	buffer_free(&whole);
}

void terminal_text_end(struct terminal_text *text, struct buffer *to)
{
	buffer_add_printable(to, text->held, text->held_size);
	text->held_size = 0;
}
