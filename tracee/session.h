#ifndef RBPROBE_SESSION_H
#define RBPROBE_SESSION_H

#include "proto/command.h"
#include "proto/error.h"
#include "proto/limits.h"
#include "proto/record.h"
#include "ring.h"

#include <stdatomic.h>
#include <stdbool.h>

/*
 * One attached client: its socket, its ring and writer thread, and what it has armed. Sessions are made, armed, disarmed and taken
 * from the list in jobs, under the GVL. A session's last owner is its writer thread, which frees it.
 *
 * The rule of lifetimes. A detach frees the session and everything it owns: selection, probes, expressions, the engines' sites and links, console. It happens in
 * a job, and a job may run wherever Ruby code runs or the GVL is handed over. That is in more places than it seems: in every call of a method (the
 * application may have overridden it, or watch it by a TracePoint), in turn_pass(), in a fork in another thread. So:
 *
 * - A job may keep what it has: there is one job at a time.
 * - Everybody else (events, method_added, threads that evaluate) holds the session from before such a place until the last use: session_hold(),
 *   session_release(). The detach is put off until nobody holds it. Nobody else holds it for longer than one event takes.
 * - session_release() always comes, so what runs in between is under rb_protect.
 * - A hold keeps things alive, not armed: the selection may be disabled meanwhile (selection_is_over()). Who arms looks before and after.
 * - Other threads may add to what is held: lists and tables are walked so that additions do no harm, and looked at again before something is added.
 */

struct console;
struct request;
struct selection; /* what the session observes; selection.h */

/* Something for the client besides events: encoded records, in a list from the GVL holder to the writer. */
struct message {
	_Atomic(struct message *) next;
	uint64_t position; /* the ring's head when it was posted: events before it go out first */
	size_t size;
	int descriptor;      /* goes with it, and is closed then; */
	bool has_descriptor; /* if there is one */
	char bytes[];
};

struct session {
	/* What each event looks at, in one cache line; the ring has its own. */
	_Alignas(64) unsigned slot; /* index into what others keep per session, below SESSIONS_MAX; set once, at attach */
	_Atomic bool gone; /* the client cannot be reached: events return at once; between the GVL holder and the writer */
	bool detaching;    /* as soon as nobody holds it; changes under the GVL */
	unsigned held;     /* how many hold it, of all threads; changes under the GVL */
	uint64_t calls;    /* that began while armed, in the main Ractor; changes under the GVL */
	struct trace_options options; /* set by the trace command, under the GVL */

	/* Set once, at attach. */
	uint8_t nonce[NONCE_SIZE];
	int socket;
	pid_t pid; /* the process it belongs to: a forked child has copies of its parent's sessions */

	/* Set by the trace command, under the GVL. */
	struct selection *selection;

	/* Changes under the GVL. */
	struct session *next;
	struct message *newest;   /* end of the message list */
	char *scratch;            /* VALUES_SIZE_MAX bytes for the values of the event in the making */
	bool scratch_used;        /* by an event that is running Ruby code meanwhile */
	struct console *console;  /* NULL: no console's client; console.h */
	struct request *requests; /* under way, newest first; request.h */
	bool told_missing;        /* what the application has taken away; session_tell_missing() */
	bool leaked;              /* at exit: late events may still look at it, so nobody frees it */
	uint64_t other_ractors;   /* calls in other Ractors; known when disarmed */

	/* Between the GVL holder and the writer. */
	struct ring ring;
	struct message *oldest; /* the writer's end of the message list: a message already written, or the first dummy */
	_Atomic size_t waiting; /* bytes of messages that the writer has not taken yet */
	_Atomic bool closing;   /* no event touches it any more: write what there is, then END; the writer owns it from here on */
	enum end_reason end_reason; /* set before closing */
	char end_text[256];
};

/* The live sessions of this process, newest first. GVL. */
struct session *session_first(void);
struct session *session_find(const uint8_t nonce[NONCE_SIZE]);

/* See above. Both are cheap, allocate nothing and never raise. GVL, any context. */
void session_hold(struct session *session);
void session_release(struct session *session);
/* For walking all sessions: releases the one, and holds and returns the next. NULL: the first, and behind the last. */
struct session *session_hold_next(struct session *held);

/*
 * Connects to the client's socket, checks who listens there, starts the writer, and greets. A client that must be refused
 * (another protocol version, too many sessions) is told so over its socket. 0, or negative and err when it cannot be reached.
 */
int session_attach(const uint8_t nonce[NONCE_SIZE], const struct command *command, struct error *err);

/*
 * Disarms a session and takes it off the list; session_finish() ends it. Where somebody holds it at this moment, that happens as soon as it is released, by
 * a job that session_release() asks for.
 */
void session_detach(struct session *session, enum end_reason reason, const char *text);

/* Lets the writers of detached sessions send what is left, and their END. Behind everything that a client may expect to be gone by then. */
void session_finish(void);

/* Detaches those whose clients have gone, and those that could not be detached before. Returns how many are left. */
unsigned session_reap(void);

/* Process exit: every session gets its END, unless its client reads nothing for timeout_ms. */
void session_exit(unsigned timeout_ms);

/* In a forked child: the parent's sessions are forgotten without touching what the parent shares. Only async-signal-safe work. */
void session_fork_child(void);
/* Later, in a job of the child: frees what that left. */
void session_fork_clean(void);
/* Whether there are any. */
bool session_fork_left(void);

/* Queues one record for the client. GVL; allocates. Dropped when there is no memory, or when it is larger than a record may be. */
void session_send(struct session *session, const struct record *record);
/* The same with a descriptor for the client, which is closed here in any case. */
void session_send_descriptor(struct session *session, const struct record *record, int descriptor);
void session_note(struct session *session, enum note_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Once a session: notes what the application has taken away of Ruby's own, where that was missed. Before an answer that may be due to it. */
void session_tell_missing(struct session *session);

#endif
