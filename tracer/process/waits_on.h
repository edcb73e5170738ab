#ifndef RBPROBE_WAITS_ON_H
#define RBPROBE_WAITS_ON_H

#include "tracer/base/buffer.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * On which descriptor a thread waits in a system call, and what that is: "TCP 127.0.0.1:40312 to 127.0.0.1:5432", "a pipe". Read
 * from /proc; the thread is not stopped. Without the permission to trace the process nothing is known.
 */

/* The sockets of a process's network namespace. Zeroed: not read yet. */
struct socket_table {
	struct socket_line *lines;
	size_t count;
	bool read;
};

/* The descriptor; -1: it waits for none, or for several, or that may not be known. */
int waits_on_descriptor(pid_t pid, pid_t tid);
/* Adds what it is; false: not known. The text has been made printable. */
bool waits_on_describe(struct buffer *to, pid_t pid, int descriptor, struct socket_table *table);
void socket_table_free(struct socket_table *table);

#endif
