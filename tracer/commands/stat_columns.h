#ifndef RBPROBE_STAT_COLUMNS_H
#define RBPROBE_STAT_COLUMNS_H

#include "tracer/commands/stat_report.h"

/* The columns of a table of figures, and its rows in the order in which they are shown. */

enum stat_column {
	STAT_CALLS,
	STAT_RATE, /* calls a second */
	STAT_ERRORS,
	STAT_TOTAL,
	STAT_SELF,
	STAT_CPU,
	STAT_GC,
	STAT_ALLOCS,
	STAT_MEAN,
	STAT_MIN,
	STAT_P50,
	STAT_P90,
	STAT_P99,
	STAT_P999,
	STAT_MAX,
	STAT_METHOD,
	STAT_COLUMNS,
};

struct stat_column_kind {
	const char *name;
	const char *json; /* of a time, and what is called otherwise there; NULL: the name */
	double part;      /* of a percentile */
	int width;
	bool is_count;
	uint32_t measure; /* there only if that was measured */
};

extern const struct stat_column_kind stat_column_kinds[STAT_COLUMNS];

/* Whether the view has it at all. */
bool stat_column_shown(enum stat_column column, const struct stat_view *view);
/* Whether its rows are sorted by it. */
bool stat_column_sorts(enum stat_column column, const struct stat_view *view);
/* Whether the process has told it. */
bool stat_column_known(const struct stat_row *row, enum stat_column column);
/* What it has in a row; 0 for the method's name. */
double stat_column_figure(const struct stat_row *row, enum stat_column column);

struct stat_line {
	const struct stat_row *row;
	size_t level; /* in a tree */
};

/* The rows to show, which are *count, and then all others, in their order; free() it. */
struct stat_line *stat_columns_rank(const struct stat_table *table, const struct stat_view *view, size_t *count);
/* The same where they are paths, below each other: those to show alone. */
struct stat_line *stat_tree_arrange(const struct stat_table *table, const struct stat_view *view, size_t *count);

#endif
