#ifndef RBPROBE_TRACE_TARGET_H
#define RBPROBE_TRACE_TARGET_H

#include "tracer/attach/attach.h"
#include "tracer/base/output.h"
#include "tracer/cli/options.h"
#include "tracer/commands/trace_files.h"
#include "tracer/stream/decode.h"
#include "tracer/stream/sink.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct fork_place;

/* What all processes of one run of `rbprobe trace` share. */
struct run {
	const struct options *options;
	struct output *output; /* what is common to them; and its sink, */
	struct sink *sink;     /* NULL where each has a file of its own */
	const struct sink_maker *maker;
	pid_t launched; /* 0, or the process that `rbprobe exec` started */
	bool several;   /* lines say of which process they are */
	bool workers;   /* they come and go, and the end of one is no failure */
	struct command command;
	struct call_limit limit;
	struct error
		*hook_question; /* where the target's question whether engine hook may be used goes; NULL: it counts as refused */
	const char *stop_reason; /* NULL: going on */
	int status;              /* enum exit_status: the first thing that went wrong */
	int worker_status;       /* the same with workers: what counts where none could be traced */
	uint64_t armed_ns;       /* when the first process was; 0: none is */
	uint64_t last_event_ns;
	uint64_t expecting_ns; /* since when a launched process is to load the extension; 0: it has, or was found late */
	uint64_t unheard;      /* forked processes that have said nothing */
};

/* It says on standard error what rbtrace says. */
static inline bool is_like_rbtrace(const struct run *run)
{
	return run->options->format == &sink_rbtrace;
}

/* One process of a run. */
struct trace_target {
	struct run *run;
	pid_t pid;
	struct trace_file file; /* its own, if it has one */
	struct output *output;  /* that or the common one */
	struct sink *sink;
	struct attachment attachment;
	struct stream *stream; /* NULL: it was never attached to, or all is shown */
	uint64_t armed_ns;     /* 0: not yet */
	bool *found;           /* by selector: it has matched a method; NULL: none has */
	struct record_end end;
	bool has_end;
	uint64_t workers_looked_ns; /* when its children were looked for, as nothing was seen so far (trace_workers.h) */
	bool workers_told;
	bool ended_known; /* what of its children had ended when the trace began */
	uint64_t ended_children;
	bool had_copy; /* among its children was a copy that rbprobe has made, whose end counts as that of a child */
	bool asked;    /* for its statistics, which have not come yet */
	bool silent;   /* and it was said that they have not */
	bool told;     /* some have come */
	bool joined;   /* while others were traced already */
	bool forked;   /* by a process that is or was traced, parent, 0 where that has ended: it came by itself (trace_forks.h) */
	pid_t parent;
	struct fork_place *place;          /* where forked ones come to; NULL: nowhere */
	bool greeted;                      /* it has answered the handshake */
	bool partial;                      /* replay: not all that END counts is shown, */
	uint64_t left_out, marks_left_out; /* and so many more do not meet the conditions */
	bool gone;                         /* the process itself has ended */
	bool over;
};

/* One of a process, that is to be opened. Where it is over, everything it had can be freed. */
struct trace_target *trace_target_new(struct run *run, pid_t pid);
void trace_target_free(struct trace_target *traced);

/* Begins to attach; says what is wrong and is over where that cannot work. */
void trace_target_open(struct trace_target *traced);

/* The same for one that has been forked, and has connected to this place. */
void trace_target_adopt(struct trace_target *traced, pid_t parent, struct fork_place *place, int descriptor);

/* Does what is due: events are what poll() gave for the session's descriptor. */
void trace_target_step(struct trace_target *traced, short events, uint64_t now_ns);

/* Asks for what it has counted so far; the sink gets it. */
void trace_target_ask(struct trace_target *traced);

/* Lets go: at once where the process was not reached yet, else what is in flight comes first. */
void trace_target_stop(struct trace_target *traced);

/* What it has told, as it is traced or replayed: a warning goes to the sink, and to standard error as -q and -v want it. */
void trace_target_note(const struct trace_target *traced, const struct record_note *note);

/* A warning is not shown with -q. */
void run_warn(const struct run *run, const char *text);

#endif
