#ifndef RBPROBE_SESSION_PARTS_H
#define RBPROBE_SESSION_PARTS_H

#include "tracee/session/session.h"

/* What session.c, session_connect.c, session_fork.c and session_send.c share, and nobody else sees. */

#define SESSION_RING_SIZE (8u << 20)

struct sessions {
	struct session *first;    /* live sessions */
	struct session *finished; /* disarmed; session_finish() hands them to their writers */
	struct session *parents;  /* in a forked child: its parent's, to be freed by a job */
};

/* Under the GVL. */
extern struct sessions sessions;

/* How often this native thread holds it, besides its fibers. */
unsigned session_own_holds(const struct session *session);

/* What other rooms keep for it: freed; made to begin anew. */
void session_release_parts(struct session *session);
bool session_adopt_parts(struct session *session);

/*
 * Connects to the client that has sent this ATTACH, and makes sure that who listens is this process's own user, or root, and the
 * process that wrote the command; *uid: who. Returns a descriptor, or negative and err.
 */
int session_connect_as(const struct command *command, uint32_t *uid, struct error *err);
/* The same for the client of a session. Async-signal-safe; negative: it cannot be reached. */
int session_connect_again(const struct session *session);

void session_send_hello(struct session *session);

/* Sends it, too. */
void session_send_copy(struct session *session, const struct message *message);
/* Frees the copies of what every client has to know. */
void session_forget_lasting(struct session *session);

#endif
