#ifndef RBPROBE_TRACEE_ONESHOT_LINES_H
#define RBPROBE_TRACEE_ONESHOT_LINES_H

#include <stdbool.h>

/*
 * Whether Coverage.start(oneshot_lines: true) is on. When a line runs first, the VM then forgets which targeted TracePoints watch
 * the instruction at its beginning: rb_iseq_clear_event_flags() asks for global ones alone (iseq.c, 2.7 to 4.1; seen on 3.1 and
 * 4.0). The call event of a method is at that of its first line. Context: job. Raises nothing, calls no method.
 */
bool oneshot_lines_run(void);

#endif
