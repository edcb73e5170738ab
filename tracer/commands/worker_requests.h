#ifndef RBPROBE_WORKER_REQUESTS_H
#define RBPROBE_WORKER_REQUESTS_H

#include "tracer/cli/subcommand.h"

/*
 * The invocation's request, which lasts for command.arguments.timeout_ms, to its processes and to those that join them
 * meanwhile: Ruby processes below the parents. These have what is left of the time. One that ends meanwhile is no failure, if
 * another has answered. Returns an exit status.
 */
int worker_requests_run(struct invocation *invocation, const struct pid_list *parents);

#endif
