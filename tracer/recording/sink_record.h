#ifndef RBPROBE_SINK_RECORD_H
#define RBPROBE_SINK_RECORD_H

#include "tracer/recording/recent.h"
#include "tracer/recording/trigger.h"
#include "tracer/stream/sink.h"

/* The sink of `rbprobe record`: what processes send is kept as it came, and shown by `rbprobe replay`. */

extern const struct sink_ops sink_record;

/* How it is written. */
struct record_manner {
	bool progress;        /* a line on the terminal says how far it is */
	const char *path;     /* with files: the output's */
	uint64_t rotate_size; /* the next file begins when one has so many bytes */
	uint32_t files;       /* so many are kept; 0: it is one file of any size */

	/* A flight recorder: only what is recent is kept, and written when something happens, or at the end. */
	bool flight;
	struct recent_limits last;
	const struct triggers *triggers;
	bool goes_on; /* after a trigger */
	/* A file was written, for that reason; or, with the second one, none, as nothing has happened in the time. */
	void (*written)(void *owner, const struct sink *sink, uint64_t span_ns, const char *reason);
	void (*nothing)(void *owner);
	/* What has come so far was written on SIGUSR1, without a flight recorder. */
	void (*up_to_now)(void *owner);
	void *owner;
};

/*
 * The recording begins when the first process has been reached. head: without times, programs and hosts, which are filled in; its
 * selectors outlive the sink.
 */
struct sink *sink_record_new(struct output *output, const struct sink_style *style, const struct recording_head *head,
                             const struct record_manner *manner);
/* Writes what is left. sink_free() frees it. */
void sink_record_end(struct sink *sink);

/* Whether it waits for --until, and that was not met. */
bool sink_record_waits(const struct sink *sink);
/* What a flight recorder keeps is less than the time that was asked for, as it would have been too much. */
bool sink_record_is_cut(const struct sink *sink);

/* Of the newest file; and how many older ones were left by this recording. */
uint64_t sink_record_size(const struct sink *sink);
uint32_t sink_record_older(const struct sink *sink);

#endif
