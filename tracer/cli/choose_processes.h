#ifndef RBPROBE_CHOOSE_PROCESSES_H
#define RBPROBE_CHOOSE_PROCESSES_H

#include "tracer/cli/options.h"

#include <stddef.h>

/*
 * Processes that are not named by PID: --ps, --wait and --children become PIDs. `one`: the subcommand takes a single process.
 * `children_too`: whoever asks looks for the children itself. Returns 0, or a status after a line on stderr.
 */
int choose_processes(struct options *options, bool one, bool children_too);

/*
 * Adds the child processes that are Ruby and are not in the list yet: workers that start meanwhile, once they have run for a
 * moment. Before, a copy that rbprobe makes of the process for a heap dump has not given itself its name, and looks like one.
 */
void choose_joining_children(pid_t parent, struct pid_list *pids);
/* Says on stderr that the process has none, or that there is no such process. */
void choose_say_childless(pid_t parent);
/* Adds the child processes that are Ruby, and says so where there are none. */
void choose_children(pid_t parent, struct pid_list *pids);
/*
 * Puts the children of the processes in their place; *parents takes these, for the caller to free. Returns 0, or
 * STATUS_NOT_ATTACHED where there are none.
 */
int choose_children_of(struct options *options, struct pid_list *parents);

#endif
