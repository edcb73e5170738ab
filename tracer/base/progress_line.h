#ifndef RBPROBE_PROGRESS_LINE_H
#define RBPROBE_PROGRESS_LINE_H

#include "tracer/base/buffer.h"

#include <stdbool.h>
#include <stdint.h>

/* A line on a terminal's standard error that is written over again and again. Messages go where it stands, and push it down. */
struct progress_line {
	bool shown; /* it is wanted, and standard error is a terminal */
	uint64_t next_ns;
};

void progress_line_begin(struct progress_line *line, bool wanted);
/* When it is to be shown next; UINT64_MAX: never. */
uint64_t progress_line_due_ns(const struct progress_line *line);
/* Text of one line, cut to the terminal's width. */
void progress_line_show(struct progress_line *line, const struct buffer *text);
/* Takes the line away. */
void progress_line_end(struct progress_line *line);

#endif
