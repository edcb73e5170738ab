#ifndef RBPROBE_THREAD_NAMES_H
#define RBPROBE_THREAD_NAMES_H

#include "tracee/session/session.h"

/*
 * Names of threads, for a timeline: a thread that makes no call which is traced has no FIBER of its own. The client gets one for
 * each thread that has a name, as for marks outside of calls. It is said again where the name has changed.
 */

struct thread_names;

/* Tells the session's client of all threads that live, in a job that may call Ruby's methods; raises nothing. */
void thread_names_tell(struct session *session);
/* In each job: the same for all sessions that thread_names_ask() was called for. */
void thread_names_look(void);
/* There may be others by now: a job looks, at most once a second. Writer. */
void thread_names_ask(struct session *session);
void thread_names_free(struct thread_names *names);

#endif
