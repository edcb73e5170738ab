#ifndef RBPROBE_FORK_GATE_H
#define RBPROBE_FORK_GATE_H

/*
 * Our own threads give no memory back while the process forks. libc's fork() takes malloc's locks, so that the child finds them
 * free; an allocator that somebody put in malloc's place may have no such handlers (AddressSanitizer's has none before GCC 14):
 * its child then waits for ever for a lock that a thread held which it does not have. What the application's own threads do in
 * that moment is not in our hands.
 */

/* free(), in a thread that runs without the GVL. */
void fork_gate_free(void *memory);

/* Handlers for pthread_atfork(), around a fork. Closing waits for a free() that is under way. */
void fork_gate_close(void);
void fork_gate_open(void);

/* In a forked child, whichever thread forked. Async-signal-safe. */
void fork_gate_fork_child(void);

#endif
