#ifndef RBPROBE_CONSOLE_COLOR_H
#define RBPROBE_CONSOLE_COLOR_H

#include "tracer/base/buffer.h"

/*
 * Adds what inspect gave, with colours for strings, symbols, numbers, constants and nil, true, false. The text may be
 * anything: what is not understood stays as it is. It must be printable already (but for newlines): no escape of its
 * own gets here.
 */
void console_color(struct buffer *buffer, const char *text, size_t size);

#endif
