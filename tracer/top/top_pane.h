#ifndef RBPROBE_TOP_PANE_H
#define RBPROBE_TOP_PANE_H

#include "tracer/base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

/* Lines of text in the place of the table: help, callers, calls, source. Knows no terminal. */

#define TOP_PANE_LINES_MAX 5000u

enum top_pane_kind {
	TOP_PANE_NONE, /* the table is shown */
	TOP_PANE_HELP,
	TOP_PANE_CALLERS,
	TOP_PANE_FOLLOW,
	TOP_PANE_SOURCE,
};

struct top_pane {
	enum top_pane_kind kind;
	struct buffer title;
	struct buffer *lines; /* the oldest go where there are too many */
	size_t count;
	size_t first;  /* the line at the top */
	size_t height; /* lines on the screen */
	bool at_end;   /* what comes is seen */
	size_t marked; /* the number of a line that stands out; 0: none */
};

/* Empties it; then title and lines may be added. */
void top_pane_open(struct top_pane *pane, enum top_pane_kind kind);
void top_pane_close(struct top_pane *pane);
/* Its lines are made anew, and what is seen of them stays in its place. */
void top_pane_empty(struct top_pane *pane);
/* Printable text with line ends, perhaps more than one. */
void top_pane_add(struct top_pane *pane, struct slice text);
void top_pane_move(struct top_pane *pane, long lines);
void top_pane_set_height(struct top_pane *pane, size_t height);

#endif
