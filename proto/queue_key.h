#ifndef RBPROBE_QUEUE_KEY_H
#define RBPROBE_QUEUE_KEY_H

#include <sys/types.h>

/*
 * A System V key has 32 bits. Linux' largest PID needs 22 of them (PID_MAX_LIMIT is 4194304); the upper ten
 * hold a constant of ours, so that no other program's small keys, and not those of rbtrace (the bare PID),
 * are met. The PID is the one the target has in its own PID namespace.
 */
#define QUEUE_KEY_CONSTANT 0x2b5u

static inline key_t queue_key(pid_t pid)
{
	return (key_t)((QUEUE_KEY_CONSTANT << 22) | ((unsigned)pid & 0x3fffffu));
}

#endif
