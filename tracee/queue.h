#ifndef RBPROBE_QUEUE_H
#define RBPROBE_QUEUE_H

#include "proto/chunk.h"
#include "proto/error.h"

#include <stdbool.h>

/*
 * The target's side of the command queue. It exists only while somebody attaches or is attached: the bell's handler makes it,
 * and the job that ends the last session removes it. Its mode and owner are the authority: who can write to it is the target's
 * own user, or root.
 */

/* Remembers when this process began: queues older than that are a dead process's. Init, and again in a forked child. */
void queue_init(void);

/* Has the bell ring in a moment, where it does by itself; who rings without the signal does so again. */
void queue_ring_soon(void);

/* The signal came from the queue's own timer. Async-signal-safe. */
void queue_timer_rang(void);

/* Makes the queue unless one is there. Async-signal-safe: that a client sees it tells it that the handler is alive, even while the VM is not. */
void queue_create(void);

/* This process's queue, or -1, without a look at whose it is. Async-signal-safe. */
int queue_of_process(void);

/*
 * Takes everything out of the queue and hands each complete command to `run`. Job context, no Ruby call of its own. Returns the number of messages taken,
 * or negative and err when the queue is not to be trusted (-EPERM: of a foreign owner, or writable for others).
 */
int queue_drain(void (*run)(const struct assembled_command *command), struct error *err);

/* Whether there is one, whoever's. */
bool queue_exists(void);

/* Removes it. Any context with the GVL, and exit. */
void queue_remove(void);

/* While no session holds it, the queue goes by itself when this many seconds have passed since the last call: the bell is rung. */
void queue_expire_after(unsigned seconds);
/* True once that time is over; job context. */
bool queue_expired(void);
void queue_keep(void);

#endif
