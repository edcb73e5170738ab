/* Figures as metrics for Prometheus. See stat_report.h. */

#include "tracer/commands/stat_columns.h"

#include <stdio.h>
#include <stdlib.h>

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
	enum stat_column column;
};

static void add_calls(struct buffer *to, const struct metric *metric, const struct stat_table *table, const struct stat_row *row)
{
	add_counter(to, metric->name, table, row, NULL, (double)row->calls);
}

/* Of each, so that who adds up the others sees which are not whole. */
static void add_let_go(struct buffer *to, const struct metric *metric, const struct stat_table *table, const struct stat_row *row)
{
	add_counter(to, metric->name, table, row, NULL, row->let_go);
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

static void add_measured(struct buffer *to, const struct metric *metric, const struct stat_table *table,
                         const struct stat_row *row)
{
	double unit = metric->column == STAT_ALLOCS ? 1 : 1e9;

	if (stat_column_known(row, metric->column))
		add_counter(to, metric->name, table, row, NULL, stat_column_figure(row, metric->column) / unit);
}

static const struct metric metrics[] = {
	{"rbprobe_method_calls_total", "counter", "Calls of a method.", add_calls, STAT_CALLS},
	{"rbprobe_method_let_go", "gauge",
         "1: later calls are in no figure, as counting them took more than --max-overhead allows.", add_let_go, STAT_CALLS},
	{"rbprobe_method_errors_total", "counter", "Calls that an exception left.", add_errors, STAT_ERRORS},
	{"rbprobe_method_self_seconds_total", "counter", "Time in a method, without that in counted methods inside.", add_self,
         STAT_SELF},
	{"rbprobe_method_cpu_seconds_total", "counter", "CPU time of the thread in calls of a method.", add_measured, STAT_CPU},
	{"rbprobe_method_gc_seconds_total", "counter", "Time in the garbage collector in calls of a method.", add_measured,
         STAT_GC},
	{"rbprobe_method_allocations_total", "counter", "Objects allocated in calls of a method.", add_measured, STAT_ALLOCS},
	{"rbprobe_method_duration_seconds", "summary", "How long calls of a method took.", add_durations, STAT_TOTAL},
};

void stat_report_prometheus(struct buffer *to, const struct stat_table *const *tables, size_t count, const struct stat_view *view)
{
	for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
		if (stat_column_kinds[metrics[i].column].measure && !stat_column_shown(metrics[i].column, view))
			continue;
		buffer_add_format(to, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help, metrics[i].name,
		                  metrics[i].type);
		for (size_t table = 0; table < count; table++) {
			size_t rows;
			struct stat_line *ranked = stat_columns_rank(tables[table], view, &rows);

			for (size_t row = 0; row < rows; row++)
				metrics[i].add(to, &metrics[i], tables[table], ranked[row].row);
			free(ranked);
		}
	}
}
