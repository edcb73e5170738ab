#ifndef RBPROBE_CHOOSE_PROCESSES_H
#define RBPROBE_CHOOSE_PROCESSES_H

#include "tracer/cli/options.h"

#include <stddef.h>

/*
 * Processes that are not named by PID: --ps, --wait and --children become PIDs. `one`: the subcommand takes a single process.
 * `children_too`: whoever asks looks for the children itself. Returns 0, or a status after a line on stderr.
 */
int choose_processes(struct options *options, bool one, bool children_too);

/* children_find(), which says on stderr that there are none. */
size_t choose_children(pid_t parent, pid_t **children);

#endif
