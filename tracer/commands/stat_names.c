/* Names and keys of rows. See stat_names.h. */

#include "tracer/commands/stat_names.h"

#include "tracer/base/fold.h"

#include <stdbool.h>
#include <string.h>

#define GAP 2
#define LEFT_OUT "..."
#define LEFT_OUT_WIDTH 3
#define LEAST 8 /* less of a name or key says nothing: then the line is too long */

/* Characters, as far as they are one column wide. */
static unsigned width_of(struct slice text)
{
	unsigned width = 0;

	for (size_t i = 0; i < text.size; i++)
		width += ((unsigned char)text.bytes[i] & 0xc0) != 0x80;
	return width;
}

static unsigned lesser(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

unsigned stat_names_width(struct slice name, struct slice key)
{
	if (!key.size)
		return lesser(width_of(name), STAT_NAME_WIDTH);
	return lesser(width_of(name), STAT_NAME_WIDTH - GAP - LEAST) + GAP + lesser(width_of(key), STAT_KEY_WIDTH);
}

/* "ActiveRecord::Base#save" => "...Base#save" */
static void add_end(struct buffer *to, struct slice text, unsigned columns)
{
	unsigned most = columns > LEFT_OUT_WIDTH ? columns - LEFT_OUT_WIDTH : 0;
	size_t from = 0, part;

	if (width_of(text) <= columns) {
		buffer_add_slice(to, text);
		return;
	}
	for (unsigned left = width_of(text); left > most; left--)
		do
			from++;
		while (from < text.size && ((unsigned char)text.bytes[from] & 0xc0) == 0x80);
	/* From the next name on, if there is one. */
	for (part = from; part + 2 < text.size && memcmp(text.bytes + part, "::", 2) != 0; part++)
		;
	if (part + 2 < text.size)
		from = part + 2;
	buffer_add_text(to, LEFT_OUT);
	buffer_add(to, text.bytes + from, text.size - from);
}

static void add_beginning(struct buffer *to, struct slice text, unsigned columns)
{
	if (width_of(text) <= columns) {
		buffer_add_slice(to, text);
		return;
	}
	buffer_add(to, text.bytes, fold_bytes(text.bytes, text.size, columns > LEFT_OUT_WIDTH ? columns - LEFT_OUT_WIDTH : 0));
	buffer_add_text(to, LEFT_OUT);
}

void stat_names_add(struct buffer *to, struct slice name, struct slice key, unsigned columns)
{
	unsigned of_name = width_of(name), of_key = width_of(key);
	bool cut = key.size && columns && of_name + GAP + of_key > columns;
	size_t from = to->size;

	if (cut) {
		unsigned wanted = lesser(of_key, STAT_KEY_WIDTH);

		of_name = lesser(of_name, columns > GAP + wanted + LEAST ? columns - GAP - wanted : LEAST);
	}
	add_end(to, name, of_name);
	if (!key.size)
		return;
	/* What the name has left. */
	of_name = width_of((struct slice){to->bytes + from, to->size - from});
	if (cut)
		of_key = columns > GAP + of_name + LEAST ? columns - GAP - of_name : LEAST;
	buffer_add_text(to, "  ");
	add_beginning(to, key, of_key);
}
