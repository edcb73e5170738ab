#ifndef RBPROBE_LAUNCHED_H
#define RBPROBE_LAUNCHED_H

#include "tracer/cli/subcommand.h"
#include "tracer/commands/trace_files.h"

#include <sys/types.h>

/* The command after "--" of `rbprobe exec` and `rbprobe record`: it is traced from the first line of its program on. */

#define LAUNCHED_HELP_STATUS                                                                                                     \
	"the exit status is the command's own (128 + N where signal N killed it), else that of `rbprobe trace`; 127 where the "  \
	"command cannot be run. When --duration or another limit ends the trace, the command goes on, and rbprobe waits for "    \
	"it. INT, TERM and HUP that are sent to rbprobe are passed on; a second one ends rbprobe alone."

/* Before there is a process: what no command could be traced with. 0, or a status after a line on stderr. */
int launched_check(const struct options *options);

/* Starts it, and traces it to its end. The output is ended, too. Returns an exit status, which is no enum exit_status. */
int launched_run(struct invocation *invocation, const struct sink_maker *maker, int signals);

#endif
