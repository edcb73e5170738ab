#ifndef RBPROBE_COMMAND_INBOX_H
#define RBPROBE_COMMAND_INBOX_H

#include "proto/chunk.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * What comes into the command queue while no job does. The kernel's queue holds some 16 KiB, and a job may come only every 100 ms
 * (Ruby up to 3.2 with the main thread in a blocking read): a large command would take minutes. So from its first chunk on,
 * writers take its chunks out of the queue as they come, and the next job finds them here, in their order.
 */

/* Begins anew in Init, and in a forked child: what is the parent's is dropped. */
void command_inbox_init(void);

/*
 * The next message, from here or else from the queue, of whatever type. Its size as of msgrcv(); -1: there is none. Job context.
 */
ssize_t command_inbox_next(int queue_id, struct chunk *chunk);

/* Behind each message: whether more of a command is to come, for which writers then look in this queue. Job context. */
void command_inbox_expect(int queue_id, bool more);

/* Takes what is in the queue, if more is expected. True: there is something here for a job. Writers, without the GVL. */
bool command_inbox_take(void);

/* The queue is about to go, and what is here with it. Any context with the GVL, and exit. */
void command_inbox_end(void);

#endif
