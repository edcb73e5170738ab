#ifndef RBPROBE_CHILDREN_H
#define RBPROBE_CHILDREN_H

#include <stddef.h>
#include <sys/types.h>

/*
 * The Ruby processes that a process has started and that are its children now, such as the workers of a web server, by
 * PID. The caller frees *children.
 */
size_t children_find(pid_t parent, pid_t **children);

#endif
