#ifndef RBPROBE_MEETING_H
#define RBPROBE_MEETING_H

#include "tracer/attach/rendezvous.h"

#include <stdint.h>

struct attachment;

/*
 * Where the forked children of a process come, when a trace follows forks: the socket that the process itself has come to, which
 * stays for as long as any of its descendants is traced.
 */
struct meeting {
	struct rendezvous rendezvous;
	uint8_t nonce[NONCE_SIZE];
	uint32_t command_id;
	uid_t user;
};

/* Takes it over from a process that has connected. False: not now, or its trace does not follow forks. */
bool meeting_take(struct meeting *meeting, struct attachment *attachment);
/* A child that has come: its descriptor and PID, or negative. */
int meeting_accept(struct meeting *meeting, pid_t *pid);

#endif
