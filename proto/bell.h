#ifndef RBPROBE_PROTO_BELL_H
#define RBPROBE_PROTO_BELL_H

#include <stdbool.h>
#include <sys/types.h>

/* The extension's native thread that is rung; all of its signals are blocked, and it waits for SIGURG. */
#define BELL_THREAD_NAME "rbprobe-bell"

/* The signal's value: the main thread is to be woken whatever it waits in. */
#define BELL_INTERRUPT 1

/* That thread's number; 0: there is none. */
pid_t bell_thread(pid_t pid);

/*
 * Rings a process's bell: SIGURG to that thread, and to no other. Where there is none (a child that has just been
 * forked), to the process, and to each of its threads that is running right now. The second part is there because a
 * main thread that queues for the GVL behind busy ones gets its turn only after 100 ms per thread (800 ms with 8 of
 * them); the thread that holds the GVL runs the job at once. Async-signal-safe it is not.
 * process: a pidfd of it, so that no other process is met that gets its number meanwhile; -1: it cannot end.
 * Returns 0 or -errno (-ESRCH: gone, -EPERM: not ours).
 */
int bell_ring(pid_t pid, int process, bool interrupt);

/* SIGURG to that thread of it. */
int bell_ring_thread(pid_t pid, int process, pid_t thread);

#endif
