/* What terminfo says of the terminal. See top_terminal.h. */

#ifdef HAVE_NCURSESW

#include "tracer/top/top_terminal.h"

#include <curses.h>
#include <term.h>
#include <unistd.h>

bool top_terminal_is_screen(void)
{
	const char *moves;
	int found;

	if (setupterm(NULL, STDOUT_FILENO, &found) != OK)
		return false;
	moves = tigetstr("cup");
	found = moves && moves != (const char *)-1;
	del_curterm(cur_term);
	return found;
}

#endif
