#ifndef RBPROBE_OVERDUE_H
#define RBPROBE_OVERDUE_H

struct session;

/*
 * Calls that have been running for longer than --slow are shown before they end: a job puts their starts into the ring. Only
 * where nothing else has to be known of their ends. The writer asks for the job when it is time and calls are open
 * (session_look_is_due()); where none is, nothing happens.
 */

/* The session's conditions are known: from now on it is looked at where that makes sense. Job context. */
void overdue_open(struct session *session);

/* Looks at the sessions for which it is time. Job context. */
void overdue_look(void);

#endif
