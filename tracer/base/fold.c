/* Lines for narrow terminals. See fold.h. */

#include "tracer/base/fold.h"

#include <string.h>

/* Of the sequence that changes a colour here; 0: there is none. */
static size_t escape_size(const char *text, size_t size)
{
	size_t at = 2;

	if (size < 3 || text[0] != '\033' || text[1] != '[')
		return 0;
	while (at < size && ((text[at] >= '0' && text[at] <= '9') || text[at] == ';'))
		at++;
	return at < size ? at + 1 : 0;
}

size_t fold_bytes(const char *text, size_t size, unsigned columns)
{
	size_t at = 0;

	for (unsigned used = 0; at < size;) {
		size_t escape = escape_size(text + at, size - at);

		if (!escape && ((unsigned char)text[at] & 0xc0) != 0x80 && used++ == columns)
			break;
		at += escape ? escape : 1;
	}
	return at;
}

/* Where the line's first part ends; the next begins at *next. room: bytes that fit. */
static size_t part_end(const char *line, size_t size, size_t room, size_t *next)
{
	size_t blank = 0, pause = 0;

	*next = size;
	if (room >= size)
		return size;
	for (size_t i = 1; i <= room; i++) {
		if (line[i] != ' ' || line[i - 1] == ' ')
			continue;
		blank = i;
		if (line[i - 1] == ',' || line[i - 1] == ';' || line[i - 1] == ':')
			pause = i;
	}
	blank = pause > room / 2 ? pause : blank;
	if (blank <= room / 3) {
		*next = room;
		return room;
	}
	*next = blank + 1;
	return blank;
}

/* Of what follows the line's first part. */
static unsigned indentation_of(const char *line, size_t size, unsigned width, unsigned more)
{
	unsigned blanks = 0;

	while (blanks < size && blanks < width && line[blanks] == ' ')
		blanks++;
	return blanks + more < width / 2 ? blanks + more : width / 2;
}

void buffer_fold(struct buffer *buffer, size_t from, unsigned width, unsigned indentation)
{
	struct buffer folded = {0};
	const char *text = buffer->bytes + from;
	size_t left = buffer->size - from;

	if (width <= 2 * indentation)
		return;
	while (left > 0) {
		const char *newline = memchr(text, '\n', left);
		size_t size = newline ? (size_t)(newline - text) : left, at = 0, next;
		unsigned blanks = indentation_of(text, size, width, indentation);

		for (unsigned columns = width; at < size; columns = width - blanks) {
			size_t end = part_end(text + at, size - at, fold_bytes(text + at, size - at, columns), &next);

			if (at) {
				buffer_add_char(&folded, '\n');
				buffer_add_spaces(&folded, blanks);
			}
			buffer_add(&folded, text + at, end);
			at += next;
		}
		if (newline)
			buffer_add_char(&folded, '\n');
		size += newline != NULL;
		text += size;
		left -= size;
	}
	buffer->size = from;
	buffer_add(buffer, folded.bytes, folded.size);
	buffer_free(&folded);
}
