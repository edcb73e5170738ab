#ifndef RBPROBE_BACKTRACE_TEXT_H
#define RBPROBE_BACKTRACE_TEXT_H

#include "tracer/backtrace/backtrace_state.h"
#include "tracer/base/buffer.h"

#include <msgpack.h>
#include <stdbool.h>

/* Backtraces for people. The maps are DATA records of a backtrace request (PROTOCOL.md); what they lack is left out. */

/* The line about the process, with its newline; command is its command line. */
void backtrace_text_process(struct buffer *buffer, int pid, const msgpack_object *process, const char *command);
/* Which thread or fiber it is: thread 10636 "puma srv tp 001". */
void backtrace_text_label(struct buffer *buffer, const msgpack_object *map);
/* The line about a thread or fiber, with a second one where it has labels. *cpu_end: where its CPU time ends; 0: it has none. */
void backtrace_text_heading(struct buffer *buffer, const msgpack_object *map, const struct native_state *native, size_t *cpu_end);
/* Its frames, one a line. app: those of libraries are folded, but for the innermost one (app_frames.h). */
void backtrace_text_frames(struct buffer *buffer, const msgpack_object *map, bool app);

#endif
