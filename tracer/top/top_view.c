/* Drawing. See top_view.h. */

#include "tracer/top/top_view.h"

#include "tracer/top/top_screen.h"

#include <string.h>
#include <time.h>

#define PROCESS_LINES_MAX 8

static struct slice slice_of(const struct buffer *text)
{
	return (struct slice){text->size ? text->bytes : "", text->size};
}

static struct slice text_of(const char *text)
{
	return (struct slice){text, strlen(text)};
}

static size_t draw_title(const struct top_view *view)
{
	const struct top_model *model = view->model;
	struct buffer line = {0};
	time_t seconds = time(NULL);
	struct tm local;
	char clock[16];

	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&seconds, &local));
	buffer_add_format(&line, "rbprobe top  %s  ", clock);
	if (model->since_start)
		buffer_add_text(&line, "since the start");
	else
		buffer_add_format(&line, "last %g s", (double)view->interval_ns / 1e9);
	buffer_add_format(&line, ", by %s%s", top_columns[model->sort].name, model->reverse ? " reversed" : "");
	if (view->choice->size) {
		buffer_add_text(&line, ", ");
		buffer_add(&line, view->choice->bytes, view->choice->size);
	}
	if (model->paused)
		buffer_add_text(&line, "  PAUSED");
	top_screen_line(0, slice_of(&line), TOP_BOLD);
	buffer_free(&line);
	return 1;
}

static size_t draw_processes(const struct top_view *view, size_t row, size_t rows)
{
	size_t most = rows / 3 < 1 ? 1 : rows / 3 < PROCESS_LINES_MAX ? rows / 3 : PROCESS_LINES_MAX;
	struct buffer line = {0};

	for (size_t i = 0; i < view->process_count && i < most; i++) {
		line.size = 0;
		if (i + 1 == most && view->process_count > most)
			buffer_add_format(&line, "        and %zu more processes", view->process_count - i);
		else
			top_process_line(&view->processes[i], &line);
		top_screen_line(row++, slice_of(&line), TOP_PLAIN);
	}
	buffer_free(&line);
	return row;
}

/* --- The table */

void top_view_row(struct buffer *to, const struct top_row *row, uint32_t fit, bool apart)
{
	for (int column = 0; column < TOP_METHOD; column++) {
		char text[32];

		if (!(fit & 1u << column))
			continue;
		top_row_text(row, (enum top_column)column, text);
		buffer_add_format(to, "%*s", top_columns[column].width, text);
	}
	buffer_add_text(to, "  ");
	if (apart)
		buffer_add_format(to, "%d ", (int)row->pid);
	buffer_add_slice(to, row->stat->name);
}

static void draw_headings(const struct top_model *model, size_t row, uint32_t fit)
{
	struct buffer line = {0};

	for (int column = 0; column < TOP_METHOD; column++)
		if (fit & 1u << column) {
			char name[16];
			size_t length = strlen(top_columns[column].name);

			memcpy(name, top_columns[column].name, length + 1);
			if (column == (int)model->sort)
				memcpy(name + length, model->reverse ? "^" : "v", 2);
			buffer_add_format(&line, "%*s", top_columns[column].width, name);
		}
	buffer_add_text(&line, model->apart ? "  pid method" : "  method");
	if (model->sort == TOP_METHOD)
		buffer_add_char(&line, model->reverse ? '^' : 'v');
	top_screen_line(row, slice_of(&line), TOP_REVERSE);
	buffer_free(&line);
}

static void draw_table(const struct top_view *view, size_t row, size_t rows, size_t columns)
{
	struct top_model *model = view->model;
	uint32_t fit = top_columns_that_fit(columns, model->sort);
	struct buffer line = {0};

	draw_headings(model, row++, fit);
	top_model_set_height(model, rows > row + 1 ? rows - row - 1 : 1);
	for (size_t i = 0; i < model->height && model->first + i < model->count; i++) {
		size_t number = model->first + i;

		line.size = 0;
		top_view_row(&line, &model->rows[number], fit, model->apart);
		top_screen_line(row + i, slice_of(&line), number == model->selected ? TOP_REVERSE : TOP_PLAIN);
	}
	if (!model->count)
		top_screen_line(row,
		                text_of(model->left_out      ? "no method has that in its name"
		                        : model->since_start ? "no calls so far"
		                                             : "no calls in the last interval; t shows those since the start"),
		                TOP_DIM);
	buffer_free(&line);
}

static void draw_pane(const struct top_view *view, size_t row, size_t rows)
{
	struct top_pane *pane = view->pane;

	top_screen_line(row++, slice_of(&pane->title), TOP_REVERSE);
	top_pane_set_height(pane, rows > row + 1 ? rows - row - 1 : 1);
	for (size_t i = 0; i < pane->height && pane->first + i < pane->count; i++)
		top_screen_line(row + i, slice_of(&pane->lines[pane->first + i]),
		                pane->first + i + 1 == pane->marked ? TOP_BOLD : TOP_PLAIN);
}

/* --- The last line */

static void draw_last(const struct top_view *view, size_t rows, uint64_t now_ns)
{
	const struct top_model *model = view->model;
	struct slice message = top_screen_message(now_ns);
	struct buffer line = {0};
	enum top_style style = TOP_DIM;

	if (model->filtering && view->pane->kind == TOP_PANE_NONE) {
		buffer_add_text(&line, "/");
		buffer_add_printable(&line, model->filter.bytes, model->filter.size);
		buffer_add_char(&line, '_');
		style = TOP_BOLD;
	} else if (message.size) {
		buffer_add_slice(&line, message);
		style = TOP_BOLD;
	} else if (view->pane->kind != TOP_PANE_NONE) {
		buffer_add_text(&line, "Esc back");
	} else if (model->filter.size) {
		buffer_add_text(&line, "only names with \"");
		buffer_add_printable(&line, model->filter.bytes, model->filter.size);
		buffer_add_format(&line, "\", %zu left out; Esc shows all", model->left_out);
	} else {
		buffer_add_text(&line, "q quit  < > sort  / filter  t interval/start  c callers  f follow  s source  h help");
	}
	top_screen_line(rows - 1, slice_of(&line), style);
	buffer_free(&line);
}

void top_view_draw(const struct top_view *view, uint64_t now_ns)
{
	size_t rows, columns, row;

	top_screen_size(&rows, &columns);
	if (!rows || !columns)
		return;
	top_screen_clear();
	row = draw_processes(view, draw_title(view), rows);
	if (view->pane->kind == TOP_PANE_NONE)
		draw_table(view, row, rows, columns);
	else
		draw_pane(view, row, rows);
	draw_last(view, rows, now_ns);
	top_screen_show();
}
