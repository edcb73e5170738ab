/* Figures for people and for programs. See stat_report.h. */

#include "tracer/commands/stat_report.h"

#include "tracer/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR_WIDTH 40

enum column { CALLS, ERRORS, TOTAL, SELF, MEAN, MIN, P50, P90, P99, P999, MAX, METHOD, COLUMNS };

static const struct {
	const char *name;
	const char *json; /* what is no time has the name itself */
	double part;
	int width;
} columns[COLUMNS] = {
	[CALLS] = {.name = "calls", .width = 10},
	[ERRORS] = {.name = "errors", .width = 8},
	[TOTAL] = {.name = "total", .json = "total_ns", .width = 8},
	[SELF] = {.name = "self", .json = "self_ns", .width = 8},
	[MEAN] = {.name = "mean", .json = "mean_ns", .width = 8},
	[MIN] = {.name = "min", .json = "min_ns", .width = 8},
	[P50] = {.name = "p50", .json = "p50_ns", .part = 0.5, .width = 8},
	[P90] = {.name = "p90", .json = "p90_ns", .part = 0.9, .width = 8},
	[P99] = {.name = "p99", .json = "p99_ns", .part = 0.99, .width = 8},
	[P999] = {.name = "p99.9", .json = "p99.9_ns", .part = 0.999, .width = 8},
	[MAX] = {.name = "max", .json = "max_ns", .width = 8},
	[METHOD] = {.name = "method"},
};

/* What is too large for a number of this type is the largest. */
static uint64_t whole(double number)
{
	return number < 0x1p63 ? (uint64_t)(number + 0.5) : number < 0x1p64 ? (uint64_t)number : UINT64_MAX;
}

static enum column column_of(const char *name)
{
	enum column column = CALLS;

	while (column < COLUMNS && strcmp(columns[column].name, name) != 0)
		column++;
	return column;
}

bool stat_column_is(const char *name)
{
	return column_of(name) < COLUMNS;
}

const char *stat_columns(void)
{
	return "calls, errors, total, self, mean, min, p50, p90, p99, p99.9, max or method";
}

/* What a column has in a row; 0 for its name. */
static double figure(const struct stat_row *row, enum column column)
{
	switch (column) {
	case CALLS:
		return (double)row->calls;
	case ERRORS:
		return (double)row->errors;
	case TOTAL:
		return row->total_ns;
	case SELF:
		return row->self_ns;
	case MEAN:
		return stat_row_mean(row);
	case MIN:
		return row->min_ns;
	case MAX:
		return row->max_ns;
	case P50:
	case P90:
	case P99:
	case P999:
		return stat_row_quantile(row, columns[column].part);
	case METHOD:
	case COLUMNS:
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

/* The rows to show, in their order; free() it. */
static struct ranked *rank(const struct stat_table *table, const struct stat_view *view, size_t *count)
{
	struct ranked *ranked = memory_zeroed((table->count + 1) * sizeof(*ranked));
	enum column column = column_of(view->sort);

	if (view->calls_only && column != METHOD)
		column = CALLS;
	for (size_t i = 0; i < table->count; i++)
		ranked[i] = (struct ranked){&table->rows[i], figure(&table->rows[i], column)};
	qsort(ranked, table->count, sizeof(*ranked), compare);
	*count = view->top && view->top < table->count ? view->top : table->count;
	return ranked;
}

/* --- Text */

/* Three digits and a unit: "1.23ms". */
static void time_text(char text[16], double ns)
{
	static const struct {
		double ns;
		const char *name;
	} units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
	size_t unit = 0;
	double number;

	/* What would be rounded up to 1000 of a unit is 1 of the next. */
	while (unit < 3 && ns < units[unit].ns * 0.9995)
		unit++;
	number = ns / units[unit].ns;
	snprintf(text, 16, "%.*f%s",
	         unit == 3 || number >= 99.95 ? 0
	         : number >= 9.995            ? 1
	                                      : 2,
	         number < 1e9 ? number : 1e9, units[unit].name);
}

static bool is_shown(enum column column, const struct stat_view *view)
{
	return !view->calls_only || column == CALLS || column == METHOD;
}

static void add_headings(struct buffer *to, const struct stat_view *view)
{
	for (enum column column = CALLS; column < METHOD; column++)
		if (is_shown(column, view))
			buffer_add_format(to, "%*s", columns[column].width, columns[column].name);
	buffer_add_text(to, "  method");
	if (view->by)
		buffer_add_format(to, "  %s", view->by);
	buffer_add_char(to, '\n');
}

static void add_row(struct buffer *to, const struct stat_row *row, const struct stat_view *view)
{
	for (enum column column = CALLS; column < METHOD; column++) {
		char text[32] = "-";

		if (!is_shown(column, view))
			continue;
		if (column == CALLS || (column == ERRORS && row->timed))
			snprintf(text, sizeof(text), "%.0f", figure(row, column));
		else if (row->timed)
			time_text(text, figure(row, column));
		buffer_add_format(to, "%*s", columns[column].width, text);
	}
	buffer_add_text(to, "  ");
	buffer_add_slice(to, row->name);
	if (view->by) {
		buffer_add_text(to, row->key.size ? "  " : "  (others)");
		buffer_add_slice(to, row->key);
	}
	buffer_add_char(to, '\n');
}

/* Buckets are joined four by four, so that an octave has eight lines at most. */
static void add_histogram(struct buffer *to, const struct stat_row *row)
{
	uint64_t most = 0;

	for (int drawn = 0; drawn < 2; drawn++)
		for (size_t i = 0; i < row->bucket_count;) {
			size_t next = i;
			uint64_t count = 0;
			char least[16], limit[16];

			while (next < row->bucket_count && row->buckets[next].number / 4 == row->buckets[i].number / 4)
				count += row->buckets[next++].count;
			if (drawn && most) {
				size_t bar = (size_t)((count * BAR_WIDTH + most - 1) / most);

				time_text(least, row->buckets[i].least_ns);
				time_text(limit, row->buckets[next - 1].most_ns);
				buffer_add_format(to, "    %8s to %8s %10llu ", least, limit, (unsigned long long)count);
				for (size_t k = 0; k < bar; k++)
					buffer_add_char(to, '#');
				buffer_add_char(to, '\n');
			} else if (count > most) {
				most = count;
			}
			i = next;
		}
}

static size_t methods_of(const struct stat_table *table)
{
	size_t methods = 0;

	for (size_t i = 0; i < table->count; i++) {
		const struct slice *name = &table->rows[i].name, *before = i ? &table->rows[i - 1].name : NULL;

		methods += !before || before->size != name->size || memcmp(before->bytes, name->bytes, name->size) != 0;
	}
	return methods;
}

static void add_title(struct buffer *to, const struct stat_table *table, size_t shown, uint64_t interval)
{
	uint64_t calls = stat_table_calls(table) - table->open;
	size_t methods = methods_of(table);

	if (table->pid)
		buffer_add_format(to, "process %d", (int)table->pid);
	else
		buffer_add_format(to, "%u process%s", table->processes, table->processes == 1 ? "" : "es");
	buffer_add_format(to, ", %s%.1f s: %llu call%s", interval ? "last " : "", (double)table->elapsed_ns / 1e9,
	                  (unsigned long long)calls, calls == 1 ? "" : "s");
	if (methods)
		buffer_add_format(to, " of %zu method%s", methods, methods == 1 ? "" : "s");
	if (shown < table->count)
		buffer_add_format(to, ", %zu %sshown", shown, methods < table->count ? "rows " : "");
	if (table->open)
		buffer_add_format(to, "; %llu more %s not ended", (unsigned long long)table->open,
		                  table->open == 1 ? "has" : "have");
	buffer_add_char(to, '\n');
}

static void add_remarks(struct buffer *to, const struct stat_table *table)
{
	uint64_t unplaced = 0;

	for (size_t i = 0; i < table->count; i++)
		unplaced += table->rows[i].unplaced;
	if (unplaced)
		buffer_add_format(to,
		                  "percentiles are without %llu calls: the memory for histograms is full; select fewer methods\n",
		                  (unsigned long long)unplaced);
}

void stat_report_text(struct buffer *to, const struct stat_table *table, const struct stat_view *view, uint64_t interval)
{
	size_t count;
	struct ranked *ranked = rank(table, view, &count);

	add_title(to, table, count, interval);
	if (count)
		add_headings(to, view);
	for (size_t i = 0; i < count; i++) {
		add_row(to, ranked[i].row, view);
		if (view->histogram)
			add_histogram(to, ranked[i].row);
	}
	add_remarks(to, table);
	free(ranked);
}

/* --- JSON */

static void begin_line(struct buffer *to, const char *type, const struct stat_table *table, uint64_t interval)
{
	json_open_object(to);
	json_member_string(to, "type", type);
	if (table->pid)
		json_member_uint(to, "pid", (uint64_t)table->pid);
	else
		json_member_uint(to, "processes", table->processes);
	if (interval)
		json_member_uint(to, "interval", interval);
}

static void add_json_row(struct buffer *to, const struct stat_row *row, const struct stat_view *view)
{
	json_member_text(to, "method", row->name);
	if (view->by && row->key.size)
		json_member_text(to, view->by, row->key);
	json_member_uint(to, "calls", row->calls);
	if (!row->timed)
		return;
	json_member_uint(to, "errors", row->errors);
	for (enum column column = TOTAL; column < METHOD; column++)
		json_member_uint(to, columns[column].json, whole(figure(row, column)));
	if (row->unplaced)
		json_member_uint(to, "unplaced", row->unplaced);
	if (!view->histogram)
		return;
	json_open_array(json_key(to, "histogram"));
	for (size_t i = 0; i < row->bucket_count; i++) {
		json_open_array(to);
		json_add_uint(to, whole(row->buckets[i].least_ns));
		json_add_uint(to, whole(row->buckets[i].most_ns));
		json_add_uint(to, row->buckets[i].count);
		json_close_array(to);
	}
	json_close_array(to);
}

void stat_report_json(struct buffer *to, const struct stat_table *table, const struct stat_view *view, uint64_t interval,
                      const char *reason)
{
	size_t count;
	struct ranked *ranked = rank(table, view, &count);

	for (size_t i = 0; i < count; i++) {
		begin_line(to, "method", table, interval);
		add_json_row(to, ranked[i].row, view);
		json_close_line(to);
	}
	begin_line(to, "summary", table, interval);
	json_member_uint(to, "methods", methods_of(table));
	json_member_uint(to, "calls", stat_table_calls(table) - table->open);
	json_member_uint(to, "open", table->open);
	json_member_uint(to, "left_out", table->left_out);
	json_member_uint(to, "lost", table->lost);
	json_member_uint(to, "duration_ns", table->elapsed_ns);
	if (reason)
		json_member_string(to, "reason", reason);
	json_close_line(to);
	free(ranked);
}

/* --- Prometheus */

static void add_label(struct buffer *to, struct slice text)
{
	for (size_t i = 0; i < text.size; i++) {
		if (text.bytes[i] == '"' || text.bytes[i] == '\\')
			buffer_add_char(to, '\\');
		buffer_add_char(to, text.bytes[i]);
	}
}

static void add_labels(struct buffer *to, const struct stat_table *table, const struct stat_row *row, const char *quantile)
{
	buffer_add_char(to, '{');
	if (table->pid)
		buffer_add_format(to, "pid=\"%d\",", (int)table->pid);
	buffer_add_text(to, "method=\"");
	add_label(to, row->name);
	buffer_add_char(to, '"');
	if (row->key.size) {
		buffer_add_text(to, ",key=\"");
		add_label(to, row->key);
		buffer_add_char(to, '"');
	}
	if (quantile)
		buffer_add_format(to, ",quantile=\"%s\"", quantile);
	buffer_add_char(to, '}');
}

static void add_counter(struct buffer *to, const char *name, const struct stat_table *table, const struct stat_row *row,
                        const char *quantile, double number)
{
	buffer_add_text(to, name);
	add_labels(to, table, row, quantile);
	buffer_add_format(to, " %.17g\n", number);
}

struct metric {
	const char *name, *type, *help;
	void (*add)(struct buffer *to, const struct metric *metric, const struct stat_table *table, const struct stat_row *row);
};

static void add_calls(struct buffer *to, const struct metric *metric, const struct stat_table *table, const struct stat_row *row)
{
	add_counter(to, metric->name, table, row, NULL, (double)row->calls);
}

static void add_errors(struct buffer *to, const struct metric *metric, const struct stat_table *table, const struct stat_row *row)
{
	if (row->timed)
		add_counter(to, metric->name, table, row, NULL, (double)row->errors);
}

static void add_self(struct buffer *to, const struct metric *metric, const struct stat_table *table, const struct stat_row *row)
{
	if (row->timed)
		add_counter(to, metric->name, table, row, NULL, row->self_ns / 1e9);
}

static void add_durations(struct buffer *to, const struct metric *metric, const struct stat_table *table,
                          const struct stat_row *row)
{
	static const char *const quantiles[] = {"0.5", "0.9", "0.99", "0.999"};
	char name[64];

	if (!row->timed)
		return;
	for (size_t i = 0; i < sizeof(quantiles) / sizeof(*quantiles); i++)
		add_counter(to, metric->name, table, row, quantiles[i], stat_row_quantile(row, atof(quantiles[i])) / 1e9);
	snprintf(name, sizeof(name), "%s_sum", metric->name);
	add_counter(to, name, table, row, NULL, row->total_ns / 1e9);
	snprintf(name, sizeof(name), "%s_count", metric->name);
	add_counter(to, name, table, row, NULL, (double)row->calls);
}

static const struct metric metrics[] = {
	{"rbprobe_method_calls_total", "counter", "Calls of a method.", add_calls},
	{"rbprobe_method_errors_total", "counter", "Calls that an exception left.", add_errors},
	{"rbprobe_method_self_seconds_total", "counter", "Time in a method, without that in counted methods inside.", add_self},
	{"rbprobe_method_duration_seconds", "summary", "How long calls of a method took.", add_durations},
};

void stat_report_prometheus(struct buffer *to, const struct stat_table *const *tables, size_t count, const struct stat_view *view)
{
	for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
		buffer_add_format(to, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help, metrics[i].name,
		                  metrics[i].type);
		for (size_t table = 0; table < count; table++) {
			size_t rows;
			struct ranked *ranked = rank(tables[table], view, &rows);

			for (size_t row = 0; row < rows; row++)
				metrics[i].add(to, &metrics[i], tables[table], ranked[row].row);
			free(ranked);
		}
	}
}
