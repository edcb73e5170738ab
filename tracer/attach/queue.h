#ifndef RBPROBE_QUEUE_H
#define RBPROBE_QUEUE_H

#include "tracer/base/buffer.h"
#include "tracer/process/target.h"

#include "proto/error.h"
#include "proto/limits.h"

/*
 * The client's end of a target's command queue. The target alone creates it; here it is found, verified to be the
 * target's own, written to, and removed when its process is dead.
 */

/*
 * Looks for the target's queue. Returns 1 with *id; 0 where there is none; negative with err. What is not the target's
 * is passed over, whatever its key. Those of dead processes are removed; root also removes what others have made under
 * the key of the target's PID.
 */
int queue_find(const struct target *target, int *id, struct error *err);

/* Debug lines: all queues that look like ours, and why they are not the target's. */
void queue_debug(const struct target *target);

/* Whether that queue still exists. */
bool queue_is_there(const struct target *target, int id);

/* Whether we may use the target's IPC namespace: 0, or -EPERM with err and the remedy. */
int queue_check_namespace(const struct target *target, struct error *err);

/* Whether the target could make one: 0, or -ENOSPC with err where the system has as many queues as it may have. */
int queue_check_room(const struct target *target, struct error *err);

/* Removes the queue of a process that cannot use it any more; somebody else's is left alone. */
void queue_remove(const struct target *target);

/* Removes this one alone: the program that made it was replaced by another, which may have made its own by now. */
void queue_remove_old(const struct target *target, int id);

/* Encoded commands on their way into a queue. A zeroed struct is empty. */
struct outbox {
	struct buffer bytes; /* commands one after the other, each after its struct outbox_entry */
	size_t command;      /* offset of the entry that is being sent */
	size_t sent;         /* bytes of its command that are in the queue */
};

struct command;
void outbox_add(struct outbox *outbox, const struct command *command);
bool outbox_is_empty(const struct outbox *outbox);
/* Begins again with the first command: the queue was replaced. */
void outbox_rewind(struct outbox *outbox);
void outbox_free(struct outbox *outbox);

/*
 * Puts as much into the queue as goes without waiting. Returns 1 when the outbox is empty, 0 when the queue is full,
 * -EIDRM when there is no such queue any more, another negative code with err.
 */
int outbox_send(struct outbox *outbox, const struct target *target, int queue, const uint8_t nonce[NONCE_SIZE],
                struct error *err);

#endif
