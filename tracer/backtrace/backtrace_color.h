#ifndef RBPROBE_BACKTRACE_COLOR_H
#define RBPROBE_BACKTRACE_COLOR_H

#include "tracer/base/buffer.h"

/*
 * Colours the lines of backtraces from byte `from` on: threads and fibers by their names, frames by their methods, deadlocks.
 * What a process calls its things may make a colour end elsewhere, and nothing more: its text is printable.
 */
void backtrace_color(struct buffer *text, size_t from);

#endif
