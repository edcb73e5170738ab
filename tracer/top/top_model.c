/* The table of `rbprobe top`, without a terminal. See top_model.h. */

#include "tracer/top/top_model.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LEAST 30

const struct top_column_form top_columns[TOP_COLUMNS] = {
	[TOP_RATE] = {.name = "calls/s", .key = 'C', .width = 9, .rank = 2},
	[TOP_CALLS] = {.name = "calls", .key = 'N', .width = 10, .rank = 6},
	[TOP_ERRORS] = {.name = "errors", .key = 'E', .width = 8, .rank = 3},
	[TOP_TOTAL] = {.name = "total", .key = 'T', .width = 8, .rank = 1},
	[TOP_SELF] = {.name = "self", .key = 'S', .width = 8, .rank = 2},
	[TOP_MEAN] = {.name = "mean", .key = 'A', .width = 8, .rank = 4},
	[TOP_P99] = {.name = "p99", .key = 'P', .width = 8, .rank = 5},
	[TOP_MAX] = {.name = "max", .key = 'X', .width = 8, .rank = 7},
	[TOP_METHOD] = {.name = "method", .key = 'M'},
};

enum top_column top_column_find(const char *name)
{
	enum top_column column = TOP_RATE;

	while (column < TOP_COLUMNS && strcmp(top_columns[column].name, name) != 0)
		column++;
	return column;
}

const char *const *top_column_names(void)
{
	static const char *names[TOP_COLUMNS + 1];

	for (enum top_column column = 0; column < TOP_COLUMNS; column++)
		names[column] = top_columns[column].name;
	return names;
}

/* --- Figures */

static double figure(const struct top_row *row, enum top_column column)
{
	const struct stat_row *stat = row->stat;

	switch (column) {
	case TOP_RATE:
		return row->rate;
	case TOP_CALLS:
		return (double)stat->calls;
	case TOP_ERRORS:
		return (double)stat->errors;
	case TOP_TOTAL:
		return stat->total_ns;
	case TOP_SELF:
		return stat->self_ns;
	case TOP_MEAN:
		return stat_row_mean(stat);
	case TOP_P99:
		return stat_row_quantile(stat, 0.99);
	case TOP_MAX:
		return stat->max_ns;
	case TOP_METHOD:
	case TOP_COLUMNS:
		break;
	}
	return 0;
}

void top_row_text(const struct top_row *row, enum top_column column, char text[32])
{
	double number = figure(row, column);

	if (column == TOP_RATE)
		snprintf(text, 32, number < 99.95 ? "%.1f" : "%.0f", number);
	else if (column == TOP_CALLS || (column == TOP_ERRORS && row->stat->timed))
		snprintf(text, 32, "%.0f", number);
	else if (row->stat->timed)
		stat_time_text(text, number);
	else
		memcpy(text, "-", 2);
}

uint32_t top_columns_that_fit(size_t columns, enum top_column sort)
{
	uint32_t fit = (1u << TOP_COLUMNS) - 1;
	size_t used = 2 + NAME_LEAST;

	for (int column = 0; column < TOP_METHOD; column++)
		used += (size_t)top_columns[column].width;
	while (used > columns) {
		int worst = -1;

		for (int column = 0; column < TOP_METHOD; column++)
			if (fit & 1u << column && column != (int)sort &&
			    (worst < 0 || top_columns[column].rank > top_columns[worst].rank))
				worst = column;
		if (worst < 0)
			break;
		fit &= ~(1u << worst);
		used -= (size_t)top_columns[worst].width;
	}
	return fit;
}

/* --- The order */

static int compare_names(struct slice a, struct slice b)
{
	int order = memcmp(a.bytes, b.bytes, a.size < b.size ? a.size : b.size);

	return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* The largest first; where they are equal, by name and process. */
static int compare(const void *one, const void *other)
{
	const struct top_row *a = one, *b = other;
	int order = (a->figure < b->figure) - (a->figure > b->figure);

	if (!order)
		order = compare_names(a->stat->name, b->stat->name);
	return order ? order : (a->pid > b->pid) - (a->pid < b->pid);
}

static bool contains(struct slice text, const struct buffer *part)
{
	for (size_t from = 0; from + part->size <= text.size; from++) {
		size_t same = 0;

		while (same < part->size &&
		       tolower((unsigned char)text.bytes[from + same]) == tolower((unsigned char)part->bytes[same]))
			same++;
		if (same == part->size)
			return true;
	}
	return false;
}

static double rate(const struct stat_row *row, const struct stat_table *table)
{
	uint64_t counted_ns = row->counted_ns ? row->counted_ns : table->elapsed_ns;

	return counted_ns ? (double)row->calls / ((double)counted_ns / 1e9) : 0;
}

static void collect(struct top_model *model)
{
	size_t room = 1;

	for (size_t i = 0; i < model->table_count; i++)
		room += model->tables[i].count;
	model->rows = memory_resize(model->rows, room * sizeof(*model->rows));
	model->count = model->left_out = 0;
	for (size_t i = 0; i < model->table_count; i++) {
		const struct stat_table *table = &model->tables[i];
		for (size_t k = 0; k < table->count; k++) {
			struct top_row row = {.pid = table->pid, .stat = &table->rows[k]};

			if (!contains(row.stat->name, &model->filter)) {
				model->left_out++;
				continue;
			}
			row.rate = rate(row.stat, table);
			row.figure = figure(&row, model->sort);
			model->rows[model->count++] = row;
		}
	}
}

static void reverse(struct top_model *model)
{
	for (size_t i = 0; 2 * i + 1 < model->count; i++) {
		struct top_row row = model->rows[i];

		model->rows[i] = model->rows[model->count - 1 - i];
		model->rows[model->count - 1 - i] = row;
	}
}

/* --- The selection */

static void see_selected(struct top_model *model)
{
	size_t height = model->height ? model->height : 1;

	if (model->selected >= model->count)
		model->selected = model->count ? model->count - 1 : 0;
	if (model->first > model->selected)
		model->first = model->selected;
	if (model->selected >= model->first + height)
		model->first = model->selected + 1 - height;
	if (model->first && model->first + height > model->count)
		model->first = model->count > height ? model->count - height : 0;
}

static void remember_selected(struct top_model *model)
{
	const struct top_row *row = top_model_selected(model);

	model->selected_name.size = 0;
	if (!row || model->selected == 0)
		return;
	buffer_add_slice(&model->selected_name, row->stat->name);
	model->selected_pid = row->pid;
}

static bool is_selected(const struct top_model *model, const struct top_row *row)
{
	struct slice name = {model->selected_name.bytes, model->selected_name.size};

	return row->pid == model->selected_pid && compare_names(row->stat->name, name) == 0;
}

void top_model_arrange(struct top_model *model)
{
	collect(model);
	qsort(model->rows, model->count, sizeof(*model->rows), compare);
	if (model->reverse)
		reverse(model);
	if (!model->selected_name.size)
		model->selected = 0;
	for (size_t i = 0; model->selected_name.size && i < model->count; i++)
		if (is_selected(model, &model->rows[i]))
			model->selected = i;
	see_selected(model);
}

void top_model_move(struct top_model *model, long rows)
{
	size_t back = rows < 0 ? (size_t)-rows : 0;

	if (rows < 0)
		model->selected = model->selected > back ? model->selected - back : 0;
	else
		model->selected += (size_t)rows;
	see_selected(model);
	remember_selected(model);
}

void top_model_sort_by(struct top_model *model, enum top_column column)
{
	model->sort = column;
	top_model_arrange(model);
}

void top_model_set_height(struct top_model *model, size_t height)
{
	model->height = height;
	see_selected(model);
}

const struct top_row *top_model_selected(const struct top_model *model)
{
	return model->selected < model->count ? &model->rows[model->selected] : NULL;
}

/* --- The filter */

void top_model_filter_add(struct top_model *model, const char *bytes, size_t size)
{
	if (model->filter.size + size > 200)
		return;
	buffer_add(&model->filter, bytes, size);
	top_model_arrange(model);
}

void top_model_filter_remove(struct top_model *model)
{
	while (model->filter.size && ((unsigned char)model->filter.bytes[--model->filter.size] & 0xc0) == 0x80)
		;
	top_model_arrange(model);
}

void top_model_filter_clear(struct top_model *model)
{
	model->filter.size = 0;
	model->filtering = false;
	top_model_arrange(model);
}

/* --- New figures */

static void forget_tables(struct top_model *model)
{
	for (size_t i = 0; i < model->table_count; i++)
		stat_table_free(&model->tables[i]);
	model->table_count = 0;
	model->count = 0;
}

void top_model_set(struct top_model *model, const struct stat_table *const *tables, size_t count)
{
	forget_tables(model);
	model->tables = memory_resize(model->tables, (count + 1) * sizeof(*model->tables));
	for (size_t i = 0; i < count; i++) {
		if (i == 0 || model->apart)
			model->tables[model->table_count++] = (struct stat_table){.pid = model->apart ? tables[i]->pid : 0};
		stat_table_sum(&model->tables[model->table_count - 1], tables[i]);
	}
	top_model_arrange(model);
}

void top_model_free(struct top_model *model)
{
	forget_tables(model);
	free(model->tables);
	free(model->rows);
	buffer_free(&model->filter);
	buffer_free(&model->selected_name);
	*model = (struct top_model){0};
}
