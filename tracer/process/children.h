#ifndef RBPROBE_CHILDREN_H
#define RBPROBE_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DESCENDANTS_MAX 4096u

/*
 * All processes below one, of whatever program: its children, theirs, and so on, at most so many. One that starts or ends
 * meanwhile may be missing. Cheap enough to be asked for several times a second. The caller frees *pids.
 */
size_t descendants_find(pid_t ancestor, pid_t **pids);

/* Whether that is a Ruby program that may be attached to: no copy that rbprobe has made, none that has ended. */
bool process_is_worker(pid_t pid, uint64_t *start_ticks);

/* Those of them that are, such as the workers of a web server, by PID. The caller frees *children. */
size_t children_find(pid_t parent, pid_t **children);

#endif
