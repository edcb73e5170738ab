/* What keys do. See top_keys.h. */

#ifdef HAVE_NCURSESW

#include "tracer/top/top_keys.h"

#include <curses.h>
#include <string.h>

#define KEY_ESCAPE 27
#define KEY_RETURN '\r'
#define TO_THE_END 1000000000L

/* Rows or lines that a key moves by; 0: it moves nothing. */
static long movement(int key, size_t height)
{
	long page = height > 1 ? (long)height - 1 : 1;

	switch (key) {
	case KEY_UP:
	case 'k':
		return -1;
	case KEY_DOWN:
	case 'j':
		return 1;
	case KEY_PPAGE:
		return -page;
	case KEY_NPAGE:
		return page;
	case KEY_HOME:
	case 'g':
		return -TO_THE_END;
	case KEY_END:
	case 'G':
		return TO_THE_END;
	}
	return 0;
}

static bool ends_line(int key)
{
	return key == KEY_RETURN || key == '\n' || key == KEY_ENTER;
}

/* While a filter is typed. */
static enum top_action press_in_filter(struct top_model *model, int key)
{
	char byte = (char)key;

	if (key == KEY_ESCAPE) {
		top_model_filter_clear(model);
	} else if (ends_line(key)) {
		model->filtering = false;
	} else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
		if (!model->filter.size)
			model->filtering = false;
		top_model_filter_remove(model);
	} else if (key >= ' ' && key < 256) {
		top_model_filter_add(model, &byte, 1);
	} else {
		top_model_move(model, movement(key, model->height));
	}
	return TOP_ACTION_NONE;
}

static enum top_action press_in_pane(struct top_pane *pane, int key)
{
	if (key == KEY_ESCAPE || key == 'q' || key == KEY_LEFT || (pane->kind == TOP_PANE_HELP && (key == 'h' || key == '?')))
		return TOP_ACTION_BACK;
	top_pane_move(pane, movement(key, pane->height));
	return TOP_ACTION_NONE;
}

/* The columns in a circle. */
static void sort_beside(struct top_model *model, int step)
{
	top_model_sort_by(model, (enum top_column)(((int)model->sort + TOP_COLUMNS + step) % TOP_COLUMNS));
}

static enum top_action about_selected(const struct top_model *model, enum top_action action)
{
	return top_model_selected(model) ? action : TOP_ACTION_NONE;
}

/* Keys that change what is shown. */
static enum top_action press_choice(struct top_model *model, int key)
{
	switch (key) {
	case 'r':
		model->reverse = !model->reverse;
		top_model_arrange(model);
		return TOP_ACTION_NONE;
	case ' ':
		model->paused = !model->paused;
		return TOP_ACTION_NONE;
	case 't':
		model->since_start = !model->since_start;
		return TOP_ACTION_FIGURES;
	case 'p':
		model->apart = !model->apart;
		return TOP_ACTION_FIGURES;
	case '/':
		model->filtering = true;
		return TOP_ACTION_NONE;
	case KEY_ESCAPE:
		top_model_filter_clear(model);
		return TOP_ACTION_NONE;
	case '<':
	case KEY_LEFT:
		sort_beside(model, -1);
		return TOP_ACTION_NONE;
	case '>':
	case KEY_RIGHT:
		sort_beside(model, 1);
		return TOP_ACTION_NONE;
	}
	for (int column = 0; column < TOP_COLUMNS; column++)
		if (key == top_columns[column].key)
			top_model_sort_by(model, (enum top_column)column);
	return TOP_ACTION_NONE;
}

enum top_action top_keys_press(struct top_model *model, struct top_pane *pane, int key)
{
	if (key == KEY_RESIZE)
		return TOP_ACTION_NONE;
	if (pane->kind != TOP_PANE_NONE)
		return press_in_pane(pane, key);
	if (model->filtering)
		return press_in_filter(model, key);
	if (ends_line(key))
		return about_selected(model, TOP_ACTION_CALLERS);
	switch (key) {
	case 'q':
		return TOP_ACTION_QUIT;
	case 'h':
	case '?':
		return TOP_ACTION_HELP;
	case 'c':
		return about_selected(model, TOP_ACTION_CALLERS);
	case 'f':
		return about_selected(model, TOP_ACTION_FOLLOW);
	case 's':
		return about_selected(model, TOP_ACTION_SOURCE);
	}
	if (movement(key, model->height)) {
		top_model_move(model, movement(key, model->height));
		return TOP_ACTION_NONE;
	}
	return press_choice(model, key);
}

const char *top_keys_help(void)
{
	/* At most 80 columns, and on 24 lines there is room for two processes. */
	return "q            leave\n"
	       "Up, PgDn ... select a method\n"
	       "Enter, c     who calls the selected method\n"
	       "f            its calls, as they come\n"
	       "s            its source\n"
	       "Esc, q       back from these\n"
	       "\n"
	       "< >          sort by the column to the left, to the right; or by its letter:\n"
	       "C calls/s    N calls      E errors     T total      S self\n"
	       "A mean       P p99        X max        M method\n"
	       "r            the other way round\n"
	       "/            only methods whose names contain what you type; Esc: all again\n"
	       "t            figures of the last interval, or since the start\n"
	       "p            a row for each process, or all processes together\n"
	       "Space        pause: nothing new is asked for; counting goes on\n"
	       "\n"
	       "total is the time of all calls, self without counted calls inside of them.\n"
	       "CPU and GC are of the last interval. GVL wait (--gvl): how much of the time\n"
	       "in which threads had or wanted the GVL they waited for it.\n";
}

#endif
