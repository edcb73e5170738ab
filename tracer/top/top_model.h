#ifndef RBPROBE_TOP_MODEL_H
#define RBPROBE_TOP_MODEL_H

#include "tracer/base/buffer.h"
#include "tracer/stream/stat_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What the table of `rbprobe top` shows: rows in their order, of which some are on the screen, one is selected, and some are
 * left out by a filter. Knows no terminal.
 */

enum top_column {
	TOP_RATE,
	TOP_CALLS,
	TOP_ERRORS,
	TOP_TOTAL,
	TOP_SELF,
	TOP_MEAN,
	TOP_P99,
	TOP_MAX,
	TOP_METHOD,
	TOP_COLUMNS,
};

struct top_row {
	pid_t pid;                   /* 0: of all processes together */
	const struct stat_row *stat; /* the model's */
	double rate;                 /* calls a second */
	double figure;               /* what it is sorted by */
};

struct top_model {
	/* what the user has chosen */
	enum top_column sort;
	bool reverse;
	bool since_start; /* figures since the start; else those of the last interval */
	bool apart;       /* a row for each process; else processes are added up */
	bool paused;      /* nothing new is asked for */
	bool filtering;   /* the user types a filter */
	struct buffer filter;
	/* what is shown */
	struct top_row *rows;
	size_t count;
	size_t left_out; /* rows, by the filter */
	size_t selected; /* below count, or 0 */
	size_t first;    /* the row that is shown at the top */
	size_t height;   /* rows on the screen */
	/* private */
	struct stat_table *tables;
	size_t table_count;
	struct buffer selected_name; /* the selection stays with its method; empty: with the first place */
	pid_t selected_pid;
};

struct top_column_form {
	const char *name;
	char key; /* of the keyboard: sort by it */
	int width;
	int rank; /* those with a high one are left out first where the screen is narrow */
};

extern const struct top_column_form top_columns[TOP_COLUMNS];

/* A word of the command line; TOP_COLUMNS: there is no such column. */
enum top_column top_column_find(const char *name);
/* Those of all, up to a NULL. */
const char *const *top_column_names(void);

/* The figures of count processes: copies are taken, and added up if need be. */
void top_model_set(struct top_model *model, const struct stat_table *const *tables, size_t count);

/* After a change of what the user has chosen. */
void top_model_arrange(struct top_model *model);

/* Moves the selection by so many rows, as far as there are some. */
void top_model_move(struct top_model *model, long rows);
/* The columns to the left and right of the one that it is sorted by. */
void top_model_sort_by(struct top_model *model, enum top_column column);
void top_model_set_height(struct top_model *model, size_t height);

/* A character, of several bytes perhaps, that was typed into the filter; and the last one taken away. */
void top_model_filter_add(struct top_model *model, const char *bytes, size_t size);
void top_model_filter_remove(struct top_model *model);
void top_model_filter_clear(struct top_model *model);

/* The selected row, or NULL. */
const struct top_row *top_model_selected(const struct top_model *model);

/* What stands in a column that is no name: "1.23ms", "-". */
void top_row_text(const struct top_row *row, enum top_column column, char text[32]);

/* Which columns fit where so many are there for a row with a name of at least 30; a bit for each. */
uint32_t top_columns_that_fit(size_t columns, enum top_column sort);

void top_model_free(struct top_model *model);

#endif
