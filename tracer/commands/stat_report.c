/* Figures for people and for programs. See stat_report.h. */

#include "tracer/commands/stat_report.h"

#include "tracer/base/json.h"
#include "tracer/commands/stat_columns.h"
#include "tracer/commands/stat_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BAR_WIDTH 40
#define INDENT 3
#define INDENTS_MAX 64 /* a process that has deeper trees is none of ours */

/* --- Text */

/* The columns that text has; of those that are not asked for by name, in a tree but a few, and as many as fit. */
struct layout {
	bool drawn[STAT_METHOD];
	unsigned left; /* for names and keys; 0: as much as they take */
};

/* What the longest name takes, up to a limit: longer ones go into the next line of the terminal, or are cut. */
static unsigned width_of_names(const struct stat_line *lines, size_t count, const struct stat_view *view)
{
	unsigned most = 0;

	for (size_t i = 0; i < count; i++) {
		const struct stat_row *row = lines[i].row;
		unsigned width = stat_names_width(row->name, view->tree ? (struct slice){NULL, 0} : row->key);

		if (view->tree)
			width += INDENT * (unsigned)(lines[i].level < INDENTS_MAX ? lines[i].level : INDENTS_MAX);
		width = view->tree && width > STAT_NAME_WIDTH ? STAT_NAME_WIDTH : width;
		most = width > most ? width : most;
	}
	return 2 + most;
}

static struct layout lay_out(const struct stat_line *lines, size_t count, const struct stat_view *view)
{
	/* The one that is missed least comes first. */
	static const enum stat_column spare[] = {STAT_MIN,  STAT_P90, STAT_P999, STAT_P50,
	                                         STAT_MEAN, STAT_MAX, STAT_P99,  STAT_ERRORS};
	unsigned width = width_of_names(lines, count, view), names = width;
	struct layout layout;

	for (enum stat_column column = STAT_CALLS; column < STAT_METHOD; column++) {
		layout.drawn[column] =
			stat_column_shown(column, view) && (!view->tree || column < STAT_MEAN || stat_column_sorts(column, view));
		width += layout.drawn[column] ? (unsigned)stat_column_kinds[column].width : 0;
	}
	for (size_t i = 0; view->width && i < sizeof(spare) / sizeof(*spare) && width > view->width; i++) {
		if (!layout.drawn[spare[i]] || stat_column_sorts(spare[i], view))
			continue;
		layout.drawn[spare[i]] = false;
		width -= (unsigned)stat_column_kinds[spare[i]].width;
	}
	width += 2 - names;
	layout.left = !view->by || view->tree || view->whole || !view->width ? 0 : view->width > width ? view->width - width : 1;
	return layout;
}

static void rate_text(char text[16], double rate)
{
	snprintf(text, 16, rate < 9.995 ? "%.2f/s" : rate < 99.95 ? "%.1f/s" : "%.0f/s", rate < 1e9 ? rate : 1e9);
}

static void add_headings(struct buffer *to, const struct layout *layout, const struct stat_view *view)
{
	for (enum stat_column column = STAT_CALLS; column < STAT_METHOD; column++)
		if (layout->drawn[column])
			buffer_add_format(to, "%*s", stat_column_kinds[column].width, stat_column_kinds[column].name);
	buffer_add_text(to, "  method");
	if (view->by) {
		buffer_add_text(to, "  ");
		buffer_add_printable(to, view->by_title, strlen(view->by_title));
	}
	buffer_add_char(to, '\n');
}

/* Of a method that was let go. */
static void let_go_mark(char *mark, size_t size, const struct stat_row *row)
{
	if (row->let_go && row->let_go_ns)
		snprintf(mark, size, "  (let go after %.1f s)", (double)row->let_go_ns / 1e9);
	else
		snprintf(mark, size, "%s", row->let_go ? "  (let go)" : "");
}

static void add_row(struct buffer *to, const struct stat_line *line, const struct layout *layout, const struct stat_view *view)
{
	const struct stat_row *row = line->row;
	const char *none = view->by_none ? view->by_none : "(others)";
	struct slice key = !view->by ? (struct slice){NULL, 0} : row->key.size ? row->key : (struct slice){none, strlen(none)};
	char mark[48];

	for (enum stat_column column = STAT_CALLS; column < STAT_METHOD; column++) {
		char text[32] = "-";

		if (!layout->drawn[column])
			continue;
		if (row->let_go && !row->calls)
			; /* whether there were any is not known */
		else if (stat_column_known(row, column) && stat_column_kinds[column].is_count)
			snprintf(text, sizeof(text), "%.0f", stat_column_figure(row, column));
		else if (column == STAT_RATE)
			rate_text(text, stat_column_figure(row, column));
		else if (stat_column_known(row, column))
			stat_time_text(text, stat_column_figure(row, column));
		buffer_add_format(to, "%*s", stat_column_kinds[column].width, text);
	}
	buffer_add_format(to, "%*s", 2 + INDENT * (int)(line->level < INDENTS_MAX ? line->level : INDENTS_MAX), "");
	let_go_mark(mark, sizeof(mark), row);
	stat_names_add(to, row->name, key, layout->left > strlen(mark) ? layout->left - strlen(mark) : layout->left != 0);
	buffer_add_text(to, mark);
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

				stat_time_text(least, row->buckets[i].least_ns);
				stat_time_text(limit, row->buckets[next - 1].most_ns);
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

/* Those that were let go. */
static size_t let_go_of(const struct stat_table *table)
{
	struct stat_table let_go = {.rows = memory_resize(NULL, (table->count + 1) * sizeof(*table->rows))};
	size_t methods;

	for (size_t i = 0; i < table->count; i++)
		if (table->rows[i].let_go)
			let_go.rows[let_go.count++] = table->rows[i];
	methods = methods_of(&let_go);
	free(let_go.rows);
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
	if (table->outdated)
		buffer_add_format(to, "; the last known figures%s", table->pid ? "" : " of those that were killed");
	buffer_add_char(to, '\n');
}

static void add_remarks(struct buffer *to, const struct stat_table *table)
{
	uint64_t unplaced = 0, unmeasured = 0, folded = stat_table_folded(table);
	size_t let_go = let_go_of(table);

	for (size_t i = 0; i < table->count; i++) {
		unplaced += table->rows[i].unplaced;
		unmeasured += table->rows[i].unmeasured;
	}
	if (let_go)
		buffer_add_format(to,
		                  "%zu method%s let go, taking more than --max-overhead allows: later calls are in no figure, "
		                  "their time is in "
		                  "self of their callers\n",
		                  let_go, let_go == 1 ? " was" : "s were");
	if (folded)
		buffer_add_format(to,
		                  "%llu calls have no line, as 64 levels and 8192 lines are kept: their time is in that of the "
		                  "innermost call around them that has one\n",
		                  (unsigned long long)folded);
	if (unplaced)
		buffer_add_format(to,
		                  "percentiles are without %llu calls: the memory for histograms is full; select fewer methods\n",
		                  (unsigned long long)unplaced);
	if (unmeasured)
		buffer_add_format(
			to,
			"cpu, gc and allocs are without some of %llu calls: their end was not seen, or was in another native "
			"thread, or the process cannot follow GC\n",
			(unsigned long long)unmeasured);
}

static struct stat_line *lines_of(const struct stat_table *table, const struct stat_view *view, size_t *count)
{
	return view->tree ? stat_tree_arrange(table, view, count) : stat_columns_rank(table, view, count);
}

void stat_report_text(struct buffer *to, const struct stat_table *table, const struct stat_view *view, uint64_t interval)
{
	size_t count;
	struct stat_line *lines = lines_of(table, view, &count);
	struct layout layout = lay_out(lines, count, view);

	add_title(to, table, view->tree && !view->top ? table->count : count, interval);
	if (count)
		add_headings(to, &layout, view);
	for (size_t i = 0; i < count; i++) {
		add_row(to, &lines[i], &layout, view);
		if (view->histogram)
			add_histogram(to, lines[i].row);
	}
	add_remarks(to, table);
	free(lines);
}

/* --- JSON */

/* What is too large for a number of this type is the largest. */
static uint64_t whole(double number)
{
	return number < 0x1p63 ? (uint64_t)(number + 0.5) : number < 0x1p64 ? (uint64_t)number : UINT64_MAX;
}

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

static void add_json_path(struct buffer *to, struct slice path)
{
	json_open_array(json_key(to, "path"));
	for (const char *end; path.size; path = (struct slice){end, (size_t)(path.bytes + path.size - end)}) {
		end = memchr(path.bytes, STAT_PATH_SEPARATOR, path.size);
		json_add_text(to, (struct slice){path.bytes, end ? (size_t)(end - path.bytes) : path.size});
		end = end ? end + 1 : path.bytes + path.size;
	}
	json_close_array(to);
}

static void add_json_row(struct buffer *to, const struct stat_row *row, const struct stat_view *view)
{
	json_member_text(to, "method", row->name);
	if (view->tree)
		add_json_path(to, row->key);
	else if (view->by && row->key.size)
		json_member_text(to, view->by, row->key);
	json_member_uint(to, "calls", row->calls);
	if (view->rates)
		json_add_real(json_key(to, stat_column_kinds[STAT_RATE].json), row->rate);
	if (row->folded)
		json_member_uint(to, "folded", row->folded);
	if (row->let_go)
		json_member_bool(to, "let_go", true);
	if (row->let_go_ns)
		json_member_uint(to, "let_go_after_ns", row->let_go_ns);
	if (!row->timed)
		return;
	json_member_uint(to, "errors", row->errors);
	for (enum stat_column column = STAT_TOTAL; column < STAT_METHOD; column++)
		if (stat_column_shown(column, view) && stat_column_known(row, column))
			json_member_uint(to, stat_column_kinds[column].json, whole(stat_column_figure(row, column)));
	if (row->unplaced)
		json_member_uint(to, "unplaced", row->unplaced);
	if (row->unmeasured)
		json_member_uint(to, "unmeasured", row->unmeasured);
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
	struct stat_line *ranked = lines_of(table, view, &count);

	for (size_t i = 0; i < count; i++) {
		begin_line(to, view->tree ? "node" : "method", table, interval);
		add_json_row(to, ranked[i].row, view);
		json_close_line(to);
	}
	begin_line(to, "summary", table, interval);
	json_member_uint(to, "methods", methods_of(table));
	json_member_uint(to, "calls", stat_table_calls(table) - table->open);
	json_member_uint(to, "let_go", let_go_of(table));
	json_member_uint(to, "open", table->open);
	if (view->tree)
		json_member_uint(to, "folded", stat_table_folded(table));
	json_member_uint(to, "left_out", table->left_out);
	json_member_uint(to, "lost", table->lost);
	json_member_uint(to, "duration_ns", table->elapsed_ns);
	if (table->outdated)
		json_member_bool(to, "last_known", true);
	if (reason)
		json_member_string(to, "reason", reason);
	json_close_line(to);
	free(ranked);
}
