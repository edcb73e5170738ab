#ifndef RBPROBE_FIGURES_PARTS_H
#define RBPROBE_FIGURES_PARTS_H

#include "tracer/recording/figures.h"
#include "tracer/recording/recorded.h"
#include "tracer/recording/words.h"

#include "proto/histogram.h"

/* What figures.c and figures_table.c share. */

#define NO_ROW UINT32_MAX              /* there is no room for it */
#define NO_WANTED_ROW (UINT32_MAX - 1) /* nobody wants to know of it */

struct row {
	uint32_t name, around; /* numbers of words; by path, around is that row's number and 1, by caller the word's and 1 */
	uint64_t calls, errors, folded;
	double total_ns, self_ns, min_ns, max_ns;
	struct figure_spread spread;
	uint64_t *octaves[HISTOGRAM_OCTAVES]; /* NULL: no call in it */
};

struct figures {
	enum figures_by by;
	struct words words;
	struct row *rows;
	uint32_t row_count, row_room;
	uint32_t *places; /* an open hash of rows' numbers and 1; 0: free */
	uint32_t place_count;
	struct slowest *slowest;
	struct waits *waits; /* NULL: nobody asks */
	struct figures_choice choice;
	struct buffer values; /* of a call that ends */
	uint64_t memory;
	uint64_t left;
	struct recorded processes;
	uint64_t open, lost, left_out;
};

/* In `places`: that of such a row, or the free one where it would be. */
uint32_t figures_place(const struct figures *figures, uint32_t name, uint32_t around);

#endif
