#ifndef RBPROBE_BROWSE_VIEW_H
#define RBPROBE_BROWSE_VIEW_H

#include "tracer/browse/browse_model.h"

/* The lines of `rbprobe report --tui`. */

#define BROWSE_LINES 3u /* that are no rows: title, heading, and the last one */

/* What it is of, and how it is sorted. about: the file and what is in it. */
void browse_view_title(const struct browse *browse, const char *about, struct buffer *to);
void browse_view_heading(const struct browse *browse, struct buffer *to);
/* Of the rows that are on the screen, the one with that number. */
void browse_view_row(const struct browse *browse, size_t number, struct buffer *to);
/* The last line: what is typed, what was said, or which keys there are. */
void browse_view_last(const struct browse *browse, struct buffer *to);

#endif
