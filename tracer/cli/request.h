#ifndef RBPROBE_TRACER_REQUEST_H
#define RBPROBE_TRACER_REQUEST_H

#include "tracer/attach/attach.h"
#include "tracer/cli/options.h"
#include "tracer/stream/decode.h"

#include "proto/command.h"
#include "proto/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * One request to one process (an evaluation, a backtrace, ...), from attaching to its answer's last byte. As with
 * sessions nothing in here waits but request_run(): several are driven at once, and a process that is stuck holds up
 * nobody.
 */

struct request;

/* What becomes of an answer. A negative result with err ends the request as failed. Any may be NULL. */
struct request_handler {
	bool descriptors; /* may come with the answer */
	bool reply_ends;  /* METHODS: its REPLY is the end of the answer, and no DONE follows */
	/* The process has answered the handshake. */
	void (*attached)(struct request *request);
	/* A piece of the answer; the object is valid until the function returns. value.h reads it. */
	int (*data)(struct request *request, const msgpack_object *object, struct error *err);
	int (*output)(struct request *request, enum output_stream stream, struct slice bytes, struct error *err);
	int (*match)(struct request *request, const struct record_match *match, struct error *err);
	/*
	 * The process has ended meanwhile. True: what had come is an answer. NULL: it is none. How the process ended is said
	 * in both cases.
	 */
	bool (*partial)(const struct request *request);
	/*
	 * The request is over: code 0 or an errno, and why, which is said where this is NULL. Not called where it could
	 * not even be made.
	 */
	void (*done)(struct request *request, uint32_t code, struct slice text);
};

struct request {
	struct attachment attachment;
	struct stream *stream;
	const struct options *options;
	const struct request_handler *handler;
	void *owner;
	uint32_t command_id;  /* of the request under way; 0: it is over */
	uint64_t deadline_ns; /* when the request's own time limit must have ended it, with some grace; UINT64_MAX: none */
	bool keep;            /* set by the owner: the session goes on when the request is over, until request_detach() */
	bool cancelled;
	/* nothing more will come; error.text says why if status is not STATUS_DONE and the target has not said it in DONE */
	bool over;
	int status;         /* enum exit_status */
	struct error error; /* text empty: nothing is to be said */
};

/*
 * Begins to attach. Where that cannot work the request is over at once, with its error. What command points to is the
 * owner's and stays until it is over.
 */
void request_open(struct request *request, pid_t pid, const struct command *command, const struct options *options,
                  const struct request_handler *handler, void *owner);

/* What to poll for reading (-1: nothing now), and until when. */
int request_descriptor(const struct request *request);
uint64_t request_wake_ns(const struct request *request);

/* Does what is due; readable is what poll() said of the descriptor. */
void request_step(struct request *request, bool readable, uint64_t now_ns);

/* One more request in a session that was kept, when the one before is over. */
void request_again(struct request *request, const struct command *command);
/*
 * Asks the target to end the request; its DONE then comes soon, or it fails. A request that has not reached the target
 * is over at once.
 */
void request_cancel(struct request *request);
/* Ends a session that was kept. */
void request_detach(struct request *request);

/* Lets go of everything, at any time. */
void request_close(struct request *request);

/* For a handler's done: says why the request failed, if it did. */
void request_report(const struct request *request, uint32_t code, struct slice text);

/* Requests that come while others run. */
struct request_joiners {
	/* Called a few times a second: opens what is new behind the others, and returns how many they are then, at most most. */
	size_t (*look)(void *owner, struct request *requests, size_t count);
	void *owner;
	size_t most; /* for so many there is room */
};

/*
 * Steps through count requests, and those that join them (NULL: none do), until all are over. The first signal (signals.h)
 * cancels them, a second ends the program. Errors are printed. Returns the first status that is not STATUS_DONE. *interrupted
 * is set where a signal came, also where all had been answered just then.
 */
int request_run(struct request *requests, size_t count, const struct request_joiners *joiners, int signals_descriptor,
                bool *interrupted);

#endif
