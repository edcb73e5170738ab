#ifndef RBPROBE_HEAP_VERBS_H
#define RBPROBE_HEAP_VERBS_H

#include "tracer/cli/subcommand.h"

/* What follows `rbprobe heap`: a file cmd_heap_VERB.c each, and a line in cmd_heap.c's table. argv[0] is "rbprobe heap VERB". */

extern const struct subcommand heap_dump;
extern const struct subcommand heap_report;
extern const struct subcommand heap_leak;

#endif
