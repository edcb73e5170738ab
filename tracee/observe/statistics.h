#ifndef RBPROBE_STATISTICS_H
#define RBPROBE_STATISTICS_H

struct session;

/*
 * Sends the figures of a session that counts, as they are at its end: once, when no event changes them any more. Job context, or
 * the exit of the process: calls nothing of Ruby's.
 */
void statistics_last_words(struct session *session);

#endif
