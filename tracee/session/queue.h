#ifndef RBPROBE_QUEUE_H
#define RBPROBE_QUEUE_H

#include "proto/chunk.h"
#include "proto/error.h"

#include <stdbool.h>

/*
 * The target's side of the command queue. It exists only while somebody attaches or is attached: the bell's handler makes it, and
 * the job that ends the last session removes it. Its mode, owner and creator are the authority: who can write to it is the
 * target's own user, or root. So commands are taken only from the queue that this process itself has made: under its key there
 * may be anybody's.
 */

/* Init, and again in a forked child, which has none until somebody rings. */
void queue_init(void);

/* Has the bell ring in a moment, where it does by itself; who rings without the signal does so again. */
void queue_ring_soon(void);
/* The same in so many milliseconds. */
void queue_ring_in(unsigned milliseconds);
/* What was to ring without a queue. */
void queue_ring_no_more(void);
/* Whether it does by itself. */
bool queue_rings_itself(void);

/* The signal came from the queue's own timer. Async-signal-safe. */
void queue_timer_rang(void);

/*
 * Makes the queue unless there is one. Async-signal-safe: that a client sees it tells it that the handler is alive, even while
 * the VM is not.
 */
void queue_create(void);

/* The queue that this process has made, or -1. Async-signal-safe. */
int queue_own(void);
bool queue_exists(void);

/*
 * Takes everything out of the queue and hands each complete command to `run`, until that says false: then a job follows soon.
 * Job context, no Ruby call of its own. Returns the number of messages taken, or negative and err. One that is not to be
 * trusted any more is given up.
 */
int queue_drain(bool (*run)(const struct assembled_command *command), struct error *err);

/* Removes it. Any context with the GVL, and exit. */
void queue_remove(void);

/*
 * While no session holds it, the queue goes by itself when this many seconds have passed since the last call: the bell is rung.
 */
void queue_expire_after(unsigned seconds);
/* True once that time is over; job context. */
bool queue_expired(void);
void queue_keep(void);

#endif
