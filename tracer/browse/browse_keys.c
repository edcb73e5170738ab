/* What keys do. See browse_keys.h. */

#ifdef HAVE_NCURSESW

#include "tracer/browse/browse_keys.h"

#include <curses.h>

#define KEY_ESCAPE 27
#define TO_THE_END 1000000000L
#define PATTERN_MAX 200u

const char *const browse_help[] = {
	"up, down, j, k        the row above, below",
	"page up, page down    a screen up, down",
	"home, end, g, G       the first row, the last one",
	"Enter, space          unfold the row, or fold it",
	"right, left           unfold; fold, or go to the row around it",
	"+, -                  unfold, or fold, all below the row",
	"h                     unfold along the calls that took most",
	"c                     fold everything",
	"s                     sort by total, self, calls, name",
	"/                     search a part of a method's name; Enter ends it, Escape forgets it",
	"n, N                  the next one, the one before",
	"q, Escape             quit",
	"?                     this help; any key ends it",
	NULL,
};

static bool ends_line(int key)
{
	return key == '\r' || key == '\n' || key == KEY_ENTER;
}

static void press_in_search(struct browse *browse, int key)
{
	if (key == KEY_ESCAPE) {
		browse->searching = false;
		browse->pattern.size = 0;
	} else if (ends_line(key)) {
		browse->searching = false;
	} else if (key == KEY_BACKSPACE || key == 127 || key == '\b') {
		browse->searching = browse->pattern.size > 0;
		while (browse->pattern.size && (browse->pattern.bytes[browse->pattern.size - 1] & 0xc0) == 0x80)
			browse->pattern.size--;
		browse->pattern.size -= browse->pattern.size > 0;
	} else if (key >= ' ' && key < 256 && browse->pattern.size < PATTERN_MAX) {
		buffer_add_char(&browse->pattern, (char)key);
		browse_find(browse, false, true);
	}
}

static void fold_below(struct browse *browse)
{
	const struct browse_node *node = browse_selected(browse);

	if (node && !node->open) {
		browse_close(browse);
		return;
	}
	browse_open_below(browse, 0);
	browse_close(browse);
}

static void sort_next(struct browse *browse)
{
	enum browse_sort next = browse->sort == BROWSE_NAME ? BROWSE_TOTAL : browse->sort + 1;

	browse_sort_by(browse, next == BROWSE_CALLS && !browse->has_calls ? BROWSE_NAME : next);
}

/* Whether it was one that moves. */
static bool press_to_move(struct browse *browse, int key)
{
	long page = browse->height > 1 ? (long)browse->height - 1 : 1;
	const struct {
		int key, other;
		long rows;
	} moves[] = {{KEY_UP, 'k', -1},
	             {KEY_DOWN, 'j', 1},
	             {KEY_PPAGE, KEY_PPAGE, -page},
	             {KEY_NPAGE, KEY_NPAGE, page},
	             {KEY_HOME, 'g', -TO_THE_END},
	             {KEY_END, 'G', TO_THE_END}};

	for (size_t i = 0; i < sizeof(moves) / sizeof(*moves); i++)
		if (key == moves[i].key || key == moves[i].other) {
			browse_move(browse, moves[i].rows);
			return true;
		}
	return false;
}

static void press_to_fold(struct browse *browse, int key)
{
	switch (key) {
	case ' ':
		browse_toggle(browse);
		break;
	case KEY_RIGHT:
	case 'l':
		browse_open(browse);
		break;
	case KEY_LEFT:
		browse_close(browse);
		break;
	case '+':
		browse_open_below(browse, UINT32_MAX);
		break;
	case '-':
		fold_below(browse);
		break;
	case 'h':
		browse_open_hottest(browse);
		break;
	case 'c':
		browse_close_all(browse);
		break;
	case 's':
		sort_next(browse);
		break;
	case 'n':
	case 'N':
		browse_find(browse, key == 'N', false);
		break;
	}
}

bool browse_press(struct browse *browse, int key)
{
	if (key == KEY_RESIZE)
		return true;
	if (!browse->searching || !ends_line(key))
		browse->said = NULL;
	if (browse->helping) {
		browse->helping = false;
	} else if (browse->searching) {
		press_in_search(browse, key);
	} else if (key == 'q' || key == KEY_ESCAPE) {
		return false;
	} else if (key == '?') {
		browse->helping = true;
	} else if (key == '/') {
		browse->searching = true;
		browse->pattern.size = 0;
	} else if (ends_line(key)) {
		browse_toggle(browse);
	} else if (!press_to_move(browse, key)) {
		press_to_fold(browse, key);
	}
	return true;
}

#endif
