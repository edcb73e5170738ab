#ifndef RBPROBE_OTLP_RUN_H
#define RBPROBE_OTLP_RUN_H

#include "tracer/base/output.h"
#include "tracer/cli/options.h"
#include "tracer/otlp/otlp_sender.h"
#include "tracer/otlp/sink_otlp.h"

/* What a run with --otlp sends, and what there is to say about it. */

struct otlp_run {
	struct otlp_settings settings;
	struct otlp_sender *sender; /* NULL: none is open */
	struct otlp_manner manner;  /* for a sink of spans */
	const char *item;           /* what is sent: "span" */
	bool quiet;
	bool wait;             /* while there is no room: nothing is dropped, and who gives waits */
	int stop;              /* and where one waits, what ends that: see otlp_sender_give() */
	bool failed;           /* nothing more is taken */
	uint64_t wait_told_ns; /* when it is to be said that the end takes a while; UINT64_MAX: it has been */
};

/* What --otlp needs is there, and what cannot go with it is not. 0, or an exit status after a line on stderr. */
int otlp_run_check(const struct options *options);
/* Of what sends spans; the same return. */
int otlp_run_check_spans(const struct options *options);
/* The same return. */
int otlp_run_open(struct otlp_run *run, const struct options *options, enum otlp_signal signal);
/* A request with so many items, whose bytes it takes. */
void otlp_run_give(struct otlp_run *run, struct buffer *request, uint64_t items);
/* Once in a while: says what is new. Where nothing will be taken any more, the output fails, which ends the run. */
void otlp_run_look(struct otlp_run *run, struct output *output);
/* Sends what is left, and says what came of all. Returns the status; STATUS_FAILED where that was good and something is lost. */
int otlp_run_close(struct otlp_run *run, int signals, int status);

#endif
