/* Progress on a terminal. See progress_line.h. */

#include "tracer/base/progress_line.h"

#include "proto/clock.h"
#include "tracer/base/message.h"
#include "tracer/base/term.h"

#include <unistd.h>

#define INTERVAL_NS (100 * NS_PER_MS)

static const char clear[] = "\r\033[K";

static void show(const struct buffer *line)
{
	if (write(STDERR_FILENO, line->bytes, line->size) < 0)
		return; /* a terminal that is gone: what is done is what counts */
}

void progress_line_begin(struct progress_line *line, bool wanted)
{
	line->shown = wanted && isatty(STDERR_FILENO);
	line->next_ns = clock_now_ns() + INTERVAL_NS;
	if (line->shown)
		message_over_line(clear);
}

uint64_t progress_line_due_ns(const struct progress_line *line)
{
	return line->shown ? line->next_ns : UINT64_MAX;
}

void progress_line_show(struct progress_line *line, const struct buffer *text)
{
	unsigned width = term_width(STDERR_FILENO);
	struct buffer whole = {0};

	if (!line->shown)
		return;
	line->next_ns = clock_now_ns() + INTERVAL_NS;
	buffer_add_text(&whole, clear);
	/* A line that wraps could not be written over. */
	buffer_add(&whole, text->bytes, width && text->size >= width ? width - 1 : text->size);
	show(&whole);
	buffer_free(&whole);
}

void progress_line_end(struct progress_line *line)
{
	struct buffer nothing = {0};

	if (!line->shown)
		return;
	progress_line_show(line, &nothing);
	message_over_line(NULL);
	line->shown = false;
}
