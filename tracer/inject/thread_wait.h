#ifndef RBPROBE_THREAD_WAIT_H
#define RBPROBE_THREAD_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * What a thread of another process waits in, as the kernel says (/proc/PID/task/TID/syscall), without stopping it. Who
 * may trace the process may read that.
 */
struct thread_wait {
	long number; /* of the system call */
	uint64_t arguments[6], sp, pc;
};

/* 1: it waits in a system call. 0: it runs, or is stopped. Negative: not known. */
int thread_wait_read(struct thread_wait *wait, pid_t pid, pid_t tid);

/*
 * Whether the thread may be stopped by ptrace in there, and go on as if nothing had been. Most calls begin again by
 * themselves, with the time that is left. Some come back with EINTR, and what has written a part comes back with that.
 */
bool thread_wait_is_lasting(const struct thread_wait *wait, pid_t pid);

/* For a lock, or a condition. */
bool thread_wait_is_futex(const struct thread_wait *wait);

/* Such a call's name; others are "a system call". */
const char *thread_wait_name(const struct thread_wait *wait);

#endif
