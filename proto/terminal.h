#ifndef RBPROBE_PROTO_TERMINAL_H
#define RBPROBE_PROTO_TERMINAL_H

#include <stdbool.h>
#include <termios.h>

/*
 * Whether reads of such a terminal wait for more than one byte, or for a time. Interrupted, one that has a part comes back with
 * it, and the time begins anew.
 */
static inline bool terminal_waits_for_more(const struct termios *settings)
{
	return !(settings->c_lflag & ICANON) && (settings->c_cc[VMIN] > 1 || settings->c_cc[VTIME] > 0);
}

#endif
