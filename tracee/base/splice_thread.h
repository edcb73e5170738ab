#ifndef RBPROBE_SPLICE_THREAD_H
#define RBPROBE_SPLICE_THREAD_H

#include <stdbool.h>

/*
 * A thread that carries bytes from one pipe to another, for a writer that must not be held up: where the reader takes nothing for
 * some time, or is gone, the bytes are thrown away. The thread has all signals blocked and calls no Ruby.
 */
struct splice_thread;

/* Both descriptors are the thread's from now on; closed if there is no thread for it (NULL). */
struct splice_thread *splice_thread_start(int from, int to);

/*
 * Waits for the end of what it reads, and frees it. False: not everything has reached the reader. Without the GVL or with it: it
 * ends soon in any case.
 */
bool splice_thread_end(struct splice_thread *splice);

#endif
