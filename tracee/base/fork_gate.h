#ifndef RBPROBE_FORK_GATE_H
#define RBPROBE_FORK_GATE_H

#include <stdbool.h>

/*
 * Our own threads do not start, and give no memory back, while the process forks. libc's fork() takes malloc's locks, so that the
 * child finds them free; an allocator that somebody put in malloc's place may have no such handlers (AddressSanitizer's has none
 * before GCC 14): its child then waits for ever for a lock that a thread held which it does not have. What the application's own
 * threads do in that moment is not in our hands.
 */

/* free(), in a thread that runs without the GVL. */
void fork_gate_free(void *memory);

/*
 * Around what a forked child must not have, such as a file that is open for a moment. False: a fork is under way, or another of
 * our threads is inside; then it is not done, and nothing is left. Never waits. A thread that runs without the GVL and with all
 * signals blocked: a handler that forks would wait for itself.
 */
bool fork_gate_try_enter(void);
void fork_gate_leave(void);

/*
 * Around the making of a thread, which allocates where AddressSanitizer looks on: before pthread_create(), and first of all in
 * the thread itself, or where none could be made.
 */
void fork_gate_thread_is_coming(void);
void fork_gate_thread_is_here(void);

/*
 * Handlers for pthread_atfork(), around a fork. Closing waits for a free() that is under way; and where AddressSanitizer is, some
 * 20 ms at most for threads that are coming. Elsewhere nobody has to wait until a busy machine has a processor for them.
 */
void fork_gate_close(void);
void fork_gate_open(void);

/* In a forked child, whichever thread forked. Async-signal-safe. */
void fork_gate_fork_child(void);

#endif
