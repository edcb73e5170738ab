#ifndef RBPROBE_REQUEST_H
#define RBPROBE_REQUEST_H

#include "proto/command.h"
#include "proto/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What a session was asked for on demand: an evaluation, a backtrace, a heap dump. A request lives from its REPLY to its DONE, in
 * a job only or much longer, and may outlive its session: then there is nobody to tell, and every function here that sends does
 * nothing. Context: GVL held, except where a function says otherwise.
 */

struct msgpack_builder;
struct session;
struct request;

enum cancel_reason {
	CANCEL_ASKED,    /* by the client */
	CANCEL_TIMEOUT,  /* its time limit has passed */
	CANCEL_DETACHED, /* its client is gone */
	CANCEL_EXIT,     /* the process exits; no Ruby function may be called */
};

/* A kind of request: one per command, in a file of its own. */
struct request_kind {
	const char *name;
	/*
	 * Does what was asked, or has it done: request_finish() is called in here or later. command is valid until it returns.
	 * May raise: that finishes the request with the exception's message.
	 */
	void (*begin)(struct request *request, const struct command *command);
	/*
	 * Ends a request that is under way as soon as possible. Called once for each reason at most. NULL: it is never under way
	 * when begin() has returned.
	 */
	void (*cancel)(struct request *request, enum cancel_reason reason);
};

struct request {
	const struct request_kind *kind;
	struct session *session; /* NULL: gone */
	uint32_t command_id;
	void *state; /* the kind's own */

	/* private */
	uint64_t deadline_ns; /* UINT64_MAX: none */
	uint32_t needs;       /* what the application has to allow for it: permissions.h */
	bool cancelled;
	struct request *next; /* of the session */
};

#define REQUEST_DECLARE(number, name, kind) extern const struct request_kind request_##kind;
REQUESTS(REQUEST_DECLARE)

void eval_init(void);

/*
 * Makes and begins a request; it is answered by a DONE in any case. 0, or negative and err where it could not even be made: then
 * it is answered by the REPLY alone.
 */
int request_open(struct request **made, const struct request_kind *kind, struct session *session, const struct command *command,
                 struct error *err);
void request_begin(struct request *request, const struct command *command);

/* The client's CANCEL. False: no such request is under way. */
bool request_cancel(struct session *session, uint32_t command_id);
/* The session ends: its requests are cancelled and lose it. */
void request_abandon_all(struct session *session, enum cancel_reason reason);
/* A forked child: its parent's requests are nobody's here. Async-signal-safe. */
void request_fork_child(struct session *session);

/* Whether some request has passed its time limit. Any thread. */
bool requests_overdue(void);
/* Job: cancels those that have. */
void request_cancel_overdue(void);

/* True while there is a client and it keeps up: false means wait, without the GVL, before sending more. */
bool request_may_send(const struct request *request);
void request_output(struct request *request, enum output_stream stream, const char *bytes, size_t size);
/*
 * Sends DATA, and empties the answer. False, and nothing is sent: there was no memory for it, or it is larger than a record may
 * be (FRAME_SIZE_MAX).
 */
bool request_answer(struct request *request, struct msgpack_builder *answer);
/*
 * The same with a descriptor for the client, which is closed here in any case: who writes into its other end learns from that
 * where nobody has it.
 */
void request_answer_descriptor(struct request *request, struct msgpack_builder *answer, int descriptor);
/* Sends DONE and frees the request. code: 0 or an errno. text may be "". */
void request_finish(struct request *request, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
