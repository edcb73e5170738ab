/* Lines in the place of the table. See top_pane.h. */

#include "tracer/top/top_pane.h"

#include <stdlib.h>
#include <string.h>

static size_t last_first(const struct top_pane *pane)
{
	return pane->count > pane->height ? pane->count - pane->height : 0;
}

void top_pane_empty(struct top_pane *pane)
{
	for (size_t i = 0; i < pane->count; i++)
		buffer_free(&pane->lines[i]);
	pane->count = 0;
	pane->marked = 0;
}

void top_pane_open(struct top_pane *pane, enum top_pane_kind kind)
{
	top_pane_empty(pane);
	pane->kind = kind;
	pane->title.size = 0;
	pane->first = 0;
	pane->at_end = kind == TOP_PANE_FOLLOW;
}

void top_pane_close(struct top_pane *pane)
{
	top_pane_empty(pane);
	free(pane->lines);
	buffer_free(&pane->title);
	*pane = (struct top_pane){.height = pane->height};
}

static void add_line(struct top_pane *pane, const char *bytes, size_t size)
{
	struct buffer *line;

	if (!pane->lines)
		pane->lines = memory_zeroed(TOP_PANE_LINES_MAX * sizeof(*pane->lines));
	if (pane->count == TOP_PANE_LINES_MAX) {
		buffer_free(&pane->lines[0]);
		memmove(pane->lines, pane->lines + 1, --pane->count * sizeof(*pane->lines));
		pane->first -= pane->first > 0;
		pane->marked -= pane->marked > 0;
	}
	line = &pane->lines[pane->count++];
	*line = (struct buffer){0};
	buffer_add(line, bytes, size);
}

void top_pane_add(struct top_pane *pane, struct slice text)
{
	while (text.size) {
		const char *end = memchr(text.bytes, '\n', text.size);
		size_t size = end ? (size_t)(end - text.bytes) : text.size;

		add_line(pane, text.bytes, size);
		size += end != NULL;
		text.bytes += size;
		text.size -= size;
	}
	if (pane->at_end)
		pane->first = last_first(pane);
}

void top_pane_move(struct top_pane *pane, long lines)
{
	size_t back = lines < 0 ? (size_t)-lines : 0, last = last_first(pane);

	if (lines < 0)
		pane->first = pane->first > back ? pane->first - back : 0;
	else
		pane->first = (size_t)lines > last || pane->first + (size_t)lines > last ? last : pane->first + (size_t)lines;
	pane->at_end = pane->kind == TOP_PANE_FOLLOW && pane->first == last;
}

void top_pane_set_height(struct top_pane *pane, size_t height)
{
	pane->height = height;
	if (pane->at_end || pane->first > last_first(pane))
		pane->first = last_first(pane);
}
