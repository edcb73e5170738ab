#ifndef RBPROBE_TRACE_LOOP_H
#define RBPROBE_TRACE_LOOP_H

#include "tracer/base/output.h"
#include "tracer/cli/options.h"
#include "tracer/stream/sink.h"

#include <sys/types.h>

/*
 * Traces processes until the user, a limit or the processes themselves end it: attaches to all of them at once, decodes
 * what comes into the sink, and says on standard error what there is to say. signals_descriptor is what
 * signals_install() returned.
 *
 * launched: 0, or the process that `rbprobe exec` started, instead of options->pids; it is attached to again whenever
 * it calls exec, and gets the signals that were meant for it.
 *
 * hook_question: NULL, or where the target's words go (code -EACCES) if it asks for the user's consent to engine hook;
 * then nothing was traced.
 *
 * Returns an enum exit_status.
 */
int trace_loop(const struct options *options, struct output *output, struct sink *sink, int signals_descriptor, pid_t launched,
               struct error *hook_question);

#endif
