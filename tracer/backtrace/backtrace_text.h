#ifndef RBPROBE_BACKTRACE_TEXT_H
#define RBPROBE_BACKTRACE_TEXT_H

#include "tracer/base/buffer.h"

#include <msgpack.h>
#include <stdbool.h>

/* Backtraces for people. The maps are DATA records of a backtrace request (PROTOCOL.md); what they lack is left out. */

/* The line about the process, with its newline; command is its command line. */
void backtrace_text_process(struct buffer *buffer, int pid, const msgpack_object *process, const char *command);
/* The line about a thread or fiber, with a second one where it has labels. */
void backtrace_text_heading(struct buffer *buffer, const msgpack_object *map, bool was_asleep);
/* Its frames, one a line. */
void backtrace_text_frames(struct buffer *buffer, const msgpack_object *map);

#endif
