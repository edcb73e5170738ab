/* Where there is no ncurses: top refuses before. See top_screen.h and top_keys.h. */

#ifndef HAVE_NCURSESW

#include "tracer/base/library.h"
#include "tracer/top/top_keys.h"
#include "tracer/top/top_screen.h"

int top_screen_begin(const char *no_terminal, const char *instead, struct error *err)
{
	(void)no_terminal;
	(void)instead;
	return library_require(LIBRARY_NCURSES, "top", err);
}

void top_screen_end(void)
{
}

void top_screen_tell(void)
{
}

int top_screen_key(void)
{
	return -1;
}

struct slice top_screen_message(uint64_t now_ns)
{
	(void)now_ns;
	return (struct slice){"", 0};
}

void top_screen_size(size_t *rows, size_t *columns)
{
	*rows = *columns = 0;
}

void top_screen_clear(void)
{
}

void top_screen_line(size_t row, struct slice text, enum top_style style)
{
	(void)row;
	(void)text;
	(void)style;
}

void top_screen_show(void)
{
}

enum top_action top_keys_press(struct top_model *model, struct top_pane *pane, int key)
{
	(void)model;
	(void)pane;
	(void)key;
	return TOP_ACTION_QUIT;
}

const char *top_keys_help(void)
{
	return "";
}

#endif
