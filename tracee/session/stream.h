#ifndef RBPROBE_STREAM_H
#define RBPROBE_STREAM_H

#include "tracee/session/session.h"

#include <sys/types.h>

/*
 * The writer thread of a session: takes messages and ring records, encodes them in batches, and writes them to the client's
 * socket. It never takes the GVL and has all signals blocked. It frees the session when it is done with it.
 */

/* Starts it. 0 or -errno. Job context. */
int stream_start(struct session *session);

/* The CPU time of the writers' threads, those that are gone too, ns. Any thread. */
uint64_t stream_cpu_ns(void);

/* Appends a message to the session's list. GVL. Ownership of message goes to the writer. */
void stream_post(struct session *session, struct message *message);

/* Process exit: waits until all writers are done, or their clients have read nothing for timeout_ms. */
void stream_await_all(unsigned timeout_ms);
/* Forked child: the parent's writers are not here. Async-signal-safe. */
void stream_forget_all(void);

#endif
