#ifndef RBPROBE_BROWSE_MODEL_H
#define RBPROBE_BROWSE_MODEL_H

#include "tracer/profile/profile_view.h"
#include "tracer/stream/stat_table.h"

#include "tracer/base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A tree of calls, of which parts are unfolded: what `rbprobe report --tui` shows. Knows no terminal. */

struct browse_node {
	uint32_t parent, first_child, next; /* by number; next and first_child: 0 is none */
	uint32_t level;                     /* 1: the outermost */
	struct slice name;                  /* its own */
	uint64_t calls, errors;
	double total, self; /* in the tree's unit */
	bool open;
};

enum browse_unit { BROWSE_NS, BROWSE_BYTES, BROWSE_OBJECTS };

enum browse_sort { BROWSE_TOTAL, BROWSE_SELF, BROWSE_CALLS, BROWSE_NAME };

struct browse {
	struct browse_node *nodes; /* 0: above all */
	uint32_t count, room;
	bool has_calls; /* a profile has none */
	enum browse_unit unit;
	double whole; /* of these */
	enum browse_sort sort;

	uint32_t *rows; /* those that are shown, from above */
	size_t row_count;
	size_t selected, first; /* rows: the one that is marked, and the first on the screen */
	size_t height;          /* rows of the screen */

	bool searching; /* the pattern is being typed */
	bool helping;
	struct buffer pattern;
	const char *said; /* about the last key; NULL: nothing */
};

/* Of a table by path (FIGURES_BY_PATH), and of a profile. Ends the program without memory, as buffers do. */
void browse_from_table(struct browse *browse, const struct stat_table *table);
void browse_from_profile(struct browse *browse, const struct profile *profile, enum profile_weight weight);
void browse_free(struct browse *browse);

void browse_set_height(struct browse *browse, size_t height);
/* NULL: there is no row at all. */
const struct browse_node *browse_selected(const struct browse *browse);

void browse_move(struct browse *browse, long rows);
/* Unfolds or folds the marked row; a folded one that is to be folded marks the row around it. */
void browse_open(struct browse *browse);
void browse_close(struct browse *browse);
void browse_toggle(struct browse *browse);
/* The row and those below it, with at most so many levels. */
void browse_open_below(struct browse *browse, uint32_t levels);
/* Along those that took most. */
void browse_open_hottest(struct browse *browse);
void browse_close_all(struct browse *browse);
void browse_sort_by(struct browse *browse, enum browse_sort sort);
/* The next row, or the one before, whose name has the pattern, wherever it is folded away; from the marked one on, or after. */
void browse_find(struct browse *browse, bool backwards, bool from_here);

#endif
