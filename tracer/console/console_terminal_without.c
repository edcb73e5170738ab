/* Where there is no readline: lines as the terminal's driver gives them, without history and completion. See console.h. */

#ifndef HAVE_READLINE

#include "tracer/console/console.h"

#include <stdio.h>

bool terminal_open(struct console *console)
{
	(void)console;
	return true;
}

enum input terminal_read(struct console *console, const char *prompt, char **line)
{
	enum input got;

	fputs(prompt, stdout);
	fflush(stdout);
	got = input_read_plain(console, line);
	if (got == INPUT_INTERRUPTED)
		console->interrupted = false;
	if (got != INPUT_LINE)
		putchar('\n');
	fflush(stdout);
	return got;
}

void terminal_remember(struct console *console, const char *entry)
{
	(void)console;
	(void)entry;
}

void terminal_close(struct console *console)
{
	(void)console;
}

#endif
