#ifndef RBPROBE_TRACE_LOOP_H
#define RBPROBE_TRACE_LOOP_H

#include "tracer/base/output.h"
#include "tracer/cli/options.h"
#include "tracer/commands/trace_files.h"

#include <sys/types.h>

/*
 * Traces processes until the user, a limit or the processes themselves end it: attaches to all of them at once, decodes
 * what comes into sinks, and says on standard error what there is to say. With --children that is the workers of the
 * processes, also those that join them later. maker: of the sinks: one for output, or for each process one for a file of its own;
 * NULL: they are those of --format. signals_descriptor is what signals_install() returned.
 *
 * launched: 0, or the process that `rbprobe exec` started, instead of options->pids; it is attached to again whenever
 * it calls exec, and gets the signals that were meant for it.
 *
 * hook_question: NULL, or where the target's words go (code -EACCES) if it asks for the user's consent to engine hook;
 * then nothing was traced.
 *
 * Returns an enum exit_status.
 */
int trace_loop(const struct options *options, struct output *output, const struct sink_maker *maker, int signals_descriptor,
               pid_t launched, struct error *hook_question);

#endif
