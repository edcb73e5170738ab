#ifndef RBPROBE_FOLLOWER_H
#define RBPROBE_FOLLOWER_H

#include "attach.h"
#include "decode.h"
#include "options.h"
#include "output.h"
#include "sink.h"

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
	struct command request;
	struct call_limit limit;
	struct error
		*hook_question; /* where the target's question whether engine hook may be used goes; NULL: it counts as refused */
	const char *stop_reason; /* NULL: going on */
	int status;              /* enum exit_status: the first thing that went wrong */
	uint64_t armed_ns;       /* when the first process was; 0: none is */
	uint64_t last_event_ns;
};

/* One process of a run. */
struct follower {
	struct run *run;
	pid_t pid;
	struct session session;
	struct stream *stream; /* NULL: it was never attached to, or all is told */
	uint64_t armed_ns;     /* 0: not yet */
	bool *found;           /* by selector: it has matched a method; NULL: none has */
	struct record_end end;
	bool has_end;
	bool over;
};

/* Begins to attach; says what is wrong and is over where that cannot work. */
void follower_open(struct follower *follower);

/* Does what is due: events are what poll() gave for the session's descriptor. */
void follower_step(struct follower *follower, short events, uint64_t now_ns);

/* Lets go: at once where the process was not reached yet, else what is in flight comes first. */
void follower_stop(struct follower *follower);

/* A warning is not shown with -q. */
void run_warn(const struct run *run, const char *text);

#endif
