#ifndef RBPROBE_TRACE_TARGET_H
#define RBPROBE_TRACE_TARGET_H

#include "tracer/attach/attach.h"
#include "tracer/base/output.h"
#include "tracer/cli/options.h"
#include "tracer/stream/decode.h"
#include "tracer/stream/sink.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What all processes of one run of `rbprobe trace` share. */
struct run {
	const struct options *options;
	struct output *output;
	struct sink *sink;
	pid_t launched; /* 0, or the process that `rbprobe exec` started */
	size_t process_count;
	struct command command;
	struct call_limit limit;
	struct error
		*hook_question; /* where the target's question whether engine hook may be used goes; NULL: it counts as refused */
	const char *stop_reason; /* NULL: going on */
	int status;              /* enum exit_status: the first thing that went wrong */
	uint64_t armed_ns;       /* when the first process was; 0: none is */
	uint64_t last_event_ns;
};

/* One process of a run. */
struct trace_target {
	struct run *run;
	pid_t pid;
	struct attachment attachment;
	struct stream *stream; /* NULL: it was never attached to, or all is shown */
	uint64_t armed_ns;     /* 0: not yet */
	bool *found;           /* by selector: it has matched a method; NULL: none has */
	struct record_end end;
	bool has_end;
	bool workers_looked; /* for its children, some time after nothing was seen (trace_workers.h) */
	bool workers_told;
	bool asked; /* for its statistics, which have not come yet */
	bool over;
};

/* Begins to attach; says what is wrong and is over where that cannot work. */
void trace_target_open(struct trace_target *traced);

/* Does what is due: events are what poll() gave for the session's descriptor. */
void trace_target_step(struct trace_target *traced, short events, uint64_t now_ns);

/* Asks for what it has counted so far; the sink gets it. */
void trace_target_ask(struct trace_target *traced);

/* Lets go: at once where the process was not reached yet, else what is in flight comes first. */
void trace_target_stop(struct trace_target *traced);

/* A warning is not shown with -q. */
void run_warn(const struct run *run, const char *text);

#endif
