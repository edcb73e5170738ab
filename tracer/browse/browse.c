/* The screen of `rbprobe report --tui`. See browse.h. */

#include "tracer/browse/browse.h"

#include "tracer/base/poll_until.h"
#include "tracer/base/signals.h"
#include "tracer/browse/browse_keys.h"
#include "tracer/browse/browse_view.h"
#include "tracer/top/top_screen.h"

#include <string.h>
#include <unistd.h>

static void draw_line(size_t row, struct buffer *line, enum top_style style)
{
	top_screen_line(row, (struct slice){line->bytes, line->size}, style);
	line->size = 0;
}

static void draw_help(struct buffer *line)
{
	for (size_t i = 0; browse_help[i]; i++) {
		buffer_add_text(line, browse_help[i]);
		draw_line(i + 1, line, TOP_PLAIN);
	}
}

static void draw(struct browse *browse, const char *about)
{
	struct buffer line = {0};
	size_t rows, columns;

	top_screen_size(&rows, &columns);
	top_screen_clear();
	browse_set_height(browse, rows > BROWSE_LINES ? rows - BROWSE_LINES : 1);
	browse_view_title(browse, about, &line);
	draw_line(0, &line, TOP_BOLD);
	if (browse->helping) {
		draw_help(&line);
	} else {
		browse_view_heading(browse, &line);
		draw_line(1, &line, TOP_DIM);
		for (size_t i = 0; i < browse->height && browse->first + i < browse->row_count; i++) {
			browse_view_row(browse, i, &line);
			draw_line(i + 2, &line, browse->first + i == browse->selected ? TOP_REVERSE : TOP_PLAIN);
		}
		browse_view_last(browse, &line);
		draw_line(rows - 1, &line, browse->searching ? TOP_PLAIN : TOP_DIM);
	}
	top_screen_show();
	buffer_free(&line);
}

/* Whether to go on. A signal that only says that the terminal has another size comes as a key. */
static bool turn(struct browse *browse, int signals)
{
	struct pollfd polled[] = {{.fd = signals, .events = POLLIN}, {.fd = STDIN_FILENO, .events = POLLIN}};
	bool by_process;
	int key;

	poll_until(polled, 2, UINT64_MAX);
	if ((polled[0].revents && signals_take(&by_process)) || polled[1].revents & (POLLHUP | POLLERR | POLLNVAL))
		return false;
	while ((key = top_screen_key()) >= 0)
		if (!browse_press(browse, key))
			return false;
	return true;
}

int browse_show(struct browse *browse, const char *about, int signals, struct error *err)
{
	int status = top_screen_begin("--tui needs a terminal; `rbprobe report --tree` shows the same as text",
	                              "`rbprobe report --tree` needs none", err);

	if (status < 0)
		return status;
	do
		draw(browse, about);
	while (turn(browse, signals));
	top_screen_end();
	top_screen_tell();
	return 0;
}
