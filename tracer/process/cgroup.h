#ifndef RBPROBE_CGROUP_H
#define RBPROBE_CGROUP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What the control groups of a process allow it at this moment: the limits of its container or service. Version 1 and 2, also
 * mixed. What cannot be seen (groups of another container, as a sidecar has it) counts as unlimited.
 */

#define CGROUP_UNLIMITED UINT64_MAX

struct cgroup_limits {
	bool frozen;
	bool shared;           /* we are in the same groups: what we use counts as well */
	uint64_t threads_left; /* how many more the kernel lets it make */
	uint64_t threads_max;  /* of the group that has the fewest left */
	uint64_t memory_left;  /* bytes before the kernel kills somebody: what it can reclaim or swap out counts as left */
	uint64_t memory_max;   /* of the group that has the least left */
};

void cgroup_look(pid_t pid, struct cgroup_limits *limits);

/* The same, of the text of /proc/PID/cgroup, by the mounts of a /proc/self/mountinfo; swap_free: bytes. */
void cgroup_look_at(const char *groups, const char *mounts, uint64_t swap_free, struct cgroup_limits *limits);

#endif
