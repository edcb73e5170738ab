#ifndef RBPROBE_PUMP_H
#define RBPROBE_PUMP_H

#include <stdbool.h>

/*
 * A thread that carries bytes from one pipe to another, for a writer that must not be held up: where the reader takes nothing for some time, or is gone, the
 * bytes are thrown away. The thread has all signals blocked and calls no Ruby.
 */
struct pump;

/* Both descriptors are the pump's from now on; closed if there is no thread for it (NULL). */
struct pump *pump_start(int from, int to);

/* Waits for the end of what it reads, and frees it. False: not everything has reached the reader. Without the GVL or with it: it ends soon in any case. */
bool pump_end(struct pump *pump);

#endif
