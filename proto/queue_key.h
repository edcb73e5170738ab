#ifndef RBPROBE_QUEUE_KEY_H
#define RBPROBE_QUEUE_KEY_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * A System V key has 32 bits. Linux' largest PID needs 22 of them (PID_MAX_LIMIT is 4194304); the upper ten
 * hold a constant of ours, so that no other program's small keys, and not those of rbtrace (the bare PID),
 * are met. The PID is the one the target has in its own PID namespace. Anybody may make a queue with any key: where that of the
 * PID is taken, the target takes another number in its place. Which queue is whose, the kernel says: its creator's
 * user, and the process that received from it last, which each target is of its own queue from the beginning.
 */
#define QUEUE_KEY_CONSTANT 0x2b5u
#define QUEUE_KEY_PID_BITS 22
#define QUEUE_KEY_PIDS ((1u << QUEUE_KEY_PID_BITS) - 1)

static inline key_t queue_key(pid_t pid)
{
	return (key_t)((QUEUE_KEY_CONSTANT << QUEUE_KEY_PID_BITS) | ((unsigned)pid & QUEUE_KEY_PIDS));
}

/* Of the process that made it, unless that has taken another number. */
static inline pid_t queue_key_pid(key_t key)
{
	return (pid_t)((unsigned)key & QUEUE_KEY_PIDS);
}

/* Whether it is one that a target of ours may have chosen. */
static inline bool queue_key_is_ours(key_t key)
{
	return (unsigned)key >> QUEUE_KEY_PID_BITS == QUEUE_KEY_CONSTANT;
}

/* Of the message that a target sends to itself, and receives at once. */
#define QUEUE_STAMP_TYPE 3L

#endif
