#ifndef RBPROBE_RBTRACE_WORDS_H
#define RBPROBE_RBTRACE_WORDS_H

#include "tracer/stream/sink.h"

#include <sys/types.h>

/* What the rbtrace gem says on standard error about a process, for those who wait for it. */

void rbtrace_say_attached(pid_t pid);
void rbtrace_say_detached(pid_t pid);
/* Of a trace: that, or that the process is gone; and before it, what is not shown. */
void rbtrace_say_ended(const struct sink_summary *summary);

#endif
