#ifndef RBPROBE_PROTO_BELL_H
#define RBPROBE_PROTO_BELL_H

#include <sys/types.h>

/*
 * Rings a process's bell: SIGURG to the process, and to each of its threads that is running right now. The second part
 * is there because a main thread that queues for the GVL behind busy ones gets its turn only after 100 ms per thread
 * (800 ms with 8 of them); the thread that holds the GVL runs the job at once. Async-signal-safe it is not.
 * Returns 0 or -errno (-ESRCH: gone, -EPERM: not ours).
 */
int bell_ring(pid_t pid);

#endif
