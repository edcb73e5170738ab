#ifndef RBPROBE_SILENT_FORK_H
#define RBPROBE_SILENT_FORK_H

#include "proto/error.h"

#include <stdbool.h>
#include <sys/types.h>

/*
 * Forked copies of this process that the application does not notice: no SIGCHLD, nothing that Process.wait(-1) would find, no
 * zombie. See silent_fork.c. Context: job, except where a function says otherwise.
 */

enum silent_fork_kind {
	SILENT_FORK_SERVANT, /* works for us: ends with this process at the latest */
	SILENT_FORK_FROZEN,  /* for others: stays when this process is gone */
};

struct silent_fork;

/*
 * Forks. In the copy run(order) is called, on the stack of the caller, and must not return; silent_fork_settle() is the first
 * thing it does. ended(owner) is called by a later job, with what waitpid() says, and not any more once silent_fork_forget() was
 * called. The caller sees to it that there is no Ractor but the main one. 0, or negative and err.
 */
int silent_fork_start(struct silent_fork **made, enum silent_fork_kind kind, void (*run)(void *order),
                      void (*ended)(void *owner, int status), void *order, void *owner, struct error *err);

/* In this process's PID namespace. */
pid_t silent_fork_pid(const struct silent_fork *copy);

/* SIGKILL, if it is still there. */
void silent_fork_kill(struct silent_fork *copy);

/* Nobody wants to know of it any more; it goes on. */
void silent_fork_forget(struct silent_fork *copy);

/* Whether a copy of the process has ended, and a job is to hear of it. Any thread. */
bool silent_forks_ended(void);
/* Job: calls ended() of those that have. */
void silent_forks_finish(void);

/* A forked child: the copies are its parent's. Async-signal-safe. */
void silent_forks_fork_child(void);

/*
 * In a copy, first of all: no signal reaches it but those that nothing stops and SIGPIPE, every descriptor but keep (-1: none)
 * leads to /dev/null or is closed. Returns keep's new number.
 */
int silent_fork_settle(enum silent_fork_kind kind, const char *name, int keep);

#endif
