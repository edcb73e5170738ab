#ifndef RBPROBE_SINK_H
#define RBPROBE_SINK_H

#include "tracer/base/output.h"
#include "tracer/stream/stream.h"

#include "proto/record.h"

#include <stdbool.h>
#include <stdint.h>

/* An output format is one struct sink_ops and the file that holds it. */

struct sink;
struct thread_span;
struct threads_gap;

#define SUMMARY_REASON_MAX 160 /* with its NUL */
/* Of a reason to end: nobody has said what was lost. */
#define SUMMARY_UNCONFIRMED ", unconfirmed: calls may be missing that nobody counted"

/* A summary of one target. */
struct sink_summary {
	pid_t pid;
	uint64_t calls;
	uint64_t lost;           /* of calls and lines */
	uint64_t other_ractors;  /* events of other Ractors, which are not followed */
	uint64_t left_out;       /* calls that do not meet the conditions */
	uint64_t counted;        /* calls and lines that were only counted, to take less of the process */
	uint32_t mark_kinds;     /* bits by enum mark_kind: which were asked for; */
	const uint64_t *marks;   /* how many of each there were, */
	uint64_t marks_lost;     /* how many others, of whatever kind, */
	uint64_t marks_left_out; /* and how many that do not meet the conditions */
	uint64_t duration_ns;
	const char *reason; /* why it ended */
	bool gone;          /* the process has ended, or is another program */
	bool cut_short;     /* it did not come to its last word: what it counted since it was last asked is not known */
	uint64_t lines;     /* that were reached */
};

struct sink_ops {
	const char *name;                /* as --format spells it */
	size_t size;                     /* of the format's own struct, which begins with a struct sink */
	void (*init)(struct sink *sink); /* of that; NULL: all zero */

	/*
	 * A call begins; event has its arguments, call->kept is where the sink may keep something for the call in
	 * fiber->kept until it ends. fiber->depth is the number of calls around it.
	 */
	void (*start)(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event);
	/* It ends; the event has the result, or the exception's class and message. */
	void (*end)(struct sink *sink, struct fiber *fiber, struct call *call, const struct event *event, uint64_t duration_ns);
	/* A call without traced calls inside began and ended: the event has its arguments and its outcome. */
	void (*whole)(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event);
	/* Something else happened in the fiber, in the innermost open call. */
	void (*mark)(struct sink *sink, struct fiber *fiber, struct method *method, const struct event *event);
	/* A line was reached; the event has its values. */
	void (*line)(struct sink *sink, struct fiber *fiber, struct method *line, const struct event *event);
	/* What a thread has done from one moment to another. NULL: the format has no such thing. */
	void (*thread)(struct sink *sink, struct stream *stream, const struct thread_span *span);
	/* Changes of threads' states were lost: what they did is not known for a while. NULL: as well. */
	void (*threads_lost)(struct sink *sink, struct stream *stream, const struct threads_gap *gap);
	/* It is still open, and its end will not come any more. NULL: only calls that have ended are shown. */
	void (*open)(struct sink *sink, struct fiber *fiber, struct call *call);
	/* Nothing more comes of the fiber, and it may be freed. NULL: only open calls are held. */
	void (*forget)(struct sink *sink, const struct fiber *fiber);
	/* The fiber is described anew: its `prepared` will be empty. NULL: nothing depends on what is in there. */
	void (*described_anew)(struct sink *sink, const struct fiber *fiber);
	/* Calls were lost here. NULL: the summary alone says it. */
	void (*lost)(struct sink *sink, struct stream *stream, const struct record_lost *lost);
	/* Nothing has come for a moment: show what was held back. NULL: nothing ever is. */
	void (*quiet)(struct sink *sink);
	/* Whether something is held back. NULL: never. */
	bool (*holds)(const struct sink *sink);
	/* When something that waits is to be shown, by the clock (UINT64_MAX: never), and: shows it. NULL: nothing ever waits. */
	uint64_t (*wake_ns)(const struct sink *sink);
	void (*wake)(struct sink *sink, uint64_t now_ns);
	/* The user asks, by SIGUSR1, for what it holds. NULL: it is never asked. */
	void (*asked)(struct sink *sink);
	/* Whether it has what it was waiting for, and the run may end. NULL: it waits for nothing. */
	bool (*enough)(const struct sink *sink);
	/* A selector that matched no method of a target; at its end, before the summary. NULL: the format has no such thing. */
	void (*unmatched)(struct sink *sink, pid_t pid, const char *selector);
	/* What a target warns of, such as a method that is not traced any more. NULL: the format has no such thing. */
	void (*note)(struct sink *sink, pid_t pid, struct slice text);
	/* Sums over all marks of a kind; towards the end. NULL: the format has no such thing. */
	void (*totals)(struct sink *sink, struct stream *stream, const struct record_totals *totals);
	/*
	 * A piece of what a target has counted (STATISTICS), and: all that were asked have sent theirs. 0, or negative with err
	 * where it is nonsense. NULL: the format shows calls. One that does not has none of the functions for them but lost().
	 */
	int (*data)(struct sink *sink, struct stream *stream, const msgpack_object *piece, struct error *err);
	void (*round)(struct sink *sink);
	/*
	 * A record as it came, with its length in front, after what it says was given to the other functions. NULL: the format
	 * has no use for it.
	 */
	void (*record)(struct sink *sink, struct stream *stream, const struct record *record, const uint8_t *bytes, size_t size);
	/* One target is done. NULL: the format has no such thing. */
	void (*summary)(struct sink *sink, const struct sink_summary *summary);
	/*
	 * The stream is freed after this. A target that failed before it was armed has had no summary. NULL: nothing points to
	 * streams.
	 */
	void (*gone)(struct sink *sink, const struct stream *stream);
	/* Frees what the format holds. NULL: nothing. */
	void (*close)(struct sink *sink);
};

struct sink_style {
	bool start_times;
	bool durations;
	bool colors;
	bool many_pids;  /* name the process on each line */
	uint32_t indent; /* spaces per level */
	uint32_t flags;  /* of the trace command: what was measured */
	bool by_thread;  /* text: a fiber's outermost call in one piece */
	bool running;    /* a call that has begun and not ended is slow: tell it at once */
};

struct sink {
	const struct sink_ops *ops;
	struct output *output;
	struct sink_style style;
};

extern const struct sink_ops sink_text;
extern const struct sink_ops sink_json;
extern const struct sink_ops sink_rbtrace;

/* NULL: no such format. */
const struct sink_ops *sink_find(const char *name);
struct sink *sink_new(const struct sink_ops *ops, struct output *output, const struct sink_style *style);
void sink_free(struct sink *sink);

#endif
