/* Progress of a heap dump. See dump_progress.h. */

#define _GNU_SOURCE
#include "tracer/heap/dump_progress.h"

#include "proto/clock.h"
#include "tracer/base/term.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 20

/* Bytes are compared sixteen at a time; a lane counts to 255. */
uint64_t dump_count_lines(const char *bytes, size_t size)
{
	typedef unsigned char lanes __attribute__((vector_size(16)));
	uint64_t count = 0;

	for (lanes block; size >= sizeof(block);) {
		lanes found = {0};

		for (int i = 0; i < UINT8_MAX && size >= sizeof(block); i++) {
			memcpy(&block, bytes, sizeof(block));
			found -= (lanes)(block == '\n');
			bytes += sizeof(block);
			size -= sizeof(block);
		}
		for (size_t i = 0; i < sizeof(found); i++)
			count += found[i];
	}
	while (size > 0)
		count += bytes[--size] == '\n';
	return count;
}

void dump_add_count(struct buffer *buffer, uint64_t count)
{
	char digits[32];
	int size = snprintf(digits, sizeof(digits), "%" PRIu64, count);

	for (int i = 0; i < size; i++) {
		if (i > 0 && (size - i) % 3 == 0)
			buffer_add_char(buffer, ',');
		buffer_add_char(buffer, digits[i]);
	}
}

void dump_add_size(struct buffer *buffer, uint64_t bytes)
{
	buffer_add_format(buffer, "%.1f MiB", (double)bytes / (1024 * 1024));
}

void dump_progress_begin(struct dump_progress *progress, bool wanted, uint64_t total)
{
	progress_line_begin(&progress->line, wanted);
	progress->total = total;
	progress->began_ns = clock_now_ns();
}

static void add_bar(struct buffer *line, double part)
{
	buffer_add_char(line, '[');
	for (int i = 0; i < BAR_WIDTH; i++)
		buffer_add_char(line, i < (int)(part * BAR_WIDTH) ? '#' : '-');
	buffer_add_text(line, "] ");
}

void dump_progress_update(struct dump_progress *progress, uint64_t done, uint64_t bytes)
{
	uint64_t now_ns = clock_now_ns();
	double seconds = (double)(now_ns - progress->began_ns) / 1e9;
	double part = progress->total ? (double)done / (double)progress->total : 0;
	unsigned width = term_width(STDERR_FILENO);
	struct buffer line = {0}, text = {0};

	if (now_ns < progress_line_due_ns(&progress->line))
		return;
	/* The total is that of the moment before the fork; roots and shapes come on top of it. */
	part = part > 1 ? 1 : part;
	buffer_add_format(&text, "%3.0f %%  ", 100 * part);
	dump_add_count(&text, done);
	buffer_add_text(&text, " of about ");
	dump_add_count(&text, progress->total);
	buffer_add_text(&text, " objects, ");
	dump_add_size(&text, bytes);
	buffer_add_format(&text, ", %.0f MiB/s", (double)bytes / (1024 * 1024) / seconds);
	if (part > 0.02)
		buffer_add_format(&text, ", %.0f s left", seconds / part - seconds);
	if (!width || text.size + BAR_WIDTH + 3 < width)
		add_bar(&line, part);
	buffer_add(&line, text.bytes, text.size);
	progress_line_show(&progress->line, &line);
	buffer_free(&text);
	buffer_free(&line);
}

void dump_progress_end(struct dump_progress *progress)
{
	progress_line_end(&progress->line);
}
