#ifndef RBPROBE_CONTAINER_H
#define RBPROBE_CONTAINER_H

#include "tracer/process/target.h"

#include "proto/error.h"

#include <stdbool.h>
#include <stdint.h>

/* What an attachment has the process use, at most. */
enum container_use {
	CONTAINER_ASK,   /* a question and its answer */
	CONTAINER_TRACE, /* a session whose events fill its ring */
};

/* Whether the process's container leaves it room for that, and lets it run at all. 0, or a negative code and err. */
int container_check(const struct target *target, enum container_use use, struct error *err);

/* Whether it is paused, or its cgroup frozen. */
bool container_is_frozen(pid_t pid);
int container_refuse_frozen(pid_t pid, struct error *err);

/*
 * Whether rbprobe can look at any process from where it runs. 0, or a negative code and err:
 * -ENOSYS in gVisor, a kernel of its own in a container, which rbprobe does not know;
 * -EXDEV where /proc is another PID namespace's, so that its numbers mean other processes than those that ptrace and kill reach.
 */
int container_check_surroundings(struct error *err);
bool container_kernel_is_known(const char *version);

/* Whether the process is gVisor's own, in which others run unseen. */
bool container_is_sandbox(pid_t pid);

#endif
