#ifndef RBPROBE_TOP_TERMINAL_H
#define RBPROBE_TOP_TERMINAL_H

#include <stdbool.h>

/*
 * Whether the terminal (TERM) is known and has a cursor that moves, as "dumb" has not. Asked before newterm(), which leaks for a
 * terminal that it does not know. Of a file of its own, since <term.h> has a thousand macros.
 */
bool top_terminal_is_screen(void);

#endif
