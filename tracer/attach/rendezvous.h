#ifndef RBPROBE_RENDEZVOUS_H
#define RBPROBE_RENDEZVOUS_H

#include "tracer/process/target.h"

#include "proto/error.h"
#include "proto/limits.h"

#include <stdbool.h>

/*
 * The place where a target connects back: a listening socket in a directory of its own, mode 0700 and owned by the target's
 * user, in the target's own /tmp (it may live in a container or a chroot). It is there only while attaching.
 */
struct rendezvous {
	int listener;                          /* -1: closed */
	int keeper;                            /* to the child that keeps the directory: it takes it away when this is closed */
	pid_t keeper_pid;                      /* 0: none */
	char socket_path[SOCKET_PATH_MAX + 1]; /* as the target sees it */
};

#define RENDEZVOUS_CLOSED ((struct rendezvous){.listener = -1, .keeper = -1})

/* rendezvous_close() also removes what clients that died while attaching left behind. descriptors: the target may send some. */
int rendezvous_open(struct rendezvous *rendezvous, const struct target *target, bool descriptors, struct error *err);

/*
 * Takes a connection that has come. Returns its descriptor (non-blocking) when the target itself is at the other end,
 * -EAGAIN when nobody (or somebody else) has come.
 */
int rendezvous_accept(struct rendezvous *rendezvous, const struct target *target);

/* The same for a process that user runs, whichever it is; *pid: as it is seen from here. */
int rendezvous_accept_other(struct rendezvous *rendezvous, uid_t user, pid_t *pid);

/*
 * Has socket and directory removed. May be called at any time, also twice. Where this program ends without it, they go
 * as well.
 */
void rendezvous_close(struct rendezvous *rendezvous);

#endif
