/* Where there is no ncurses: --tui refuses before. See browse_keys.h. */

#ifndef HAVE_NCURSESW

#include "tracer/browse/browse_keys.h"

#include <stddef.h>

const char *const browse_help[] = {NULL};

bool browse_press(struct browse *browse, int key)
{
	(void)browse;
	(void)key;
	return false;
}

#endif
