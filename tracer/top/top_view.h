#ifndef RBPROBE_TOP_VIEW_H
#define RBPROBE_TOP_VIEW_H

#include "tracer/top/top_model.h"
#include "tracer/top/top_pane.h"
#include "tracer/top/top_process.h"

#include <stddef.h>
#include <stdint.h>

/* The screen of `rbprobe top`: processes above, the table or a pane below, a line about keys at the end. */

struct top_view {
	struct top_model *model; /* learns how many rows fit */
	struct top_pane *pane;
	const struct top_process *processes;
	size_t process_count;
	uint64_t interval_ns;
	const struct buffer *choice; /* how methods are chosen, where no selectors were given */
};

void top_view_draw(const struct top_view *view, uint64_t now_ns);

/* A row as text, of the columns in fit; for tests. */
void top_view_row(struct buffer *to, const struct top_row *row, uint32_t fit, bool apart);

#endif
