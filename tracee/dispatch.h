#ifndef RBPROBE_DISPATCH_H
#define RBPROBE_DISPATCH_H

#include "proto/error.h"
#include "tracee/session/session.h"

#include <stdint.h>

/*
 * What the job does: takes commands from the queue, runs them, and cleans up after clients that went. Job context: GVL held, on
 * any thread of the main Ractor, on top of whatever the application was doing there. Raises nothing.
 */
void dispatch_job(void);

/* The REPLY to a command. status: 0, or negative and err. */
void dispatch_reply(struct session *session, uint32_t command_id, int status, const struct error *err, uint64_t count);

/* In a forked child: whoever ran the job may not be there. Async-signal-safe. */
void dispatch_fork_child(void);

/* `rbprobe exec`: waits until a client has attached and armed, or the time is over. From Init. */
void dispatch_wait_for_client(unsigned timeout_ms);

#endif
