#ifndef RBPROBE_COPY_H
#define RBPROBE_COPY_H

#include "proto/error.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * Forked copies of this process that the application does not notice: no SIGCHLD, nothing that Process.wait(-1) would find, no zombie. See copy.c.
 * Context: job, except where a function says otherwise.
 */

enum copy_kind {
	COPY_SERVANT, /* works for us: ends with this process at the latest */
	COPY_FROZEN,  /* for others: stays when this process is gone */
};

struct copy;

/*
 * Forks. In the copy run(order) is called, on the stack of the caller, and must not return; copy_settle() is the first thing it does. ended(owner) is
 * called by a later job, with what waitpid() says, and not any more once copy_forget() was called. The caller sees to it that there is no
 * Ractor but the main one. 0, or negative and err.
 */
int copy_start(struct copy **made, enum copy_kind kind, void (*run)(void *order), void (*ended)(void *owner, int status),
               void *order, void *owner, struct error *err);

/* In this process's PID namespace. */
pid_t copy_pid(const struct copy *copy);

/* SIGKILL, if it is still there. */
void copy_kill(struct copy *copy);

/* Nobody wants to know of it any more; it goes on. */
void copy_forget(struct copy *copy);

/* Job: calls ended() of those that have. copies_ended() (overdue.h) says that there are some. */
void copies_finish(void);

/* A forked child: the copies are its parent's. Async-signal-safe. */
void copies_fork_child(void);

/*
 * In a copy, first of all: no signal reaches it but those that nothing stops and SIGPIPE, every descriptor but keep (-1: none) leads to /dev/null or is closed.
 * Returns keep's new number.
 */
int copy_settle(enum copy_kind kind, const char *name, int keep);

#endif
