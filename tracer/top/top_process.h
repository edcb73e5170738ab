#ifndef RBPROBE_TOP_PROCESS_H
#define RBPROBE_TOP_PROCESS_H

#include "tracer/base/buffer.h"
#include "tracer/stream/stat_table.h"
#include "tracer/top/top_session.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One process on the screen of `rbprobe top`: its figures, over all its sessions, and what stands in its line. */

struct top_process {
	pid_t pid;
	struct top_session *session; /* that counts; NULL: none at the moment */
	bool gone;                   /* no session can be had any more */
	enum top_outcome outcome;    /* where it is gone */
	char why[512];               /* then, or "" */
	char ruby[32];
	char command[256]; /* printable */
	struct stat_table total, last;
	double rate;         /* of calls, in the last interval */
	double cpu, gc, gvl; /* percent, in the last interval; negative: not known */
	/* private */
	struct stat_table past; /* of sessions that are over */
	uint64_t answers;       /* of the session, that are in the figures */
	uint64_t cpu_ticks, cpu_at_ns;
	struct stat_table shares; /* the sums that the process sent the last time; no rows */
	uint64_t shares_at_ns;
};

void top_process_init(struct top_process *process, pid_t pid);
/* It is counted by this session from now on. */
void top_process_count(struct top_process *process, struct top_session *session);
/* Takes in what its session has to say since the last time. True: there was something. */
bool top_process_update(struct top_process *process, uint64_t now_ns);
/* The line about it. */
void top_process_line(const struct top_process *process, struct buffer *to);
void top_process_free(struct top_process *process);

#endif
