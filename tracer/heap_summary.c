/* Counting the lines of a dump. See heap_summary.h. */

#include "heap_summary.h"

#include "buffer.h"

#include <stdlib.h>

/* An entry of its own for each number that a table has given; new ones are zeroed. */
static void *entry_at(void **entries, uint32_t *capacity, uint32_t number, size_t size)
{
	if (number >= *capacity) {
		uint32_t grown = *capacity ? *capacity * 2 : 64;

		*entries = memory_resize(*entries, grown * size);
		memset((char *)*entries + *capacity * size, 0, (grown - *capacity) * size);
		*capacity = grown;
	}
	return (char *)*entries + number * size;
}

static void tally_add(struct heap_tally *tally, const struct heap_line *line)
{
	tally->objects++;
	tally->bytes += line->memsize;
}

static bool type_is(const struct heap_line *line, const char *type)
{
	return line->type.size == strlen(type) && memcmp(line->type.bytes, type, line->type.size) == 0;
}

void heap_summary_add(struct heap_summary *summary, const struct heap_line *line)
{
	if (type_is(line, "ROOT")) {
		summary->roots++;
	} else if (type_is(line, "SHAPE")) {
		tally_add(&summary->shapes, line);
	} else if (type_is(line, "NONE")) {
		summary->free_slots++;
	} else {
		uint32_t type = heap_names_add(&summary->types, line->type);

		tally_add(&summary->total, line);
		tally_add(entry_at((void **)&summary->by_type, &summary->type_capacity, type, sizeof(*summary->by_type)), line);
	}
}

void heap_summary_free(struct heap_summary *summary)
{
	heap_names_free(&summary->types);
	free(summary->by_type);
	*summary = (struct heap_summary){0};
}
