#ifndef RBPROBE_RENDEZVOUS_KEEPER_H
#define RBPROBE_RENDEZVOUS_KEEPER_H

#include "tracer/process/target.h"

/*
 * The child that makes the private directory and its socket, with the target's user and root directory, and takes both
 * away again when its parent closes the control socket or ends, however that be.
 */

#define SOCKET_NAME "s" /* in the directory */

struct keeper_report {
	int status;    /* 0, or -errno of the first place */
	int place;     /* index of the place where it is */
	char name[64]; /* of the directory */
};

/* What the places are called by the target. */
const char *keeper_place(int place);

/*
 * In the child: binds listener, sends one struct keeper_report through control, and never returns. client: whose PID
 * the directory's name has.
 */
_Noreturn void keeper_main(const struct target *target, int listener, int control, pid_t client);

#endif
