#ifndef RBPROBE_TOP_AUTO_H
#define RBPROBE_TOP_AUTO_H

#include "tracer/cli/request.h"
#include "tracer/top/top_hot.h"
#include "tracer/top/top_poll.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The choice of methods where the user made none: the stacks of the processes are sampled for a second, in sessions of their
 * own, and the hottest methods are chosen. Every ten seconds again; those that are counted change only where the hottest do.
 */

#define TOP_AUTO_METHODS 50u

struct top_auto {
	const struct options *options;
	struct command command;
	struct request *requests;
	pid_t *pids; /* of each */
	size_t count;
	bool sampling;
	uint64_t until_ns; /* of the samples */
	uint64_t next_ns;  /* the next sample; where none are taken: the next time of them */
	struct top_hot hot;
	char *names[TOP_AUTO_METHODS]; /* that were chosen, the hottest first */
	size_t name_count;
	size_t unnamed; /* methods as hot that no selector is for */
	bool ready;     /* these are not yet those that are counted; reset by the owner */
};

/* options must stay. */
void top_auto_init(struct top_auto *chooser, const struct options *options);
/* Begins to sample these processes, if it is time. */
void top_auto_begin(struct top_auto *chooser, const pid_t *pids, size_t count, uint64_t now_ns);
void top_auto_collect(const struct top_auto *chooser, struct top_poll *poll);
void top_auto_step(struct top_auto *chooser, struct top_poll *poll, uint64_t now_ns);
void top_auto_excuse(struct top_auto *chooser, uint64_t busy_ns);
/* Why a process could not be sampled the last time; NULL: it could, or was not. */
const struct error *top_auto_failure(const struct top_auto *chooser, pid_t pid);
/* A few words about the choice. */
void top_auto_describe(const struct top_auto *chooser, struct buffer *to);
/* Lets go of all processes at once. */
void top_auto_free(struct top_auto *chooser);

#endif
