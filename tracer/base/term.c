/* What the terminal wants. See term.h. */

#include "tracer/base/term.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool term_colors(int fd, enum color_choice choice)
{
	const char *no_color = getenv("NO_COLOR"), *terminal = getenv("TERM");

	if (choice != COLORS_AUTO)
		return choice == COLORS_ALWAYS;
	return isatty(fd) && !(no_color && *no_color) && terminal && strcmp(terminal, "dumb") != 0;
}

unsigned term_width(int fd)
{
	struct winsize size;

	return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

unsigned term_height(int fd)
{
	struct winsize size;

	return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_row : 0;
}
