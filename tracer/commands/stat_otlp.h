#ifndef RBPROBE_STAT_OTLP_H
#define RBPROBE_STAT_OTLP_H

#include "tracer/commands/otlp_run.h"
#include "tracer/stream/stat_table.h"

/* Figures that go to --otlp. */

struct stat_otlp_process; /* what is known of one */

/* The first four are for the owner to set. */
struct stat_otlp {
	struct otlp_run *run;
	bool delta;       /* what is sent has come since the last time, and is not all */
	bool exponential; /* the histograms */
	uint32_t measures;
	uint64_t look_ns; /* when it is to be looked how it goes */
	struct stat_otlp_process *processes;
	size_t count;
};

/* A process has been reached. */
void stat_otlp_process(struct stat_otlp *otlp, pid_t pid, struct slice ruby_version);
/* by: what rows of one method differ in, or NULL. */
void stat_otlp_send(struct stat_otlp *otlp, const struct stat_table *const *tables, size_t count, const char *by);
/* Where it does not go on, the output fails. */
void stat_otlp_look(struct stat_otlp *otlp, struct output *output, uint64_t now_ns);
void stat_otlp_free(struct stat_otlp *otlp);

#endif
