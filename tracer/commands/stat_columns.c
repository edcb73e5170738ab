/* Columns of figures, and the order of rows. See stat_columns.h. */

#include "tracer/commands/stat_columns.h"

#include "proto/wire.h"
#include "tracer/base/buffer.h"

#include <stdlib.h>
#include <string.h>

const struct stat_column_kind stat_column_kinds[STAT_COLUMNS] = {
	[STAT_CALLS] = {.name = "calls", .width = 10, .is_count = true},
	[STAT_RATE] = {.name = "rate", .json = "calls_per_s", .width = 9},
	[STAT_ERRORS] = {.name = "errors", .width = 8, .is_count = true},
	[STAT_TOTAL] = {.name = "total", .json = "total_ns", .width = 8},
	[STAT_SELF] = {.name = "self", .json = "self_ns", .width = 8},
	[STAT_CPU] = {.name = "cpu", .json = "cpu_ns", .width = 8, .measure = TRACE_CPU},
	[STAT_GC] = {.name = "gc", .json = "gc_ns", .width = 8, .measure = TRACE_GC},
	[STAT_ALLOCS] = {.name = "allocs", .json = "allocations", .width = 10, .is_count = true, .measure = TRACE_OBJECTS},
	[STAT_MEAN] = {.name = "mean", .json = "mean_ns", .width = 8},
	[STAT_MIN] = {.name = "min", .json = "min_ns", .width = 8},
	[STAT_P50] = {.name = "p50", .json = "p50_ns", .part = 0.5, .width = 8},
	[STAT_P90] = {.name = "p90", .json = "p90_ns", .part = 0.9, .width = 8},
	[STAT_P99] = {.name = "p99", .json = "p99_ns", .part = 0.99, .width = 8},
	[STAT_P999] = {.name = "p99.9", .json = "p99.9_ns", .part = 0.999, .width = 8},
	[STAT_MAX] = {.name = "max", .json = "max_ns", .width = 8},
	[STAT_METHOD] = {.name = "method"},
};

static enum stat_column column_of(const char *name)
{
	enum stat_column column = STAT_CALLS;

	while (column < STAT_COLUMNS && strcmp(stat_column_kinds[column].name, name) != 0)
		column++;
	return column;
}

bool stat_column_is(const char *name)
{
	return column_of(name) < STAT_COLUMNS;
}

uint32_t stat_column_measure(const char *name)
{
	return stat_column_kinds[column_of(name)].measure;
}

const char *const *stat_columns(void)
{
	static const char *words[STAT_COLUMNS + 1];

	for (enum stat_column column = 0; column < STAT_COLUMNS; column++)
		words[column] = stat_column_kinds[column].name;
	return words;
}

const char *const *stat_columns_of_recording(void)
{
	static const char *words[STAT_COLUMNS + 1];
	size_t count = 0;

	for (enum stat_column column = 0; column < STAT_COLUMNS; column++)
		if (!stat_column_kinds[column].measure && column != STAT_RATE)
			words[count++] = stat_column_kinds[column].name;
	return words;
}

double stat_column_figure(const struct stat_row *row, enum stat_column column)
{
	switch (column) {
	case STAT_CALLS:
		return (double)row->calls;
	case STAT_RATE:
		return row->rate;
	case STAT_ERRORS:
		return (double)row->errors;
	case STAT_TOTAL:
		return row->total_ns;
	case STAT_SELF:
		return row->self_ns;
	case STAT_CPU:
		return row->cpu_ns;
	case STAT_GC:
		return row->gc_ns;
	case STAT_ALLOCS:
		return row->objects;
	case STAT_MEAN:
		return stat_row_mean(row);
	case STAT_MIN:
		return row->min_ns;
	case STAT_MAX:
		return row->max_ns;
	case STAT_P50:
	case STAT_P90:
	case STAT_P99:
	case STAT_P999:
		return stat_row_quantile(row, stat_column_kinds[column].part);
	case STAT_METHOD:
	case STAT_COLUMNS:
		break;
	}
	return 0;
}

struct ranked {
	const struct stat_row *row;
	double figure;
};

static int compare(const void *one, const void *other)
{
	const struct ranked *a = one, *b = other;
	int order = (a->figure < b->figure) - (a->figure > b->figure);

	/* Rows are in the order of their names. */
	return order ? order : (a->row > b->row) - (a->row < b->row);
}

struct stat_line *stat_columns_rank(const struct stat_table *table, const struct stat_view *view, size_t *count)
{
	struct ranked *ranked = memory_zeroed((table->count + 1) * sizeof(*ranked));
	struct stat_line *lines = memory_zeroed((table->count + 1) * sizeof(*lines));
	enum stat_column column = column_of(view->sort);

	if (view->calls_only && column != STAT_METHOD && column != STAT_RATE)
		column = STAT_CALLS;
	for (size_t i = 0; i < table->count; i++)
		ranked[i] = (struct ranked){&table->rows[i], stat_column_figure(&table->rows[i], column)};
	qsort(ranked, table->count, sizeof(*ranked), compare);
	for (size_t i = 0; i < table->count; i++)
		lines[i].row = ranked[i].row;
	free(ranked);
	*count = view->top && view->top < table->count ? view->top : table->count;
	return lines;
}

bool stat_column_shown(enum stat_column column, const struct stat_view *view)
{
	if (stat_column_kinds[column].measure)
		return view->measures & stat_column_kinds[column].measure;
	if (column == STAT_RATE)
		return view->rates;
	return !view->calls_only || column == STAT_CALLS || column == STAT_METHOD;
}

bool stat_column_known(const struct stat_row *row, enum stat_column column)
{
	if (stat_column_kinds[column].measure)
		return row->measures & stat_column_kinds[column].measure;
	return column == STAT_CALLS || column == STAT_RATE || row->timed;
}

bool stat_column_sorts(enum stat_column column, const struct stat_view *view)
{
	return strcmp(stat_column_kinds[column].name, view->sort) == 0;
}
