#ifndef RBPROBE_TRACE_FORKS_H
#define RBPROBE_TRACE_FORKS_H

#include "proto/clock.h"
#include "tracer/attach/meeting.h"
#include "tracer/commands/trace_target.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * --follow-forks: where the forked children of traced processes come to by themselves. A place stays for as long as one of the
 * processes that belong to it is traced, and a moment longer: a child may be on its way when its parent has ended (a daemon's).
 */

#define FORKS_LINGER_NS (200 * NS_PER_MS)

struct fork_place {
	struct meeting meeting;
	size_t members;
	uint64_t left_ns; /* when the last of them left */
};

struct forks {
	struct fork_place **places;
	size_t count;
};

/* Takes over the places of processes that have connected. */
void forks_take(struct forks *forks, struct trace_target *traced);
/* The process is over. */
void forks_leave(struct trace_target *traced, uint64_t now_ns);
/* Gives everybody who has come to `join`, with a descriptor that it takes; gives up places where nobody will come any more. */
void forks_step(struct forks *forks, uint64_t now_ns,
                void (*join)(void *owner, struct fork_place *place, pid_t pid, int descriptor), void *owner);
/* When places are given up next. */
uint64_t forks_wake_ns(const struct forks *forks);
void forks_free(struct forks *forks);

#endif
