/* Ending the program at once. See leave.h. */

#include "tracer/base/leave.h"

#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* Global because signal handlers have no argument for it. */
static void (*volatile registered)(void);

void leave_register(void (*action)(void))
{
	registered = action;
}

_Noreturn void leave_at_once(int status, const char *words)
{
	void (*action)(void) = registered;

	if (action)
		action();
	if (words && write(STDERR_FILENO, words, strlen(words)) < 0)
		_exit(status);
	_exit(status);
}
