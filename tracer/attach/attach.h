#ifndef RBPROBE_ATTACH_H
#define RBPROBE_ATTACH_H

#include "tracer/attach/queue.h"
#include "tracer/attach/rendezvous.h"
#include "tracer/inject/loader.h"
#include "tracer/process/target.h"

#include "proto/command.h"
#include "proto/error.h"
#include "proto/record.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * The client's end of a session with one target, from the first ring of its bell to the end of its stream. It never
 * waits by itself: attachment_step() does what can be done now and says in wake_ns when it wants to be called again;
 * whoever drives it polls the descriptors in between. So one client attaches to several targets at once, and a slow one
 * holds up nobody.
 */
enum attachment_state {
	ATTACHMENT_EXPECTING, /* started by `rbprobe exec`; it makes its queue itself when it loads the extension */
	ATTACHMENT_ATTACHING, /* commands are on their way; the target has not connected yet */
	ATTACHMENT_CONNECTED, /* connected; the answer to the request is not here yet */
	ATTACHMENT_ARMED,     /* the request was answered; events come */
	ATTACHMENT_DETACHING, /* asked to end; what is still in flight comes */
	ATTACHMENT_OVER,
};

struct attachment {
	struct target target;
	enum attachment_state state;
	int fd;                       /* to the target, non-blocking; -1: not connected */
	int process;                  /* pidfd, readable when the process has ended; -1 where the kernel has none */
	struct loader_report loading; /* what the loader found and did */
	bool launched;                /* by `rbprobe exec`: it waits for us and need not be rung */
	bool forked;                  /* by a process that is traced: it greets by itself and is not rung before */
	bool ended;                   /* set by the owner: END has come, so that the target has cleaned up after itself */
	uint64_t timeout_ns;          /* for attaching, and for detaching */
	bool interrupt;               /* its main thread is to be woken whatever it waits in */
	uint64_t wake_ns;             /* step again at this time at the latest; UINT64_MAX: only when a descriptor is ready */

	/* private */
	struct command command; /* what it points to is the owner's */
	struct rendezvous rendezvous;
	uint8_t nonce[NONCE_SIZE];
	int queue;         /* -1: not found yet */
	pid_t bell;        /* the bell thread of a launched process that has connected; 0: not known */
	bool queue_is_new; /* there was none before we rang */
	struct outbox outbox;
	uint32_t command_id;
	uint32_t last_id;       /* of the commands so far */
	uint32_t unanswered_id; /* a later command that is not answered yet; 0: none */
	uint64_t deadline_ns;
	uint64_t ring_ns; /* when the bell is rung next */
	uint64_t ring_interval_ns;
	uint64_t look_interval_ns;
	uint64_t start_look_ns; /* when the loader is asked next whether the extension could start */
	bool descriptors;       /* it may send some */
	bool greeted;           /* the target has said hello */
	int restarts;           /* how often its queue was removed under us, and we began again */
};

/* How to attach. */
struct attach_manner {
	bool may_load;  /* the extension, where it is not there */
	bool interrupt; /* the main thread out of whatever it waits in, which then ends early */
	uint64_t timeout_ns;
	bool descriptors; /* the process may send some */
};

/*
 * Begins to attach, after loading the extension where that is needed and allowed. `request` (its id is chosen here)
 * follows right after the attach command. Returns 0; a negative code with err where it cannot work: no such process,
 * not Ruby, not loaded, ...
 */
int attachment_open(struct attachment *attachment, pid_t pid, const struct command *command, const struct attach_manner *manner,
                    struct error *err);

/* The same for a process that `rbprobe exec` has started and that may not be Ruby yet. */
int attachment_expect(struct attachment *attachment, pid_t pid, const struct command *command, uint64_t timeout_ns,
                      struct error *err);

/* A forked child of an attached process has connected by itself, as the trace follows forks. Takes the descriptor. */
struct meeting; /* meeting.h */
void attachment_adopt(struct attachment *attachment, pid_t pid, int descriptor, const struct meeting *meeting,
                      uint64_t timeout_ns);

/* The descriptor to poll for reading: the listening socket, then the connection. -1: none at the moment. */
int attachment_descriptor(const struct attachment *attachment);

/* Goes on as far as possible without waiting. Negative with err: it failed; close it. */
int attachment_step(struct attachment *attachment, uint64_t now_ns, struct error *err);

/* The records by which a session gets on. Negative with err: close it. */
int attachment_hello(struct attachment *attachment, const struct record_hello *hello, struct error *err);
int attachment_reply(struct attachment *attachment, const struct record_reply *reply, struct error *err);

/*
 * Sends one more command over a session that is armed, when the one before is answered, and returns its id. What
 * command points to is copied. The REPLY must come within the session's timeout: else attachment_step() fails.
 */
uint32_t attachment_send(struct attachment *attachment, const struct command *command);

/* Whether the last of these has its REPLY: until then the target has not looked at it. */
bool attachment_has_answered(const struct attachment *attachment);

/* Asks a process that counts for its figures, where it has been armed and has answered all that was asked; false: not now. */
bool attachment_ask_statistics(struct attachment *attachment);

/*
 * The client was busy for so long with something else, and has not looked for answers meanwhile: that is not the
 * target's time.
 */
void attachment_excuse(struct attachment *attachment, uint64_t busy_ns);

/* Asks the target to end the session. */
void attachment_detach(struct attachment *attachment);

/* The process is still there, only its socket closed: it called exec, or attachment_runs_on(). */
bool attachment_has_execed(const struct attachment *attachment);

/* Of one that is still there: it has the extension, so it called no exec, but its application has closed the connection. */
bool attachment_runs_on(const struct attachment *attachment);

/* A launched process runs the program that has connected, and called no exec: its bell thread is the one that it was. */
bool attachment_is_same_program(const struct attachment *attachment);

/* How a process has left whose connection ended without END. */
enum attachment_leaving {
	LEFT_BY_EXEC,   /* it is still there: attachment_has_execed() */
	LEFT_ALONE,     /* so it is, and runs on as it was: the application has closed the connection */
	LEFT_BY_EXIT,   /* without its exit handlers */
	LEFT_BY_SIGNAL, /* *signal: by which */
	LEFT_UNKNOWN,
};

/* Waits a moment for the end of a killed process, whose sockets end first. */
enum attachment_leaving attachment_left(const struct attachment *attachment, int *signal);

/* Lets go of everything, at any time; removes the queue of a dead process. Idempotent. */
void attachment_close(struct attachment *attachment);

#endif
