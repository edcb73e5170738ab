#ifndef RBPROBE_ASK_H
#define RBPROBE_ASK_H

#include "attach.h"
#include "decode.h"
#include "options.h"

#include "proto/command.h"
#include "proto/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * One request to one process (an evaluation, a backtrace, ...), from attaching to its answer's last byte. As with sessions nothing in here waits but
 * ask_run(): several are driven at once, and a process that is stuck holds up nobody.
 */

/* What comes of a request. A negative result with err ends it as failed. Any may be NULL. */
struct ask_handler {
	bool descriptors; /* may come with the answer */
	/* A piece of the answer; the object is valid until the function returns. value.h reads it. */
	int (*data)(void *owner, const msgpack_object *object, struct error *err);
	int (*output)(void *owner, enum output_stream stream, struct slice bytes, struct error *err);
	/* The request is over: code 0 or an errno, and why. Not called where it could not even be made. */
	void (*done)(void *owner, uint32_t code, struct slice text);
};

struct ask {
	struct session session;
	struct stream *stream;
	const struct options *options;
	const struct ask_handler *handler;
	void *owner;
	uint32_t command_id;  /* of the request under way; 0: it is over */
	uint64_t deadline_ns; /* when the request's own time limit must have ended it, with some grace; UINT64_MAX: none */
	bool keep;            /* set by the owner: the session goes on when the request is over, until ask_detach() */
	bool cancelled;
	bool over; /* nothing more will come; error.text says why if status is not STATUS_DONE and the target has not said it in DONE */
	int status;         /* enum exit_status */
	struct error error; /* text empty: nothing is to be said */
};

/* Begins to attach. Where that cannot work the ask is over at once, with its error. `request` points into memory of the owner's that stays until it is over. */
void ask_open(struct ask *ask, pid_t pid, const struct command *request, const struct options *options,
              const struct ask_handler *handler, void *owner);

/* What to poll for reading (-1: nothing now), and until when. */
int ask_descriptor(const struct ask *ask);
uint64_t ask_wake_ns(const struct ask *ask);

/* Does what is due; readable is what poll() said of the descriptor. */
void ask_step(struct ask *ask, bool readable, uint64_t now_ns);

/* One more request in a session that was kept, when the one before is over. */
void ask_again(struct ask *ask, const struct command *request);
/* Asks the target to end the request; its DONE then comes soon, or the ask fails. Where the request has not reached the target the ask is over. */
void ask_cancel(struct ask *ask);
/* Ends a session that was kept. */
void ask_detach(struct ask *ask);

/* Lets go of everything, at any time. */
void ask_close(struct ask *ask);

/*
 * Steps through count asks until all are over. The first signal (signals.h) cancels them, a second ends the program. Errors are printed. Returns
 * the first status that is not STATUS_DONE.
 */
int ask_run(struct ask *asks, size_t count, int signals_descriptor);

#endif
