#ifndef RBPROBE_TRACE_LOOP_PARTS_H
#define RBPROBE_TRACE_LOOP_PARTS_H

#include "tracer/commands/trace_forks.h"
#include "tracer/commands/trace_target.h"

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What trace_loop.c and trace_outputs.c share. */

struct trace_loop {
	struct run run;
	struct trace_target **targets; /* those that are not over */
	size_t count;
	struct family *family; /* NULL: no others join */
	uint64_t waiting_ns;   /* since when the first of them is waited for; 0: there was one at the start */
	struct forks forks;
	bool told_of_many;
	int signals;
	struct pollfd *polled; /* signals, output, then one for each traced */
	bool output_is_pipe;
	uint64_t count_deadline_ns; /* when calls that --count waits for are given up */
	uint64_t ask_ns;            /* --interval: when the processes are asked next; 0: never */
	bool asked;                 /* and have not all answered */
	uint64_t waited_ns;         /* of the time that writing has taken, what the sessions' deadlines know of */
	uint64_t past_ns;           /* the part of that time that went into files that are closed, */
	uint64_t past_size;         /* and their bytes */
};

/* Of the common sink, or of those of the processes. */
bool loop_sinks_hold(const struct trace_loop *loop);
void loop_sinks_quiet(const struct trace_loop *loop);
/* All have answered, or are late. */
void loop_sinks_round(const struct trace_loop *loop);
uint64_t loop_sinks_wake_ns(const struct trace_loop *loop);
void loop_sinks_wake(const struct trace_loop *loop, uint64_t now_ns);
/* The user wants what they hold. */
void loop_sinks_asked(const struct trace_loop *loop);
/* One of them has what it was waiting for. */
bool loop_sinks_have_enough(const struct trace_loop *loop);

/* False where something cannot be written. */
bool loop_outputs_flush(const struct trace_loop *loop);
/* How long writing has taken, and how many bytes all files have. */
uint64_t loop_outputs_written_ns(const struct trace_loop *loop);
uint64_t loop_outputs_size(const struct trace_loop *loop);

#endif
