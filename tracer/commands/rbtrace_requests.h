#ifndef RBPROBE_RBTRACE_REQUESTS_H
#define RBPROBE_RBTRACE_REQUESTS_H

#include "tracer/cli/subcommand.h"

/* Subcommands that only the rbtrace personality has: requests whose answers look as rbtrace shows them. */

extern const struct subcommand rbtrace_eval;       /* CODE */
extern const struct subcommand rbtrace_backtraces; /* [-b N] */
extern const struct subcommand rbtrace_backtrace;  /* [-b N]: of the main thread */
extern const struct subcommand rbtrace_fork;       /* cmd_fork.c */

/* Handlers' `attached`, and what their `done` says at last. */
void rbtrace_on_attached(struct request *request);
void rbtrace_on_done(struct request *request, uint32_t code, struct slice text);

#endif
